"""Clocks: only idleness and the power limit may lower them."""

from gpuscan import Action, Gpu, check, warn

SOURCE = "NVML clocks event reasons: idle, software power cap and display do not indicate a fault"


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    source=SOURCE,
    impact="performance",
    aliases=["clocks.no_setting_caps_them"],
)
def test_caps(gpu: Gpu) -> None:
    """Neither application clocks nor sync boost limit the GPU's clocks."""
    reasons = gpu.clock_reasons
    if reasons.application_clocks:
        warn(
            "application clocks limit the GPU's clocks: reset them with nvidia-smi -rac",
            observed="application_clocks",
        )
    if reasons.sync_boost:
        warn("a sync boost group limits the GPU's clocks", observed="sync_boost")


@check(
    action=Action.INVESTIGATE,
    needs=("driver.gpu_access", "thermal.hardware_slowdown", "thermal.power_brake"),
    source=SOURCE,
    impact="performance",
    jobs=True,
    aliases=["clocks.no_unexplained_slowdown"],
)
def test_unexplained_slowdown(gpu: Gpu) -> None:
    """No hardware slowdown is active without a stated reason."""
    reasons = gpu.clock_reasons
    if reasons.hw_slowdown and not (reasons.hw_thermal or reasons.power_brake):
        warn(
            "hardware slowdown is active, but neither heat nor the power brake explains it",
            observed="hw_slowdown",
        )
