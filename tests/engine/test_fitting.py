"""What a profile expects holds for the GPUs that it describes, and for no others."""

from __future__ import annotations

from typing import Any

import pytest
from building import was_read
from nodes_recordings import NAMES, base, judged

from gpuscan import collectors, profile
from gpuscan.model import Unread
from gpuscan.model.outcome import Action, Status
from gpuscan.recording import Recording, patch

PCI = "/sys/bus/pci/devices"
GONE = Unread("", "not-found", "Not Found", 6)
LACKS = Unread("", "not-found", "No such file or directory", 2)
HEALTHY = tuple(
    name for name in NAMES if judged(base(name), "default").exit_code == 0 and name != "demo"
)
PROFILES = tuple(name for name in profile.list_profiles() if name != "default")


def listed(recording: Recording) -> tuple[Any, ...]:
    return was_read(collectors.node(recording).gpus)


def models(recording: Recording) -> set[str]:
    return {gpu.device_id for gpu in listed(recording)}


@pytest.mark.sweep
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_node_under_another_models_profile_has_the_wrong_profile(name: str) -> None:
    """Nothing is wrong with its parts, so nothing is to be reset, opened or replaced."""
    recording = base(name)
    others = [
        one
        for one in PROFILES
        if profile.load(one).data["gpu"]["device_id"] not in (None, *models(recording))
    ]
    assert others
    for other in others:
        report = judged(recording, other)
        assert (report.exit_code, report.action) == (20, Action.FIX_CONFIG), other


def gpus_of(name: str) -> list[Any]:
    return list(listed(base(name)))


def uevent(recording: Recording, address: str, **fields: str) -> dict[str, str]:
    key = f"file:{PCI}/{address}/uevent"
    lines = dict(line.split("=", 1) for line in recording.get(key).splitlines())
    return {key: "".join(f"{name}={value}\n" for name, value in {**lines, **fields}.items())}


@pytest.mark.parametrize("other", ["10DE:1FB0", "10DE:2330"])
@pytest.mark.parametrize("pci_class", ["30000", "30200"])
def test_a_display_adapter_is_not_the_profiles_gpu_and_a_wrong_gpu_is(
    other: str, pci_class: str
) -> None:
    """A VGA adapter (0x0300) beside 3D controllers (0x0302) does not compute."""
    recording = base("h200-8x-ib")
    address = gpus_of("h200-8x-ib")[3].address
    changed = patch(recording, uevent(recording, address, PCI_CLASS=pci_class, PCI_ID=other))
    report = judged(changed, "h200")
    wrong = {one.check for one in report.results if one.status is Status.FAIL}
    assert wrong == (set() if pci_class == "30000" else {"inventory.gpu_model"})
    assert listed(changed)[3].role == ("display" if pci_class == "30000" else "compute")


VIRTUAL = [(0, "none"), (1, "passthrough"), (2, "vgpu"), (3, "host-vgpu"), (4, "host-vsga")]


@pytest.mark.sweep
@pytest.mark.parametrize(("mode", "word"), VIRTUAL)
@pytest.mark.parametrize("name", ["h100-8x-ib", "h200-8x-ib", "a100-8x-ib", "b200-8x-ib"])
def test_a_vgpu_is_not_held_to_what_the_whole_gpu_has(name: str, mode: int, word: str) -> None:
    """It has the whole GPU's device id, with another name and less memory."""
    half = 40 * 1024**3
    changed = patch(
        base(name),
        {
            "nvml:nvmlDeviceGetVirtualizationMode(*": mode,
            "nvml:nvmlDeviceGetName(*": "GRID X-40C",
            "nvml:nvmlDeviceGetMemoryInfo(*": {"total": half, "free": half, "used": 0},
        },
    )
    report = judged(changed)
    assert {gpu.virtualization for gpu in listed(changed)} == {word}
    assert report.exit_code == (3 if word == "vgpu" else 20)
    if word == "vgpu":
        unknown = {one.check for one in report.results if one.status is Status.UNKNOWN}
        assert unknown == {"profile.match"}
    assert judged(changed, "default").exit_code == 0


def hide(recording: Recording, addresses: list[str], container: bool) -> dict[str, Any]:
    """What a scan reads where GPUs have no device file; in a container with NVIDIA's toolkit the
    driver's folder of them is hidden, too.
    """
    changes: dict[str, Any] = {"nvml:nvmlDeviceGetCount()": 8 - len(addresses)}
    namespace = "4026533210" if container else "4026531836"
    changes["link:/proc/self/ns/pid"] = f"pid:[{namespace}]"
    minors = {gpu.minor for gpu in gpus_of("h100-8x-ib") if gpu.address in addresses}
    files = [
        name for name in recording.get("dir:/dev") if name not in {f"nvidia{n}" for n in minors}
    ]
    changes["dir:/dev"] = files
    for address in addresses:
        changes[f"nvml:*({address}*"] = GONE
    return changes


@pytest.mark.sweep
@pytest.mark.parametrize("hidden", range(1, 8))
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("expects", ["all", "given"])
def test_a_container_is_judged_by_what_it_was_given(
    hidden: int, masked: bool, expects: str
) -> None:
    recording = base("h100-8x-ib")
    addresses = [gpu.address for gpu in gpus_of("h100-8x-ib")][-hidden:]
    changes = hide(recording, addresses, container=True)
    if masked:
        changes |= {f"file:/proc/driver/nvidia/gpus/{one}/information": LACKS for one in addresses}
    count = 8 if expects == "all" else 8 - hidden
    report = judged(patch(recording, changes), "h100-8x", (f"gpu.count={count}",))
    assert (report.exit_code, report.complete) == (3, False)
    unknown = {one.check for one in report.results if one.status is Status.UNKNOWN}
    assert unknown == {"driver.gpu_access"}


@pytest.mark.parametrize("missing", range(1, 4))
def test_a_device_file_that_is_missing_on_the_machine_itself_is_a_fault(missing: int) -> None:
    recording = base("h100-8x-ib")
    addresses = [gpu.address for gpu in gpus_of("h100-8x-ib")][:missing]
    report = judged(patch(recording, hide(recording, addresses, container=False)))
    assert report.exit_code == 30
    assert {target.address for target in report.targets} == set(addresses)
    messages = " ".join(f.message for one in report.results for f in one.findings)
    assert "nvidia-modprobe" in messages


@pytest.mark.parametrize("driver", ["vfio-pci", "pci-stub", "nouveau"])
@pytest.mark.parametrize("lent", range(1, 4))
def test_a_gpu_that_is_lent_to_a_guest_asks_for_no_reboot(driver: str, lent: int) -> None:
    """A reboot would stop the guests; device files may outlive the binding."""
    recording = base("h100-8x-ib")
    gpus = gpus_of("h100-8x-ib")[:lent]
    changes: dict[str, Any] = {"nvml:nvmlDeviceGetCount()": 8 - lent}
    for gpu in gpus:
        changes |= {f"nvml:*({gpu.address}*": GONE}
        changes |= uevent(recording, gpu.address, DRIVER=driver)
    report = judged(patch(recording, changes))
    assert (report.exit_code, report.action) == (20, Action.FIX_CONFIG)
    assert {target.address for target in report.targets} == {gpu.address for gpu in gpus}


ROWS = "nvml:nvmlDeviceGetRemappedRows"


@pytest.mark.parametrize("name", ["h100-8x-ib", "h200-8x-ib", "a100-8x-ib", "b200-8x-ib"])
@pytest.mark.parametrize("divided", [True, False])
def test_only_a_gpu_that_mig_divides_need_not_tell_its_remapped_rows(
    name: str, divided: bool
) -> None:
    changes = {
        "nvml:nvmlDeviceGetMigMode(*": [int(divided)] * 2,
        f"{ROWS}(*": {"error": ["not-supported", "Not Supported", 3]},
    }
    settings = (f"gpu.mig={str(divided).lower()}",)
    report = judged(patch(base(name), changes), "auto", settings)
    assert report.exit_code == (0 if divided else 3)
    rows = {one.status for one in report.results if one.check == "memory.row_remap"}
    assert rows == {Status.SKIP if divided else Status.UNKNOWN}


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["h100-8x-ib", "h200-8x-ib", "a100-8x-ib", "b200-8x-ib"])
@pytest.mark.parametrize("mode", [0, 1, 3])  # bare metal, a guest, a host of vGPUs
@pytest.mark.parametrize("wanted", ["null", "0"])
def test_a_board_without_any_link_is_at_fault_on_bare_metal_unless_the_profile_wants_it_so(
    name: str, mode: int, wanted: str
) -> None:
    changes: dict[str, Any] = {"nvml:nvmlDeviceGetFieldValues(*,165,*": 0}
    changes["nvml:nvmlDeviceGetVirtualizationMode(*"] = mode
    report = judged(patch(base(name), changes), "default", (f"gpu.nvlinks={wanted}",))
    at_fault = mode == 0 and wanted == "null"
    assert report.exit_code == (20 if at_fault else 0)
