"""One planted fault of each kind: the proof that its hold plans finds it, also where a quick
burn-in does not; once it is mended, it is proven to be gone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import Change, Growth
from machine import EIGHT, call
from paths import RECORDINGS
from planting import Stand, assert_proven, stand

from gpuscan.recording import Recording, load

pytestmark = pytest.mark.burnin
TWO = RECORDINGS / "h100-2x.json.gz"
WRONG = "burnin.corruption"
GSP_TIMEOUT = (
    "4,9000,900000000,-;NVRM: Xid (PCI:{}): 119, pid=1234, name=python3, Timeout after 6s of"
    " waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x2080 0x4)."
)


@pytest.fixture
def two(machine: Callable[[Recording], Any], tmp_path: Path) -> Stand:
    return stand(machine(load(str(TWO))), tmp_path, "h100")


def assert_missed(two: Stand, bad: dict[str, Any]) -> None:
    """A generic quick burn-in passes."""
    done = two.quick({two.machine.gpus()[0]: bad})
    assert (done.code, done.report["findings"]) == (0, [])


def assert_found_and_mended(two: Stand, check: str, bad: dict[str, Any], code: int) -> None:
    """The proof finds the fault, and without it proves that it is gone."""
    exit_code, rows = two.prove({two.machine.gpus()[0]: bad})
    assert (exit_code, rows[check]["outcome"]) == (code, "seen"), rows
    assert rows[check]["confidence"] is None
    exit_code, rows = two.prove()
    assert exit_code == code, "a proof lifts nothing"
    assert_proven(rows[check])
    assert rows[check]["beside"] > 0, "its neighbours are the control"


@pytest.mark.parametrize(
    ("strong", "planted"),
    [
        pytest.param(
            {"flip": ["gemm"], "variant": "fp8-exact", "every": 1},
            {"flip": ["gemm"], "variant": "fp8-exact", "every": 1, "hot": 1},
            id="fp8-only-hot",
        ),
        pytest.param(
            {"flip": ["gemm"], "variant": "bf16-exact", "every": 3},
            {"flip": ["gemm"], "variant": "bf16-exact", "every": 60},
            id="bf16-rare",
        ),
        pytest.param(
            {"flip": ["fill"], "every": 5, "until": 12},
            {"flip": ["step"], "every": 7, "hot": 1},
            id="memory-only-hot-and-inverted",
        ),
    ],
)
def test_what_is_computed_or_kept_wrong(
    two: Stand, strong: dict[str, Any], planted: dict[str, Any]
) -> None:
    reason = two.hold({two.machine.gpus()[0]: strong})[WRONG]
    assert reason["code"] == 41
    assert_missed(two, planted)
    assert_found_and_mended(two, WRONG, planted, 41)


@pytest.mark.parametrize(
    ("source", "target", "every"),
    [
        pytest.param("GPU", "other", 10, id="to-a-peer"),
        pytest.param("host", "GPU", 39, id="from-the-host"),
    ],
)
def test_what_is_copied_wrong_one_way(two: Stand, source: str, target: str, every: int) -> None:
    mine, other = two.machine.gpus()
    names = {"GPU": mine, "other": other, "host": "host"}
    fault = {"flip": ["copy"], "from": names[source], "to": names[target]}
    reason = two.hold({mine: {**fault, "every": 1}})[WRONG]
    assert reason["code"] == 40
    assert_missed(two, {**fault, "every": every})
    assert_found_and_mended(two, WRONG, {**fault, "every": every}, 40)


def test_rows_that_want_to_be_remapped_under_passes_over_hot_memory(two: Stand) -> None:
    bad, _ = two.machine.gpus()
    rows = two.folder / "rows"
    grows = Growth(rows, most=1, result=2)
    two.machine.nvml({f"nvml:nvmlDeviceGetRemappedRows({bad})": Change(grows=grows)})
    rows.write_text("pending", "ascii")
    check = "memory.row_remap_pending"
    assert two.hold(level="passive")[check]["code"] == 30
    rows.unlink()  # as the GPU was reset
    planted = {"flip": ["step"], "every": 7, "hot": 1, "leaves": str(rows)}
    assert_missed(two, planted)
    exit_code, found = two.prove({bad: planted})
    assert (exit_code, found[check]["outcome"]) == (30, "seen")
    rows.unlink()
    _, found = two.prove()
    assert_proven(found[check])
    assert found[check]["unit"] == "words read"


def test_counters_that_grow_only_under_copies(two: Stand) -> None:
    """A link's CRC errors on one GPU, PCIe replays on the other."""
    linked, replaying = two.machine.gpus()
    crc, replays = two.folder / "crc", two.folder / "replays"
    two.machine.nvml(
        {
            f"nvml:nvmlDeviceGetFieldValues({linked},163,3)": Change(
                grows=Growth(crc, step=100_000, result=1)
            ),
            f"nvml:nvmlDeviceGetPcieReplayCounter({replaying})": Change(
                grows=Growth(replays, step=10_000)
            ),
        }
    )
    faults = {
        linked: {"flip": ["copy"], "to": replaying, "every": 1, "leaves": str(crc)},
        replaying: {"flip": ["copy"], "from": "host", "every": 1, "leaves": str(replays)},
    }
    held = two.hold(faults)
    checks = {"nvlink.link_errors", "pcie.replays", "burnin.error_counters"}
    assert checks <= set(held)
    exit_code, rows = two.prove(faults)
    assert exit_code == 40
    assert {check: rows[check]["outcome"] for check in checks} == dict.fromkeys(checks, "seen")
    exit_code, rows = two.prove()
    assert exit_code == 40
    for check in checks:
        assert_proven(rows[check])


def test_heat_that_only_a_soak_at_full_power_brings(two: Stand) -> None:
    bad, _ = two.machine.gpus()
    heat = two.folder / "heat"
    two.machine.nvml({call("Temperature", bad, ",0"): Change(grows=Growth(heat, 60, 60))})
    heat.write_text("!", "ascii")
    check = "thermal.core_temperature"
    assert two.hold(level="passive")[check]["code"] == 40
    heat.unlink()
    sampled = {"pause": [91, 0.5]}  # of some 80 products in a quick burn-in, 100 in the proof
    planted = {"flip": ["gemm"], "variant": "bf16", "every": 90, "leaves": str(heat), **sampled}
    assert_missed(two, planted)
    exit_code, rows = two.prove({bad: planted})
    assert (exit_code, rows[check]["outcome"]) == (40, "seen")
    heat.unlink()
    _, rows = two.prove({bad: sampled})
    assert_proven(rows[check])
    assert rows[check]["hottest_c"] < 60


def test_an_xid_that_only_the_load_brings_that_raised_it(two: Stand) -> None:
    bad, _ = two.machine.gpus()
    line = GSP_TIMEOUT.format(bad.removesuffix(".0"))
    log = two.machine.root / "dev" / "kmsg"
    clean = log.read_bytes()
    fault = {"flip": ["gemm"], "variant": "fp8", "logs": [str(log), line]}
    reason = two.hold({bad: {**fault, "every": 1}})["xid.faults"]
    assert (reason["code"], reason["tests"].split()[1:]) == (30, ["stress-fp8"])
    log.write_bytes(clean)
    planted = {**fault, "every": 60}
    assert_missed(two, planted)
    exit_code, rows = two.prove({bad: planted})
    assert (exit_code, rows["xid.faults"]["outcome"]) == (30, "seen")
    log.write_bytes(clean)
    _, rows = two.prove()
    assert_proven(rows["xid.faults"])


@pytest.mark.parametrize(
    ("name", "check", "count", "told"),
    [
        ("symbol_error", "infiniband.symbol_errors", 5000, "5000 symbol errors"),
        ("link_downed", "infiniband.link_flaps", 1, "it went down 1 time"),
    ],
)
def test_a_port_that_only_traffic_shows(
    machine: Callable[[Recording], Any],
    tmp_path: Path,
    name: str,
    check: str,
    count: int,
    told: str,
) -> None:
    node = stand(machine(load(str(EIGHT))), tmp_path)
    port = node.machine.root / "sys/class/infiniband/mlx5_0/ports/1"
    good = {file: (port / file).read_text("ascii") for file in ("state", "phys_state")}
    (port / "state").write_text("1: DOWN\n", "ascii")
    (port / "phys_state").write_text("2: Polling\n", "ascii")
    state = "infiniband.port_state"
    assert node.hold(level="passive")[state]["code"] == 40
    for file, text in good.items():
        (port / file).write_text(text, "ascii")
    exit_code, rows = node.prove()
    assert (exit_code, rows[state]["outcome"]) == (40, "not-exercised")
    assert "ib_write_bw is not on PATH" in rows[state]["why"]
    counter = port / "counters" / name
    node.put_perftest(counter, count)
    exit_code, rows = node.prove()
    assert (exit_code, rows[state]["outcome"]) == (40, "seen")
    assert told in rows[state]["why"]
    counter.write_text("0\n", "ascii")
    node.put_perftest(counter, 0)
    _, rows = node.prove()
    for one in (state, check):
        assert_proven(rows[one])
