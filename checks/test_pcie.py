"""PCIe: the GPU's link to the host has its full width and generation, and no errors."""

from math import ceil

from gpuscan import Action, Gpu, Profile, check, exceeds, fail, per_minute, read, warn

BUSY_PERCENT = 90
# names in sysfs of requests that got no answer, and of what a healthy boot leaves behind
NOT_COMPLETED = ("CmpltTO", "CmpltAbrt", "UnxCmplt")
HARMLESS = ("UnsupReq", "ACSViol", "Undefined")
FEW_NOT_COMPLETED = 9
# DCGM's health watch: replays a minute and lane that are still normal, by PCIe generation
REPLAYS_A_LANE = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}


@check(
    action=Action.REBOOT,
    source="PCI: a device that is gone reads as all ones: rev ff, header type 7f, width 63",
    impact="capacity",
    ladder=(Action.REBOOT, Action.POWER_CYCLE, Action.INSPECT, Action.REPLACE),
    window_days=7,
    imported=True,
    aliases=["pcie.answers_on_the_bus"],
)
def test_config_space(gpu: Gpu) -> None:
    """The GPU responds to reads of its PCI configuration space."""
    if not gpu.bus.answers:
        fail(
            "the GPU is listed but reads as all ones (rev ff), so it is off the bus: reboot, and "
            "power-cycle if it does not come back"
        )


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "pcie.config_space", "pcie.link_width"),
    source="PCI: lanes are negotiated when the link trains and do not depend on load",
    impact="performance",
    aliases=["pcie.link_is_as_wide_as_both_ends"],
)
def test_link_width_max(gpu: Gpu) -> None:
    """The PCIe link uses all lanes that the GPU and its slot support.

    In a guest the slot is not seen: there a narrow link fails where a GPU of the same model has a
    wider one.
    """
    if not gpu.link.narrow:
        return
    lanes, wider = gpu.link.lanes, gpu.link.sibling_lanes
    if wider > lanes:
        fail(
            f"the PCIe link runs at x{lanes}, other GPUs of this model run at x{wider}: check "
            "seating, riser and slot",
            observed=lanes,
            expected=wider,
        )
    elif gpu.link.slot_seen:
        fail(
            f"the PCIe link runs at x{lanes}, but both ends support more lanes: check seating, "
            "riser and slot",
            observed=lanes,
        )
    else:
        warn(
            f"the PCIe link runs at x{lanes}, and the GPU supports more lanes; what its slot "
            "supports is not seen here",
            action=Action.MONITOR,
            observed=lanes,
        )


@check(
    action=Action.INVESTIGATE,
    needs=("driver.gpu_access", "pcie.config_space"),
    source="PCI Express advanced error reporting: status bits stay set until they are cleared",
    impact="none",
    imported=True,
    aliases=["pcie.no_error_is_latched"],
)
def test_latched_errors(gpu: Gpu) -> None:
    """No severe PCIe error is latched in the GPU's error status."""
    latched = gpu.bus.latched
    if latched:
        warn(
            f"severe PCIe errors are latched ({', '.join(latched)}): the link failed at some point "
            "since the last boot",
            observed=list(latched),
        )


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "pcie.config_space", "pcie.link_generation"),
    source="DCGM: the generation is judged under load; GPUs lower it below P0 to save power",
    impact="performance",
    aliases=["pcie.busy_card_uses_its_generation"],
)
def test_link_generation_max(gpu: Gpu) -> None:
    """In P0, the PCIe link runs at the highest generation that both ends support.

    A link slower than those of other GPUs of the same model in P0 trained badly; where all are
    alike, a setting limits them. In a guest the slot is not seen.
    """
    generation, faster = gpu.link.generation, gpu.link.sibling_generation
    if faster > generation:
        fail(
            f"in P0 the PCIe link runs at generation {generation}, other GPUs of this model run "
            f"at {faster}: check seating, riser and slot",
            action=Action.INSPECT,
            observed=generation,
            expected=faster,
        )
        return
    if generation >= gpu.link_generation:
        return
    slow = (
        f"in P0 the PCIe link runs at generation {generation}, both ends support "
        f"{gpu.link_generation}: check udev, ASPM and BIOS settings"
    )
    if gpu.link.slot_seen or _is_busy(gpu):
        fail(slow, observed=generation, expected=gpu.link_generation)
    else:
        warn(f"{slow}, or the slot, which is not seen here", action=Action.MONITOR)


def _is_busy(gpu: Gpu) -> bool:
    return any(percent >= BUSY_PERCENT for _, percent in read([gpu], "busy_percent"))


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="DCGM: triage a link below its width; lanes are lost to dirt, seating or a riser",
    impact="performance",
    aliases=["pcie.runs_at_full_width"],
)
def test_link_width(gpu: Gpu, profile: Profile) -> None:
    """The PCIe link has as many lanes as the profile expects.

    Only the generation drops at idle to save power; the width does not.
    """
    width, expected = gpu.pcie.width, profile.gpu.pcie_width
    if width < expected:
        fail(
            f"the PCIe link runs at x{width}, the profile expects x{expected}",
            observed=width,
            expected=expected,
        )


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="DCGM: the generation is judged under load; GPUs lower it below P0 to save power",
    impact="performance",
    aliases=["pcie.runs_at_full_generation_under_load"],
)
def test_link_generation(gpu: Gpu, profile: Profile) -> None:
    """In P0, the PCIe link runs at the generation the profile expects, loaded or not.

    Where all GPUs of this model run at the same lower one, a setting of the server limits them.
    """
    generation, expected = gpu.link.generation, profile.gpu.pcie_generation
    if generation < expected:
        alike = gpu.link.sibling_generation == generation
        fail(
            f"in P0 the PCIe link runs at generation {generation}, the profile expects {expected}"
            + (", and so do its siblings: check the BIOS settings" if alike else ""),
            action=Action.FIX_CONFIG if alike else None,
            observed=generation,
            expected=expected,
        )


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="DCGM: judges replays by rate; the total is history, and healthy GPUs have some",
    impact="performance",
    aliases=["pcie.no_replays_are_added"],
)
def test_replays(gpu: Gpu) -> None:
    """No PCIe replay was counted during the scan.

    More than DCGM allows in a minute fails; fewer only warn, as a scan is too short for a rate.
    """
    grown, seconds = gpu.pcie.replays.growth, gpu.pcie.replays.seconds
    if grown <= 0:
        return
    lane = REPLAYS_A_LANE.get(gpu.pcie.generation, REPLAYS_A_LANE[max(REPLAYS_A_LANE)])
    most = ceil(gpu.pcie.width * lane)
    rate = per_minute(grown, seconds)
    if exceeds(grown, seconds, most, 60):
        fail(
            f"PCIe replays: {rate} (up to {most} a minute are normal): the link is losing packets",
            observed=grown,
            expected=f"<={most} a minute",
        )
    else:
        warn(
            f"PCIe replays during the scan: {rate}; the link is losing packets, but the scan is "
            f"too short to compare with {most} a minute",
            observed=grown,
            expected=0,
        )


@check(
    action=Action.REBOOT,
    needs="driver.gpu_access",
    source="PCI Express advanced error reporting; NVIDIA GPU debug guidelines",
    impact="correctness",
    aliases=["pcie.no_fatal_error"],
)
def test_fatal_errors(gpu: Gpu) -> None:
    """The kernel has counted no fatal PCIe error of the GPU since boot."""
    total = gpu.aer.fatal.total
    if total:
        fail(f"fatal PCIe errors since boot: {total}", observed=total, expected=0)
    grown = gpu.aer.fatal.growth
    if grown > 0:
        fail(
            f"fatal PCIe errors during the scan: {grown}",
            action=Action.INSPECT,
            observed=grown,
            expected=0,
        )


@check(
    action=Action.REBOOT,
    needs=("driver.gpu_access", "pcie.fatal_errors"),
    source="PCI Express advanced error reporting: the transaction failed, the link stays up",
    impact="correctness",
    aliases=["pcie.no_nonfatal_error"],
)
def test_nonfatal_errors(gpu: Gpu) -> None:
    """The kernel has counted no non-fatal PCIe error of the GPU since boot.

    Requests that a GPU does not support are counted at boot as a rule, and a few that were not
    completed may be of a program that was killed: both only warn.
    """
    total = gpu.aer.nonfatal.total
    told, grave = _counted(gpu)
    if grave:
        fail(
            f"non-fatal PCIe errors since boot: {told or total}; reboot, and inspect the link if "
            "they come back",
            observed=total,
            expected=0,
        )
    elif total:
        warn(
            f"non-fatal PCIe errors since boot: {told or total}",
            action=Action.MONITOR,
            observed=total,
            expected=0,
        )
    grown = gpu.aer.nonfatal.growth
    if grown > 0:
        fail(
            f"non-fatal PCIe errors during the scan: {per_minute(grown, gpu.aer.nonfatal.seconds)}",
            action=Action.INSPECT,
            observed=grown,
            expected=0,
        )


def _counted(gpu: Gpu) -> tuple[str, bool]:
    """Return the kinds of non-fatal errors in words, and whether they are of a fault."""
    kinds = [
        (kind.name, kind.total) for _, kinds in read([gpu], "nonfatal_kinds") for kind in kinds
    ]
    lost = sum(number for name, number in kinds if name in NOT_COMPLETED)
    grave = any(name not in (*NOT_COMPLETED, *HARMLESS) for name, _ in kinds)
    told = ", ".join(f"{number} {name}" for name, number in kinds)
    return told, grave or lost > FEW_NOT_COMPLETED
