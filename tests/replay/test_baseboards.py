"""Each bundled baseboard profile: its node passes, and what is broken on it fails for the right
reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from nodes_boards import CLOUD_A100, DELL_H200, DGX_A100, DGX_B200, GB200_TRAY, Site
from nodes_recordings import base, judged, not_passed, profile_named

from gpuscan.model import is_unread
from gpuscan.recording import Recording, patch


class Case(NamedTuple):
    """A healthy node, the profile that it is judged by, and where its GPUs sit."""

    node: str
    profile: str
    site: Site

    @property
    def address(self) -> str:
        """The second GPU's address."""
        return self.site.seats[1].gpu

    @property
    def gpu(self) -> str:
        """The second GPU as a subject."""
        return f"gpu:SXM{self.site.seats[1].module}"

    @property
    def port(self) -> str:
        """The second port's folder."""
        return f"/sys/class/infiniband/{self.site.hcas[1]}/ports/1"

    def call(self, name: str, arguments: str = "") -> str:
        """A call on the second GPU."""
        return f"nvml:nvmlDeviceGet{name}({self.address}{arguments})"


CASES = (
    Case("a100-8x-ib", "a100-8x", DGX_A100),
    Case("a100-40gb-cloud", "a100-40gb", CLOUD_A100),
    Case("h100-8x-ib", "h100-8x", Site()),
    Case("h200-8x-ib", "h200-8x", DELL_H200),
    Case("b200-8x-ib", "b200-8x", DGX_B200),
    Case("gb200-4x", "gb200-4x", GB200_TRAY),
)
COUNTED = tuple(
    case for case in CASES if case.profile != "a100-40gb"
)  # any number of GPUs, any driver, no ports
WITH_PCIE = tuple(
    case for case in CASES if case.profile != "gb200-4x"
)  # the host link is NVLink-C2C
WITH_POWER = tuple(
    case for case in CASES if case.profile != "a100-8x"
)  # boards of 400 and of 500 W are in use
FABRIC = tuple(case for case in CASES if not case.profile.startswith("a100"))


def wrong(case: Case, changes: Mapping[str, Any]) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code and what does not pass once the node is changed."""
    report = judged(patch(base(case.node), changes), case.profile)
    return report.exit_code, not_passed(report)


def each(cases: tuple[Case, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.profile)


@each(CASES)
def test_the_node_passes(case: Case) -> None:
    assert wrong(case, {}) == (0, {})


@each(CASES)
def test_the_machine_is_as_the_generator_says(case: Case) -> None:
    """Without this a profile that expects little would pass a node that says little."""
    recording: Recording = base(case.node)
    assert sum(key.startswith("nvml:nvmlDeviceGetName(") for key in recording.keys()) == len(  # noqa: SIM118
        case.site.seats
    )  # noqa: SIM118
    links = [
        key
        for key in recording.keys()  # noqa: SIM118
        if f"FieldValues({case.address},165," in key and not is_unread(recording.get(key))
    ]  # noqa: SIM118
    assert len(links) == case.site.board.links


@each(COUNTED)
def test_a_gpu_less(case: Case) -> None:
    listed = base(case.node).get("dir:/sys/bus/pci/devices")
    minors = [
        name
        for name in base(case.node).get("dir:/dev")
        if name != f"nvidia{len(case.site.seats) - 1}"
    ]
    changes = {
        "dir:/sys/bus/pci/devices": [address for address in listed if address != case.address],
        "dir:/dev": minors,
        "nvml:nvmlDeviceGetCount()": len(case.site.seats) - 1,
        f"file:/sys/bus/pci/devices/{case.address}/*": None,
        f"nvml:*({case.address}*": None,
    }
    assert wrong(case, changes) == (31, {"inventory.gpu_count": {"node": "fail/power-cycle"}})


@each(COUNTED)
def test_too_few_gpus_and_all_of_another_model_is_another_profile(case: Case) -> None:
    """It is not worth a power cycle; one GPU of the right model is."""
    node, listing = base(case.node), "dir:/sys/bus/pci/devices"
    short = {listing: [name for name in node.get(listing) if name != case.address]}
    files = [
        f"file:/sys/bus/pci/devices/{seat.gpu}/uevent"
        for seat in case.site.seats
        if seat.gpu != case.address
    ]
    others = {file: node.get(file).replace(case.site.board.pci_id, "10DE:2331") for file in files}
    spared = dict(list(others.items())[1:])
    told = [
        wrong(case, {**short, **also})[1]["inventory.gpu_count"]["node"]
        for also in (others, spared)
    ]
    assert told == ["fail/fix-config", "fail/power-cycle"]


@each(CASES)
def test_a_gpu_of_another_model(case: Case) -> None:
    uevent = f"file:/sys/bus/pci/devices/{case.address}/uevent"
    text = base(case.node).get(uevent).replace(case.site.board.pci_id, "10DE:2331")
    assert wrong(case, {uevent: text}) == (
        20,
        {"inventory.gpu_model": {case.gpu: "fail/fix-config"}},
    )


@each(CASES)
def test_a_gpu_with_too_little_memory(case: Case) -> None:
    total = case.site.board.memory_bytes * 7 // 8
    changes = {case.call("MemoryInfo"): {"total": total, "free": total, "used": 0}}
    assert wrong(case, changes) == (20, {"inventory.memory_size": {case.gpu: "fail/investigate"}})


@each(WITH_PCIE)
def test_half_the_lanes(case: Case) -> None:
    changes = {case.call("CurrPcieLinkWidth"): case.site.board.pcie[0] // 2}
    assert wrong(case, changes) == (40, {"pcie.link_width": {case.gpu: "fail/inspect"}})


@each(WITH_PCIE)
def test_an_older_pcie_generation_under_load(case: Case) -> None:
    changes = {
        case.call("CurrPcieLinkGeneration"): case.site.board.pcie[1] - 1,
        case.call("ComputeRunningProcesses"): [{"pid": 4242, "usedGpuMemory": None}],
    }
    found = {
        "pcie.link_generation": {case.gpu: "fail/inspect"},
        "workload.processes": {case.gpu: "fail/fix-config"},
    }
    assert wrong(case, changes) == (40, found)


@each(CASES)
def test_a_link_down(case: Case) -> None:
    changes = {case.call("FieldValues", f",165,{case.site.board.links - 1}"): 0}
    assert wrong(case, changes) == (30, {"nvlink.links": {case.gpu: "fail/reset-gpu"}})


@each(CASES)
def test_a_link_at_half_its_rate(case: Case) -> None:
    changes = {case.call("FieldValues", ",164,3"): case.site.board.link_mb_s // 2}
    stated = profile_named(case.profile).data["gpu"]["nvlink_rate_mb_s"]
    found = (
        {"nvlink.link_rate": {case.gpu: "fail/reset-gpu"}}
        if stated
        else {"nvlink.link_rate_match": {"node": "fail/reset-gpu"}}
    )
    assert wrong(case, changes) == (30, found)


@each(WITH_POWER)
def test_a_lowered_power_limit(case: Case) -> None:
    changes = {case.call("PowerManagementLimit"): case.site.board.power_mw // 2}
    assert wrong(case, changes) == (20, {"power.limit": {case.gpu: "fail/fix-config"}})


@each(CASES)
def test_ecc_off(case: Case) -> None:
    assert wrong(case, {case.call("EccMode"): [0, 0]}) == (
        20,
        {"memory.ecc_mode": {case.gpu: "fail/fix-config"}},
    )


@each(CASES)
def test_mig_on(case: Case) -> None:
    assert wrong(case, {case.call("MigMode"): [1, 1]}) == (
        20,
        {"modes.mig": {case.gpu: "fail/fix-config"}},
    )


@each(FABRIC)
def test_a_gpu_that_does_not_register(case: Case) -> None:
    changes = {
        case.call("GpuFabricInfoV"): {
            "clusterUuid": "0" * 32,
            "status": 0,
            "cliqueId": 0,
            "state": 1,
            "healthMask": 0,
        }
    }
    assert wrong(case, changes) == (
        20,
        {"fabric.registration": {case.gpu: "fail/fix-config"}},
    )


@each(FABRIC)
def test_a_gpu_that_does_not_register_is_found_without_the_boards_profile(case: Case) -> None:
    info = {"clusterUuid": "0" * 32, "status": 0, "cliqueId": 0, "healthMask": 0}
    sku = case.profile.split("-")[0]
    seen = []
    for state in (0, 1, 2):
        report = judged(
            patch(base(case.node), {case.call("GpuFabricInfoV"): {**info, "state": state}}), sku
        )
        found = [
            (result.subject, finding) for result in report.results for finding in result.findings
        ]
        seen.append([(subject, finding.message.split(":")[0]) for subject, finding in found])
    told = [
        [(case.gpu, f"fabric registration is {words}")] for words in ("not started", "in progress")
    ]
    assert seen == [[], *told], "a guest with one GPU may have no fabric"


@each(COUNTED)
def test_a_port_less(case: Case) -> None:
    key = "dir:/sys/class/infiniband"
    changes = {key: [name for name in base(case.node).get(key) if name != case.site.hcas[1]]}
    assert wrong(case, changes) == (
        20,  # the HCA is on PCI with its driver, and has no port
        {"infiniband.port_count": {"node": "fail/fix-config"}},
    )


@each(COUNTED)
def test_a_port_at_a_lower_rate(case: Case) -> None:
    changes = {f"file:{case.port}/rate": "100 Gb/sec (4X EDR)\n"}
    found = {"infiniband.port_rate": {f"port:{case.site.hcas[1]}/1": "fail/inspect"}}
    assert wrong(case, changes) == (40, found)


@each(COUNTED)
def test_a_driver_that_is_too_old(case: Case) -> None:
    old = "470.57.02"
    banner = (
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {old}  Tue Jul 13 16:14:05 UTC 2021\n"
    )
    changes = {
        "file:/proc/driver/nvidia/version": banner,
        "nvml:nvmlSystemGetDriverVersion()": old,
        "nvml:nvmlDeviceGetGspFirmwareVersion(*": old,
    }
    assert wrong(case, changes) == (0, {"driver.recommended_version": {"node": "warn/monitor"}})
