"""PCIe: the GPU's link to the host has its full width and generation, and no errors."""

from math import ceil

from gpuscan import Action, Gpu, Profile, check, exceeds, fail, per_minute, warn

BUSY_PERCENT = 90
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
    needs=("driver.gpu_access", "pcie.config_space"),
    source="PCI: lanes are negotiated when the link trains and do not depend on load",
    impact="performance",
    imported=True,
    aliases=["pcie.link_is_as_wide_as_both_ends"],
)
def test_link_width_max(gpu: Gpu) -> None:
    """The PCIe link uses all lanes that the GPU and its slot support."""
    if gpu.bus.narrow:
        fail(
            f"the PCIe link runs at x{gpu.bus.width}, but both ends support more lanes: check "
            "seating, riser and slot",
            observed=gpu.bus.width,
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
    needs="driver.gpu_access",
    source="DCGM: the generation is judged under load; a setting may limit the link",
    impact="performance",
    imported=True,
    aliases=["pcie.busy_card_uses_its_generation"],
)
def test_link_generation_max(gpu: Gpu) -> None:
    """A fully loaded GPU runs its PCIe link at the highest generation both ends support."""
    busy = gpu.performance_state == 0 and gpu.busy_percent >= BUSY_PERCENT
    if busy and gpu.pcie.generation < gpu.link_generation:
        fail(
            f"at {gpu.busy_percent} % load the PCIe link runs at generation {gpu.pcie.generation}, "
            f"both ends support {gpu.link_generation}: check udev, ASPM and BIOS settings",
            observed=gpu.pcie.generation,
            expected=gpu.link_generation,
        )


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
    source="DCGM: the generation is judged under load, as idle GPUs lower it",
    impact="performance",
    jobs=True,
    aliases=["pcie.runs_at_full_generation_under_load"],
)
def test_link_generation(gpu: Gpu, profile: Profile) -> None:
    """Under load, the PCIe link runs at the generation the profile expects."""
    generation, expected = gpu.pcie.generation, profile.gpu.pcie_generation
    loaded = gpu.processes and gpu.performance_state == 0
    if loaded and generation < expected:
        fail(
            f"under load the PCIe link runs at generation {generation}, "
            f"the profile expects {expected}",
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
            f"PCIe replays: {rate}, and {most} a minute are normal: the link is losing packets",
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
    action=Action.INSPECT,
    needs=("driver.gpu_access", "pcie.fatal_errors"),
    source="PCI Express advanced error reporting: the transaction failed, the link stays up",
    impact="correctness",
    aliases=["pcie.no_nonfatal_error"],
)
def test_nonfatal_errors(gpu: Gpu) -> None:
    """The kernel has counted no non-fatal PCIe error of the GPU since boot."""
    total = gpu.aer.nonfatal.total
    if total:
        warn(f"non-fatal PCIe errors since boot: {total}", observed=total, expected=0)
    grown = gpu.aer.nonfatal.growth
    if grown > 0:
        fail(f"non-fatal PCIe errors during the scan: {grown}", observed=grown, expected=0)
