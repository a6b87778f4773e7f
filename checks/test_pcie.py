"""PCIe: the GPU's link to the host runs at full width."""

from gpuscan import Action, Gpu, Profile, check, fail, warn

BUSY_PERCENT = 90


@check(
    action=Action.REBOOT,
    source="PCI: a device that is gone reads as ones: rev ff, header type 7f, width 63",
    impact="capacity",
    ladder=(Action.REBOOT, Action.POWER_CYCLE, Action.INSPECT, Action.REPLACE),
    window_days=7,
    imported=True,
    aliases=["pcie.answers_on_the_bus"],
)
def test_config_space(gpu: Gpu) -> None:
    """The GPU answers when its PCI configuration is read."""
    if not gpu.bus.answers:
        fail(
            "the GPU is listed and reads as ones (rev ff): off the bus; if a reboot does not bring it back, cut its power"
        )


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "pcie.config_space"),
    source="PCI: lanes are negotiated when the link trains, and do not follow the load",
    impact="performance",
    imported=True,
    aliases=["pcie.link_is_as_wide_as_both_ends"],
)
def test_link_width_max(gpu: Gpu) -> None:
    """The PCIe link uses all the lanes that the GPU and its slot have."""
    if gpu.bus.narrow:
        fail(
            f"the PCIe link runs at x{gpu.bus.width}, and both ends have more lanes: seating, riser or slot",
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
    """No grave PCIe error is latched in the GPU's error status."""
    latched = gpu.bus.latched
    if latched:
        warn(
            f"PCIe errors are latched ({', '.join(latched)}): the link broke at some time since the last boot",
            observed=list(latched),
        )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    source="DCGM: the generation is judged under load; a setting may hold the link down",
    impact="performance",
    imported=True,
    aliases=["pcie.busy_card_uses_its_generation"],
)
def test_link_generation_max(gpu: Gpu) -> None:
    """A GPU that is fully busy at its highest performance state has its link at the generation that both ends have."""
    busy = gpu.performance_state == 0 and gpu.busy_percent >= BUSY_PERCENT
    if busy and gpu.pcie.generation < gpu.link_generation:
        told = f"at {gpu.busy_percent} % load the PCIe link runs at generation {gpu.pcie.generation} of {gpu.link_generation}"
        fail(
            f"{told}: does a setting (udev, ASPM, BIOS) hold it down?",
            observed=gpu.pcie.generation,
            expected=gpu.link_generation,
        )


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="DCGM: a link below its width is to be triaged; lanes are lost to dirt, seating or a riser",
    impact="performance",
    aliases=["pcie.runs_at_full_width"],
)
def test_link_width(gpu: Gpu, profile: Profile) -> None:
    """The PCIe link has as many lanes as the profile expects.

    The width holds at idle, too; only the generation drops there to save power.
    """
    width, expected = gpu.pcie.width, profile.gpu.pcie_width
    if width < expected:
        fail(f"the PCIe link runs at x{width} of x{expected}", observed=width, expected=expected)


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="DCGM: the generation is judged under load, as idle GPUs lower it",
    impact="performance",
    jobs=True,
    aliases=["pcie.runs_at_full_generation_under_load"],
)
def test_link_generation(gpu: Gpu, profile: Profile) -> None:
    """While a program computes on the GPU, its PCIe link runs at its generation."""
    generation, expected = gpu.pcie.generation, profile.gpu.pcie_generation
    loaded = gpu.processes and gpu.performance_state == 0
    if loaded and generation < expected:
        fail(
            f"under load the PCIe link runs at generation {generation} of {expected}",
            observed=generation,
            expected=expected,
        )


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="DCGM: replays by rate; the total is history, healthy GPUs have some",
    impact="performance",
    aliases=["pcie.no_replays_are_added"],
)
def test_replays(gpu: Gpu) -> None:
    """No PCIe replay was counted while the scan ran."""
    grown = gpu.pcie.replays.growth
    if grown > 0:
        warn(
            f"{grown} PCIe replays within the scan: the link loses packets now",
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
    """The kernel counted no fatal PCIe error of the GPU in this boot."""
    total = gpu.aer.fatal.total
    if total:
        fail(f"{total} fatal PCIe errors since boot", observed=total, expected=0)
    grown = gpu.aer.fatal.growth
    if grown > 0:
        fail(
            f"{grown} fatal PCIe errors within the scan",
            action=Action.INSPECT,
            observed=grown,
            expected=0,
        )


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "pcie.fatal_errors"),
    source="PCI Express advanced error reporting: the requester is told, the link goes on",
    impact="correctness",
    aliases=["pcie.no_nonfatal_error"],
)
def test_nonfatal_errors(gpu: Gpu) -> None:
    """The kernel counted no non-fatal PCIe error of the GPU in this boot."""
    total = gpu.aer.nonfatal.total
    if total:
        warn(f"{total} non-fatal PCIe errors since boot", observed=total, expected=0)
    grown = gpu.aer.nonfatal.growth
    if grown > 0:
        fail(f"{grown} non-fatal PCIe errors within the scan", observed=grown, expected=0)
