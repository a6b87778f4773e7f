"""The NVLink fabric: every GPU has registered with it, and its health bits are clear."""

from gpuscan import Action, Gpu, Profile, check, fail

UNSUPPORTED, COMPLETED = 0, 3
STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
MISTAKES = {  # NVML's words for an incorrect configuration, and what mends each
    2: ("another system GUID", Action.FIX_CONFIG),
    3: ("another chassis serial number", Action.FIX_CONFIG),
    4: ("no partition", Action.FIX_CONFIG),
    5: ("too few NVLinks", Action.INSPECT),
    6: ("incompatible GPU firmware", Action.FIX_CONFIG),
    7: ("the wrong location", Action.FIX_CONFIG),
    8: ("an invalid state of the GPU", Action.RESET_GPU),
}


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    source="NVML fabric info; CUDA answers error 802 until the state is completed with success",
    aliases=["fabric.registration_is_completed"],
)
def test_registration(gpu: Gpu, profile: Profile) -> None:
    """The GPU's registration with the fabric is completed, and with success.

    "Completed" alone is not enough: with another status than success (insufficient resources) no
    peer can be reached. Only a GPU that says that it has no fabric needs the profile's word on
    whether it should.
    """
    state, status = gpu.fabric.state, gpu.fabric.status
    done = state == COMPLETED and not status
    if (
        done
        or profile.gpu.get("fabric") is False
        or (state == UNSUPPORTED and not profile.gpu.fabric)
    ):
        return
    words = STATES.get(state, f"{state}, unknown to this gpuscan")
    if state == COMPLETED:
        fail(
            f"the fabric registration ended with NVML error {status}: see the Fabric Manager",
            observed=status,
            expected=0,
        )
    else:
        fail(
            f"the fabric registration is {words}: see the Fabric Manager",
            observed=words,
            expected="completed",
        )


@check(
    action=Action.RESET_GPU,
    needs=("driver.gpu_access", "fabric.registration"),
    source="NVML fabric health mask",
    impact="performance",
    aliases=["fabric.health_bits_are_clear"],
)
def test_health(gpu: Gpu) -> None:
    """No bit of the fabric's health mask says that bandwidth, a route or the configuration is bad."""
    health = gpu.fabric
    asked = (
        ("bandwidth is degraded", health.degraded_bandwidth),
        ("a route is unhealthy", health.route_unhealthy),
    )
    for words, answer in (*asked, ("it recovers from an access timeout", health.access_timeout)):
        if answer == 1:
            fail(f"the fabric says that {words}", observed=words)
    if health.misconfigured > 1:
        unknown = (f"mistake {health.misconfigured}, unknown to this gpuscan", Action.INVESTIGATE)
        words, action = MISTAKES.get(health.misconfigured, unknown)
        fail(
            f"the fabric says that the GPU is configured wrongly: {words}",
            action=action,
            observed=health.misconfigured,
        )
