"""GPUs: links of which some are unread, other drivers' GPUs, addresses behind long PCI domains."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from building import was_read
from nodes_recordings import base, judged, not_passed
from program import Call

from gpuscan import collectors
from gpuscan.recording import Recording, dump, patch, restore, save

GPU = "0000:52:00.0"
UNREAD = {"error": ["garbled", "Insufficient Resources", 23]}
LOST = {"error": ["lost", "GPU is lost", 15]}
GONE = {"error": ["not-found", "Not Found", 6]}
LONG = "10000:00:07.0"
WAYS = (LONG, "00010000:00:07.0", "10000:00:07", "SXM8")


def link(field: int, number: int) -> str:
    return f"nvml:nvmlDeviceGetFieldValues({GPU},{field},{number})"


@pytest.mark.parametrize("down", [[0], [7], [17], [3, 7, 11]])
@pytest.mark.parametrize("unread", [[1], [16], [1, 2, 16]])
def test_a_link_that_is_down_fails_though_another_is_unread(
    down: list[int], unread: list[int]
) -> None:
    """What was not read counts as up, and what is proven stays proven."""
    changes = {
        **{link(165, number): 0 for number in down},
        **{link(165, number): UNREAD for number in unread},
    }
    report = judged(patch(base("h100-8x-ib"), changes))
    assert (report.exit_code, report.verdict) == (30, "reboot")
    assert not_passed(report)["nvlink.links"] == {"gpu:SXM4": "fail/reset-gpu"}
    messages = [finding.message for result in report.results for finding in result.findings]
    assert messages == [
        f"{18 - len(down)} of 18 NVLinks are up (down: {', '.join(map(str, down))})"
    ]


def test_links_that_are_unread_alone_are_unknown() -> None:
    report = judged(patch(base("h100-8x-ib"), {link(165, number): UNREAD for number in range(18)}))
    assert (report.exit_code, not_passed(report)["nvlink.links"]) == (
        3,
        {"gpu:SXM4": "unknown"},
    )


def bound_to(driver: str, answer: Any) -> Recording:
    key = f"file:/sys/bus/pci/devices/{GPU}/uevent"
    text = re.sub(
        "DRIVER=nvidia\n", f"DRIVER={driver}\n" if driver else "", base("h100-8x-ib").get(key)
    )
    return patch(base("h100-8x-ib"), {key: text, f"nvml:*({GPU}*": answer})


@pytest.mark.parametrize("driver", ["vfio-pci", "nouveau", "pci-stub"])
@pytest.mark.parametrize("answer", [LOST, GONE], ids=["lost", "not found"])
def test_a_gpu_that_another_driver_holds_is_a_setting(driver: str, answer: Any) -> None:
    report = judged(bound_to(driver, answer))
    assert (report.exit_code, report.verdict) == (20, "software")
    assert list(not_passed(report)["driver.gpu_access"].values()) == ["fail/fix-config"]
    messages = [finding.message for result in report.results for finding in result.findings]
    assert f"the GPU is bound to {driver} instead of the NVIDIA driver" in messages


@pytest.mark.parametrize("driver", ["nvidia", ""])
def test_a_gpu_that_nvidia_s_driver_lost_is_no_setting(driver: str) -> None:
    """Nor is one that no driver holds: it may have failed to start."""
    report = judged(bound_to(driver, LOST))
    assert (report.exit_code, list(not_passed(report)["driver.gpu_access"].values())) == (
        30,
        ["fail/reboot"],
    )


def moved(*log: str, lost: bool = False) -> Recording:
    """The demo with its GPU 0000:00:07.0 in the PCI domain 10000, as behind a controller that
    makes one of its own.
    """
    text = re.sub(r"(?:0000)?0000:00:07", LONG[:-2], json.dumps(dump(base("demo"))))
    recording = restore(json.loads(text), "moved")
    return patch(recording, {f"nvml:*({LONG}*": LOST} if lost else {}, log)


XIDS = [
    f"NVRM: Xid (PCI:{way}): 119, pid=7, name=x, Timeout"
    for way in ("10000:00:07", "00010000:00:07", LONG, LONG.upper())
]


@pytest.mark.parametrize("line", XIDS)
def test_a_gpu_behind_a_long_domain_and_its_xid_agree(line: str) -> None:
    node = collectors.node(moved(line))
    assert LONG in [gpu.address for gpu in was_read(node.gpus)]
    (incident,) = was_read(node.incidents)
    assert (incident.label, incident.address) == ("Xid 119 on SXM8", LONG)
    assert judged(moved()).exit_code == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_gpu_behind_a_long_domain_is_found_by_its_name(
    way: str, tmp_path: Path, call: Call
) -> None:
    file = str(tmp_path / "moved.json")
    save(moved(*XIDS), file)
    done = call("judge", file, "--gpus", way, "--format", "json")
    document = json.loads(done.out)
    assert (
        done.code,
        [part["address"] for part in document["parts"] if part["kind"] == "gpu"],
    ) == (30, [LONG])
    assert [(row["subject"], row["address"]) for row in document["findings"]] == [
        ("incident:Xid 119 on SXM8", LONG)
    ]
    assert call("judge", file, "--gpus", "SXM5").code == 0


def test_a_lost_gpu_behind_a_long_domain_is_one_finding() -> None:
    lines = (
        "NVRM: Xid (PCI:10000:00:07): 79, GPU has fallen off the bus.",
        "NVRM: GPU 10000:00:07.0: GPU has fallen off the bus.",
        (
            "NVRM: Xid (PCI:10000:00:07): 154, GPU recovery action changed from 0x0 (None) to 0x2"
            " (Node Reboot Required)"
        ),
    )
    report = judged(moved(*lines, lost=True))
    assert (report.exit_code, report.verdict) == (30, "reboot")
    assert not_passed(report) == {"driver.gpu_access": {f"gpu:{LONG}": "fail/reboot"}}
