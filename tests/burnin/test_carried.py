"""What people see of a proof after the run that made it: a swap's report, `status`, `ticket` and
`history`, by the program on a fake machine of two H100.
"""

from __future__ import annotations

import json
import os
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from machine import Done, Machine
from paths import RECORDINGS, ROOT, TESTS
from program import Ended, start

from gpuscan.profile import load as load_profile
from gpuscan.recording import Recording, load, patch

pytestmark = pytest.mark.burnin
TWO = load(str(RECORDINGS / "h100-2x.json.gz"))
LIMITS = "init=60,call=45,host=30,worker=60"
BAD, NEW = "0000:00:06.0", "1650000000999"
SERIAL = f"nvml:nvmlDeviceGetSerial({BAD})"
BOOT = {"file:/proc/sys/kernel/random/boot_id": "99999999-2222-4333-8444-555555555555\n"}
FLIPS = {BAD: {"flip": "gemm"}}
UNPROVEN = "not exercised since the fault"
Make = Callable[[Recording], Machine]


def env(faults: Mapping[str, Any] | None = None) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(TESTS), str(TESTS / "fake_cuda" / "binding")])
    return {"PYTHONPATH": path, "FAKE_CUDA_FAULTS": json.dumps(faults or {})}


class Story:
    """One node and its state; what is done to it, and what it is asked."""

    def __init__(self, make: Make, folder: Path) -> None:
        self.make, self.folder, self.state = make, folder, folder / "state"
        self.profile = folder / "whole.yaml"
        burnin = load_profile("h100").data["burnin"]  # the stand-in's speeds mean nothing
        floors = [key for key, value in burnin.items() if isinstance(value, (int, float))]
        self.profile.write_text(
            "extends: h100\ngpu:\n  count: 2\n  nvlinks: 18\ninfiniband:\n  ports: 0\nburnin:\n"
            "  estimates: []\n" + "".join(f"  {key}: null\n" for key in floors),
            "utf-8",
        )
        self.node = make(TWO)

    def changed(self, changes: Mapping[str, Any]) -> None:
        """Let the node be another one from now on."""
        self.node = self.make(patch(TWO, {**changes, **BOOT}))

    def do(self, *words: str, faults: Mapping[str, Any] | None = None) -> Done:
        given = ("--profile", str(self.profile), "--state-dir", str(self.state))
        return self.node.plain(*words, *given, limits=LIMITS, env=env(faults))

    def ask(self, *words: str) -> Ended:
        return start([*words, "--state-dir", str(self.state)])

    def again(self) -> Callable[[], None]:
        """Return what brings back the state as it is now."""
        kept = self.folder / "kept"
        shutil.copytree(self.state, kept)

        def bring_back() -> None:
            shutil.rmtree(self.state)
            shutil.copytree(kept, self.state)

        return bring_back


@pytest.fixture
def story(machine: Make, tmp_path: Path) -> Story:
    return Story(machine, tmp_path)


def test_a_swap_exercises_what_the_node_was_held_for(story: Story, tmp_path: Path) -> None:
    found = story.do("run", "--level", "quick", "--format", "json", faults=FLIPS)
    assert found.code == 41
    words = ("--ticket", "OPS-7", "--part", "gpu:SXM1", "--bug-report", "0")
    assert story.do("swap", "begin", *words).code == 0
    bring_back = story.again()
    story.changed({SERIAL: NEW})
    verify = ("swap", "verify", "--format", "json")

    bad = story.do(*verify, "--level", "quick", faults=FLIPS)  # it is the slot's
    (row,) = bad.report["proof"]
    assert (bad.code, row["outcome"], row["unproven"]) == (41, "seen", False)
    assert bad.report["hold"]["code"] == 41
    assert not any("held no more" in note for note in bad.report["notes"])

    bring_back()
    good = story.do(*verify, "--level", "quick")
    (row,) = good.report["proof"]
    assert (good.code, row["outcome"], row["unproven"]) == (0, "not-seen", False)
    assert row["amount"] > 0
    assert row["beside"] > 0
    assert row["why"] == f"another GPU is in its slot, serial {NEW}"
    assert good.report["hold"] is None
    assert UNPROVEN not in good.out
    listed = story.ask("history", "list", "--part", "SXM1").out
    assert f"proof  gpu SXM1, serial {row['serial']} (burnin.corruption): did not show" in listed
    assert story.ask("history", "list", "--part", "SXM3").out == "no stored run matches\n"

    bring_back()
    junit = tmp_path / "verify.xml"
    passive = story.do(*verify, "--level", "passive", "--report", f"junit={junit}")
    assert passive.code == 0, "replaced: any pass lifts it"
    (row,) = passive.report["proof"]
    assert (row["outcome"], row["unproven"]) == ("not-exercised", True)
    note = f"gpu SXM1 is held no more for burnin.corruption: {UNPROVEN}"
    assert note in passive.report["notes"]
    line = f"{UNPROVEN}: gpu SXM1 (burnin.corruption)"
    assert passive.report["summary"]["headline"] == f"pass (0); {line}"
    assert line in str(ET.parse(junit).getroot().findtext("testsuite/system-out"))
    assert story.do("status").out.startswith(f"pass (0): {line}\n")
