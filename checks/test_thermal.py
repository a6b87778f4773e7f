"""Heat and power: no GPU is slowed down by its own protection or by the server's power brake."""

from gpuscan import Action, Gpu, Node, Profile, check, fail, read, warn

SOURCE = (
    "NVML clocks event reasons; NVIDIA GPU debug guidelines: cooling and power supply, not the GPU"
)


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source=SOURCE,
    impact="performance",
    jobs=True,
    aliases=["thermal.no_hardware_slowdown"],
)
def test_hardware_slowdown(gpu: Gpu) -> None:
    """The GPU is not slowed down by its temperature."""
    if gpu.clock_reasons.hw_thermal:
        fail(
            f"hardware thermal slowdown{_warmth(gpu)}: airflow, heat sink or cold plate",
            observed="hw_thermal",
        )


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source=SOURCE,
    impact="performance",
    jobs=True,
    aliases=["thermal.no_power_brake"],
)
def test_power_brake(gpu: Gpu) -> None:
    """The server's power brake is not on."""
    if gpu.clock_reasons.power_brake:
        fail(
            "the power brake is on: power supplies, power cabling or the rack's limit",
            observed="power_brake",
        )


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "thermal.hardware_slowdown"),
    source=SOURCE,
    impact="performance",
    jobs=True,
    aliases=["thermal.core_is_below_its_limit"],
)
def test_core_temperature(gpu: Gpu) -> None:
    """The core is cooler than the temperature at which the GPU slows itself down."""
    now, limit = gpu.temperature.core_c, gpu.temperature.slowdown_c
    if now >= limit:
        fail(
            f"the core is at {now} °C, the GPU slows down at {limit}",
            observed=now,
            expected=f"<{limit}",
        )


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source=SOURCE,
    impact="correctness",
    jobs=True,
    aliases=["thermal.memory_is_below_its_limit"],
)
def test_memory_temperature(gpu: Gpu) -> None:
    """The memory is cooler than the highest temperature that it is made for."""
    now, limit = gpu.temperature.memory_c, gpu.temperature.memory_max_c
    if now >= limit:
        fail(f"the memory is at {now} °C, its limit is {limit}", observed=now, expected=f"<{limit}")


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "thermal.core_temperature"),
    impact="performance",
    jobs=True,
    aliases=["thermal.cards_are_alike_warm"],
)
def test_temperature_spread(node: Node, profile: Profile) -> None:
    """No GPU is much warmer than the coolest: one that stands out sits badly on its heat sink or in its air.

    The limit is an estimate of ours for idle GPUs, so it only warns.
    """
    limit = profile.limits.temperature_spread_c
    warm = read(node.gpus, "temperature.core_c")
    coolest = min((now for _, now in warm), default=0)
    hot = [(gpu, now) for gpu, now in warm if now - coolest > limit]
    if hot:
        told = ", ".join(f"{gpu.label} {now}" for gpu, now in hot)
        warn(
            f"warmer than the coolest GPU ({coolest} °C) by more than {limit} °C: {told}",
            culprits=[gpu for gpu, _ in hot],
        )


@check(
    action=Action.MONITOR,
    needs=("driver.gpu_access", "thermal.hardware_slowdown"),
    source=SOURCE,
    impact="performance",
    aliases=["thermal.no_software_slowdown"],
)
def test_software_slowdown(gpu: Gpu) -> None:
    """The driver does not slow the GPU down for its temperature."""
    if gpu.clock_reasons.sw_thermal:
        warn(
            f"software thermal slowdown{_warmth(gpu)}: the room or the airflow",
            observed="sw_thermal",
        )


def _warmth(gpu: Gpu) -> str:
    """Tell the temperature where it was read: the slowdown is a fault without it, too."""
    return "".join(f" at {now} °C" for _, now in read([gpu], "temperature.core_c"))
