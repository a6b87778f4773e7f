"""An HCA dies, and the kernel gives its name to the next one: the address and the serial number
tell which one it was.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dead_parts import HCA, HCA_AT
from over_time import BOOT, EIGHT, file_of, later
from program import Call

from gpuscan.recording import Recording, load

SERIAL, NEXT_AT, NEXT_SERIAL = "MT2333ZT00003", "0000:9a:00.0", "MT2333ZT00004"
PROFILE = ("--profile", "h100-8x")
STATE_OF = ("dir:", "file:", "link:")


def renumbered() -> Recording:
    """The node a day later without mlx5_3: mlx5_4 is mlx5_3 now, and so on."""

    def name(found: re.Match[str]) -> str:
        number = int(found[1])
        return f"mlx5_{number - (number > int(HCA[-1]))}"

    def anew(value: object) -> object:
        if isinstance(value, list):
            return [anew(one) for one in value if one not in (HCA, HCA_AT)]
        return re.sub(r"mlx5_(\d+)", name, value) if isinstance(value, str) else value

    whole = load(EIGHT)
    left = Recording(whole.meta, whole.scope)
    for reading in whole:
        if HCA not in reading.key and HCA_AT not in reading.key:
            ours = reading.key.startswith(STATE_OF) and reading.error is None
            value = anew(reading.value) if ours else reading.value
            left.add(reading._replace(key=str(anew(reading.key)), value=value))
    return later(left, 1, "00000002-0000-4000-8000-000000000000")


@pytest.fixture
def lost(call: Call, tmp_path: Path) -> tuple[str, str, tuple[str, str]]:
    """The files of before and now, and a state that knows the node of before."""
    state = ("--state-dir", str(tmp_path / "state"))
    before = file_of(load(EIGHT), tmp_path, "before.json.gz")
    assert call("judge", before, "-q", *PROFILE, *state).code == 0
    return before, file_of(renumbered(), tmp_path, "now.json.gz"), state


Lost = tuple[str, str, tuple[str, str]]


def test_the_missing_hca_is_named_by_its_address(call: Call, lost: Lost) -> None:
    _, now, state = lost
    done = call("judge", now, *PROFILE, *state)
    assert done.code == 40
    assert f"{HCA_AT} (was {HCA}, serial {SERIAL}) is absent: reseat the HCA" in done.out
    assert f"nic {HCA_AT}: address {HCA_AT}" in done.out
    assert "mlx5_7" not in done.out  # it is mlx5_6 now
    assert call("judge", now, *PROFILE, *state).code == 40  # the second run knows no less
    assert f"(was {HCA}, serial {SERIAL})" in call("judge", now, *PROFILE, *state).out


def test_a_name_that_another_hca_has_now_is_refused(call: Call, lost: Lost) -> None:
    _, now, state = lost
    begin = ("swap", "begin", "--ticket", "T", "--bug-report", "0", "--replay", now, *state)
    taken = call(*begin, "--part", f"nic:{HCA}")
    assert taken.code == 2
    assert f"{HCA} is at {NEXT_AT} now (serial {NEXT_SERIAL})" in taken.err
    assert f"was at {HCA_AT} (serial {SERIAL}), which is gone" in taken.err
    former = call(*begin, "--part", "nic:mlx5_7")
    assert (former.code, "it is mlx5_6 now" in former.err) == (2, True)
    for name in (HCA_AT, SERIAL):
        begun = call(*begin, "--part", f"nic:{name}")
        assert begun.code == 0, begun.err
        assert f"serial      {SERIAL} (from an earlier run)" in begun.out


def test_only_the_lost_hca_and_its_cable_have_changed(call: Call, lost: Lost) -> None:
    before, now, _ = lost
    done = call("diff", before, now, *PROFILE, "--expect", f"nic:{HCA}")
    changed = done.out.partition("Changed: ")[2].partition("Not read")[0]
    assert re.findall(r"(nic|cable) (\S+):", changed) == [("nic", HCA), ("cable", f"{HCA}/1")]
    assert BOOT in renumbered()
