"""PCIe: the card's link to the host runs at full width."""

from gpuscan import Action, Gpu, Profile, check, fail, warn


@check(
    action=Action.INSPECT,
    needs="driver.every_card_answers",
    source="DCGM: a link below its width is to be triaged; lanes are lost to dirt, seating or a riser",
    impact="performance",
)
def test_runs_at_full_width(gpu: Gpu, profile: Profile) -> None:
    """The PCIe link has as many lanes as the profile expects.

    The width holds at idle, too; only the generation drops there to save power.
    """
    width, expected = gpu.pcie.width, profile.gpu.pcie_width
    if width < expected:
        fail(f"the PCIe link runs at x{width} of x{expected}", observed=width, expected=expected)


@check(
    action=Action.INSPECT,
    needs="driver.every_card_answers",
    source="DCGM: the generation is judged under load, as idle cards lower it",
    impact="performance",
    jobs=True,
)
def test_runs_at_full_generation_under_load(gpu: Gpu, profile: Profile) -> None:
    """While a program computes on the card, its PCIe link runs at its generation."""
    generation, expected = gpu.pcie.generation, profile.gpu.pcie_generation
    loaded = gpu.processes and gpu.performance_state == 0
    if loaded and generation < expected:
        fail(f"under load the PCIe link runs at generation {generation} of {expected}", observed=generation, expected=expected)


@check(
    action=Action.INSPECT,
    needs="driver.every_card_answers",
    source="DCGM: replays by rate; the total is history, healthy cards have some",
    impact="performance",
)
def test_no_replays_are_added(gpu: Gpu) -> None:
    """No PCIe replay was counted while the scan ran."""
    grown = gpu.pcie.replays.growth
    if grown > 0:
        warn(f"{grown} PCIe replays within the scan: the link loses packets now", observed=grown, expected=0)


@check(
    action=Action.REBOOT,
    needs="driver.every_card_answers",
    source="PCI Express advanced error reporting; NVIDIA GPU debug guidelines",
    impact="correctness",
)
def test_no_fatal_error(gpu: Gpu) -> None:
    """The kernel counted no fatal PCIe error of the card in this boot."""
    total = gpu.aer.fatal.total
    if total:
        fail(f"{total} fatal PCIe errors since boot", observed=total, expected=0)
    grown = gpu.aer.fatal.growth
    if grown > 0:
        fail(f"{grown} fatal PCIe errors within the scan", action=Action.INSPECT, observed=grown, expected=0)


@check(
    action=Action.INSPECT,
    needs=("driver.every_card_answers", "pcie.no_fatal_error"),
    source="PCI Express advanced error reporting: the requester is told, the link goes on",
    impact="correctness",
)
def test_no_nonfatal_error(gpu: Gpu) -> None:
    """The kernel counted no non-fatal PCIe error of the card in this boot."""
    total = gpu.aer.nonfatal.total
    if total:
        warn(f"{total} non-fatal PCIe errors since boot", observed=total, expected=0)
    grown = gpu.aer.nonfatal.growth
    if grown > 0:
        fail(f"{grown} non-fatal PCIe errors within the scan", observed=grown, expected=0)
