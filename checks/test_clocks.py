"""Clocks: only idleness and the power limit may lower them."""

from gpuscan import Action, Gpu, check, fail, warn

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
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "clocks.caps"),
    source="nvidia-smi: application clocks and their defaults; deprecated in newer drivers",
    impact="performance",
)
def test_application_clock(gpu: Gpu) -> None:
    """The application clock is not below its default.

    An idle GPU does not show the cap among the reasons for its clocks.
    """
    clock, default = gpu.application_clock_mhz, gpu.default_application_clock_mhz
    if clock < default:
        warn(
            f"the application clock is set to {clock} MHz, its default is {default} MHz: reset it "
            "with nvidia-smi -rac",
            observed=clock,
            expected=default,
        )


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "thermal.hardware_slowdown", "thermal.power_brake"),
    source=f"{SOURCE}; hardware slowdown halves the clock or worse: power or heat",
    impact="performance",
    aliases=["clocks.no_unexplained_slowdown"],
)
def test_unexplained_slowdown(gpu: Gpu) -> None:
    """No hardware slowdown is active without a stated reason.

    It flashes while the P-state changes, so that one sample alone only warns.
    """
    reasons = gpu.clock_reasons
    lone = reasons.hw_slowdown and not (reasons.hw_thermal or reasons.power_brake)
    if lone and reasons.samples > 1:
        within = f" within {reasons.seconds:.2g} s" if reasons.seconds else ""
        fail(
            f"hardware slowdown is active in all {reasons.samples} samples{within}, but neither "
            "heat nor the power brake explains it: check power supply and cooling",
            observed="hw_slowdown",
        )
    elif lone:
        warn(
            "hardware slowdown is active in the only sample, but neither heat nor the power brake "
            "explains it",
            action=Action.INVESTIGATE,
            observed="hw_slowdown",
        )
    elif reasons.flashed:
        warn(
            "a hardware slowdown shows in some samples, but not in all: it may be a change of the "
            "P-state",
            action=Action.MONITOR,
            observed="flash",
        )
