"""Temperature: no GPU is too hot, and neither heat nor the power brake slows it down."""

from gpuscan import Action, Gpu, Node, Profile, check, fail, read, warn

SOURCE = (
    "NVML clocks event reasons; NVIDIA GPU debug guidelines: cooling and power supply, not the GPU"
)


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source=SOURCE,
    impact="performance",
    aliases=["thermal.no_hardware_slowdown"],
)
def test_hardware_slowdown(gpu: Gpu) -> None:
    """No hardware thermal slowdown is active.

    It is the GPU's own protection, not what a job may cause: it fails under load, too.
    """
    if gpu.clock_reasons.hw_thermal:
        fail(
            f"hardware thermal slowdown is active{_temperature(gpu)}{_seen(gpu)}: check airflow, "
            "heat sink and cold plate",
            observed="hw_thermal",
        )


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source=SOURCE,
    impact="performance",
    aliases=["thermal.no_power_brake"],
)
def test_power_brake(gpu: Gpu) -> None:
    """The server's power brake is not active."""
    if gpu.clock_reasons.power_brake:
        fail(
            f"the power brake is active{_seen(gpu)}: check power supplies, power cabling and the "
            "rack's limit",
            observed="power_brake",
        )


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "thermal.hardware_slowdown"),
    source=SOURCE,
    impact="performance",
    aliases=["thermal.core_is_below_its_limit"],
)
def test_core_temperature(gpu: Gpu) -> None:
    """The GPU core is below its slowdown temperature."""
    now, limit = gpu.temperature.core_c, gpu.temperature.slowdown_c
    if now >= limit:
        fail(
            f"the GPU core is at {now} °C, its slowdown temperature is {limit} °C",
            observed=now,
            expected=f"<{limit}",
        )


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "thermal.hardware_slowdown", "thermal.core_temperature"),
    source=f"{SOURCE}; NVML: the margin is the distance to the GPU's limit (T.Limit)",
    impact="performance",
)
def test_core_margin(gpu: Gpu) -> None:
    """The GPU core has a margin to its limit, where the driver gives no slowdown temperature."""
    margin = gpu.core_margin_c
    if margin <= 0:
        fail(
            f"the GPU core is {-margin} °C above its limit (T.Limit {margin} °C): check airflow, "
            "heat sink and cold plate",
            observed=margin,
            expected=">0",
        )


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source=SOURCE,
    impact="correctness",
    aliases=["thermal.memory_is_below_its_limit"],
)
def test_memory_temperature(gpu: Gpu) -> None:
    """The GPU memory is below its maximum operating temperature."""
    now, limit = gpu.temperature.memory_c, gpu.temperature.memory_max_c
    if now >= limit:
        fail(
            f"the GPU memory is at {now} °C, its maximum is {limit} °C",
            observed=now,
            expected=f"<{limit}",
        )


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "thermal.core_temperature"),
    impact="performance",
    jobs=True,
    aliases=["thermal.cards_are_alike_warm"],
)
def test_temperature_spread(node: Node, profile: Profile) -> None:
    """No GPU is much warmer than the coolest one.

    An outlier points to poor contact with its heat sink or to poor airflow. The limit is an
    estimate for idle GPUs, so it only warns.
    """
    limit = profile.limits.temperature_spread_c
    warm = read(node.gpus, "temperature.core_c")
    coolest = min((now for _, now in warm), default=0)
    hot = [(gpu, now) for gpu, now in warm if now - coolest > limit]
    if hot:
        which = ", ".join(f"{gpu.label} {now} °C" for gpu, now in hot)
        warn(
            f"more than {limit} °C warmer than the coolest GPU ({coolest} °C): {which}",
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
    """No software thermal slowdown is active."""
    if gpu.clock_reasons.sw_thermal:
        warn(
            f"software thermal slowdown is active{_temperature(gpu)}: check room and airflow",
            observed="sw_thermal",
        )


def _seen(gpu: Gpu) -> str:
    """Return ` (in 3 samples within 1.1 s)`, or nothing if it was sampled once."""
    reasons = gpu.clock_reasons
    if reasons.samples < 2:
        return ""
    within = f" within {reasons.seconds:.2g} s" if reasons.seconds else ""
    return f" (in {reasons.samples} samples{within})"


def _temperature(gpu: Gpu) -> str:
    """Return ` at 87 °C`, or nothing if unread: the slowdown is a fault either way."""
    return "".join(f" at {now} °C" for _, now in read([gpu], "temperature.core_c"))
