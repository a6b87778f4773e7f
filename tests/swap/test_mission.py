"""The story that gpuscan is for, by the installed program on a fake node: a GPU dies, a swap is
begun, the GPU is changed, and the node goes back to work.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import Change
from machine import Done, Machine
from over_time import BOOT, EIGHT, GPU, SERIAL

from gpuscan.recording import Recording, load, patch

OLD, NEW = load(EIGHT).get(SERIAL), "1650000000999"
HCA, HCA_AT = "mlx5_3", "0000:5e:00.0"
OTHER_SERIAL = "nvml:nvmlDeviceGetSerial(0000:43:00.0)"  # SXM1
NO_REPORT = ("--bug-report", "0")
H100 = ("--profile", "h100-8x")


class Story:
    """One node with one state folder, boot after boot."""

    def __init__(self, make: Callable[[Recording], Machine], folder: Path) -> None:
        self.make, self.state, self.junit = make, folder / "state", folder / "gpuscan.xml"
        self.boots = 0

    def boot(self, changes: dict[str, Any], nvml: dict[str, Change] | None = None) -> None:
        self.boots += 1
        boot_id = f"{self.boots:08x}-0000-4000-8000-000000000000"
        self.node = self.make(patch(load(EIGHT), {**changes, BOOT: boot_id}))
        self.node.nvml(nvml or {})

    def do(self, *words: str) -> Done:
        return self.node.plain(*words, "--state-dir", str(self.state))

    def run(self) -> Done:
        return self.do("run", *H100, "--report", f"junit={self.junit}")

    def failed_cases(self) -> list[str]:
        """The names of the failed test cases in the newest JUnit report."""
        cases = ET.parse(self.junit).iter("testcase")
        return [str(case.get("name")) for case in cases if case.find("failure") is not None]


@pytest.fixture
def story(machine: Callable[[Recording], Machine], tmp_path: Path) -> Story:
    return Story(machine, tmp_path)


def test_a_gpu_dies_and_is_changed(story: Story) -> None:
    story.boot({})
    assert story.run().code == 0
    assert (story.failed_cases(), story.do("status").code) == ([], 0)

    story.boot({}, {f"nvml:*({GPU})": Change(code=15, handle=True)})
    lost = story.run()
    assert lost.code == 30
    assert "gpu SXM4" in lost.out
    assert story.failed_cases() == ["driver.gpu_access[gpu:SXM4]"]
    assert "<system-out>This node is held from now on: gpu SXM4 " in story.junit.read_text()
    assert story.do("status").code == 30

    begun = story.do(
        "swap", "begin", "--ticket", "OPS-7", "--part", "gpu:SXM4", "--bug-report", "0"
    )
    assert begun.code == 0, begun.err
    for words in (f"serial      {OLD} (from an earlier run)", GPU, "next to     SXM3", "held"):
        assert words in begun.out
    assert story.do("status").code == 41

    story.boot({SERIAL: NEW})
    passed = story.run()  # another serial number is in the slot
    assert (passed.code, "run gpuscan swap verify before" in passed.out) == (0, True)
    assert "may go to work" not in passed.out
    unproven = "not exercised since the fault: gpu SXM4 (driver.gpu_access)"
    told = f"<system-out>swap OPS-7 is not verified\n{unproven}</system-out>"
    assert told in story.junit.read_text()
    document = story.do("run", *H100, "--format", "json").report
    assert (document["summary"]["usable"], document["swap_left"]) == (False, "OPS-7")
    assert story.do("run", *H100, "-q").out == "pass (0); swap OPS-7 is not verified\n"
    waits = story.do("status")
    assert (waits.code, "swap OPS-7 is not verified yet" in waits.out) == (3, True)
    verified = story.do("swap", "verify", *H100, "--level", "passive")
    assert verified.code == 0, verified.out
    for words in (f"serial {OLD} -> {NEW}", "OPS-7 is proven", f"{OLD} goes back"):
        assert words in verified.out
    assert story.do("status").code == 0
    assert story.run().code == 0
    assert story.failed_cases() == []


def test_the_wrong_gpu_is_pulled(story: Story) -> None:
    lost = {f"nvml:*({GPU})": Change(code=15, handle=True)}
    story.boot({})
    assert story.run().code == 0
    story.boot({}, lost)
    begun = story.do("swap", "begin", "--ticket", "OPS-9", "--part", "gpu:SXM4", *NO_REPORT)
    assert begun.code == 0, begun.err
    other = load(EIGHT).get(OTHER_SERIAL)
    story.boot({OTHER_SERIAL: NEW}, lost)
    wrong = story.do("swap", "verify", *H100, "--level", "passive")
    assert wrong.code == 31
    for words in (
        "swap OPS-9 is not proven",
        f"Put serial {other} back into SXM1, change SXM4 (serial {OLD}), then run gpuscan swap",
        "gpu SXM1 (swap.other_parts): gpuscan swap verify lifts it",
    ):
        assert words in wrong.out
    story.boot({SERIAL: NEW})
    ran = story.run()
    assert (ran.code, "Put the parts where gpuscan swap verify asked for them" in ran.out) == (
        20,
        True,
    )
    assert story.do("swap", "verify", *H100, "--level", "passive").code == 0
    assert story.do("status").code == 0


def test_an_hca_dies_and_is_changed(story: Story) -> None:
    story.boot({})
    assert story.run().code == 0
    listing = "dir:/sys/class/infiniband"
    left = [name for name in load(EIGHT).get(listing) if name != HCA]
    pci = "dir:/sys/bus/pci/devices"
    gone = {
        listing: left,
        pci: [name for name in load(EIGHT).get(pci) if name != HCA_AT],
        f"*{HCA_AT}*": None,
        f"*infiniband/{HCA}/*": None,
    }
    story.boot(gone)
    lost = story.run()
    assert lost.code == 40
    assert f"{HCA}/1 ({HCA_AT}, serial MT2333ZT00003) is absent" in lost.out

    part = ("--part", f"nic:{HCA}", "--bug-report", "0", "--format", "json")
    begun = story.do("swap", "begin", "--ticket", "OPS-8", *part)
    assert begun.code == 0, begun.err
    (one,) = json.loads(begun.out)["parts"]
    assert (one["slot"], one["address"], one["serial"]) == (HCA, HCA_AT, "MT2333ZT00003")
    assert "last seen" in one["state"]
    assert story.do("status").code == 41

    story.boot({})  # the same HCA is back: reseated, and not replaced
    refused = story.do("swap", "verify", *H100, "--level", "passive")
    assert refused.code == 20
    assert "was not replaced" in refused.out
    vpd = f"file:/sys/bus/pci/devices/{HCA_AT}/vpd"
    story.boot({vpd: load(EIGHT).get(vpd).replace("MT2333ZT00003", "MT2333ZT00093")})
    verified = story.do("swap", "verify", *H100, "--level", "passive")
    assert verified.code == 0, verified.out
    assert story.do("status").code == 0
