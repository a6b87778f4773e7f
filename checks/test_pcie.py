"""PCIe: the card's link to the host runs at full width."""

from gpuscan import Action, Gpu, Profile, check, fail


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
