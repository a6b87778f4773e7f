"""Clocks: nothing but idleness and the power limit holds them down."""

from gpuscan import Action, Gpu, check, warn

SOURCE = "NVML clocks event reasons: idle, software power cap and display say nothing of a fault"


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    source=SOURCE,
    impact="performance",
    aliases=["clocks.no_setting_caps_them"],
)
def test_caps(gpu: Gpu) -> None:
    """No application clock and no sync boost group holds the clocks down."""
    reasons = gpu.clock_reasons
    if reasons.application_clocks:
        warn(
            "application clocks hold the clocks down (nvidia-smi -rac takes them back)",
            observed="application_clocks",
        )
    if reasons.sync_boost:
        warn("a sync boost group holds the clocks down", observed="sync_boost")


@check(
    action=Action.INVESTIGATE,
    needs=("driver.gpu_access", "thermal.hardware_slowdown", "thermal.power_brake"),
    source=SOURCE,
    impact="performance",
    jobs=True,
    aliases=["clocks.no_unexplained_slowdown"],
)
def test_unexplained_slowdown(gpu: Gpu) -> None:
    """The hardware does not slow the GPU down for a reason that it does not name."""
    reasons = gpu.clock_reasons
    if reasons.hw_slowdown and not (reasons.hw_thermal or reasons.power_brake):
        warn("hardware slowdown without heat or power brake as its reason", observed="hw_slowdown")
