"""Toy checks of each GPU, for the golden outputs."""

from gpuscan import Action, Gpu, Profile, check, fail, read
from gpuscan.profile.values import options


@check(action=Action.REPLACE, needs="driver.gpu_access", source="a toy")
def test_row_remap(gpu: Gpu) -> None:
    """Every faulty row found a spare row."""
    assert not gpu.remapped_rows.failed


@check(action=Action.RESET_GPU, needs="driver.gpu_access", source="a toy", impact="performance")
def test_links(gpu: Gpu, profile: Profile) -> None:
    """As many NVLinks are up as the profile expects."""
    expected = max(options(profile.gpu.nvlinks))
    up = sum(active for _, active in read(gpu.nvlinks, "active"))
    if up < expected:
        fail(f"{up} of {expected} NVLinks are up", observed=up, expected=expected)
