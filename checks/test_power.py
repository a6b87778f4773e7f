"""Power: the power limit is right, and nothing throttles the GPU."""

from gpuscan import Action, Gpu, Profile, check, fail, read, warn
from gpuscan.profile.values import in_words, options

ROUNDING_W = 1.0


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="performance",
    aliases=["power.limit_is_expected"],
)
def test_limit(gpu: Gpu, profile: Profile) -> None:
    """The power limit is the one the profile expects.

    Boards of one model are sold with several limits: one that nobody has changed only warns.
    """
    limit, expected = gpu.power.limit_w, profile.gpu.power_limit_w
    if limit in options(expected):
        return
    message = f"the power limit is {limit:g} W, the profile expects {in_words(expected)} W"
    if any(limit == default for _, default in read([gpu], "power.default_limit_w")):
        warn(f"{message}: it is this board's default", observed=limit, expected=expected)
    else:
        fail(message, observed=limit, expected=expected)


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "power.limit"),
    impact="performance",
    aliases=["power.limit_is_not_lowered"],
)
def test_limit_lowered(gpu: Gpu) -> None:
    """The power limit is not below the GPU's default."""
    limit, default = gpu.power.limit_w, gpu.power.default_limit_w
    if limit < default:
        warn(
            f"the power limit is {limit:g} W, below the default of {default:g} W",
            observed=limit,
            expected=default,
        )


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "power.limit"),
    source="NVML: the enforced limit is the lowest of all limiters, one set out of band included",
    impact="performance",
)
def test_enforced_limit(gpu: Gpu) -> None:
    """The power limit in force is the one that is set."""
    limit, enforced = gpu.power.limit_w, gpu.enforced_limit_w
    if enforced < limit - ROUNDING_W:
        fail(
            f"the power limit is set to {limit:g} W, but {enforced:g} W are enforced: look for a "
            "cap set by the BMC or the chassis",
            observed=enforced,
            expected=limit,
        )


@check(
    action=Action.INSPECT,
    needs=("driver.gpu_access", "thermal.hardware_slowdown"),
    source="NVML performance policies: board limit, reliability and thermal; the power policy is "
    "normal under load",
    impact="performance",
    jobs=True,
    aliases=["power.no_throttle_time_is_added"],
)
def test_throttle_time(gpu: Gpu) -> None:
    """Neither heat, the board limit nor reliability throttled the GPU during the scan."""
    throttled = gpu.throttled
    grown = {
        "heat": throttled.thermal_ns.growth,
        "the board limit": throttled.board_limit_ns.growth,
        "reliability": throttled.reliability_ns.growth,
    }
    causes = [f"{why} ({ns / 1e6:.0f} ms)" for why, ns in grown.items() if ns > 0]
    if causes:
        warn(f"throttled during the scan by {', '.join(causes)}", observed=causes)


@check(
    action=Action.INVESTIGATE,
    needs="driver.gpu_access",
    source="NVML power usage and limit; the driver holds the draw at the limit, but for a moment",
    impact="performance",
)
def test_usage(gpu: Gpu) -> None:
    """The GPU draws about as much power as its limit allows, or less."""
    usage, limit = gpu.power.usage_w, gpu.power.limit_w
    if usage > MOST_OVER * limit:
        warn(f"the GPU draws {usage:g} W, its limit is {limit:g} W", observed=usage, expected=limit)


MOST_OVER = 1.25  # our estimate, which only warns
