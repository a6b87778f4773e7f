"""The NVLink fabric: every GPU has registered with it and is healthy in it."""

import re

from gpuscan import Action, Gpu, Node, Profile, check, fail, read, warn

UNSUPPORTED, COMPLETED = 0, 3
YES, NO = 1, 2  # each question of the health mask
UNHEALTHY, LIMITED = 2, 3  # the health summary
WAITING = (1, 2)  # not started, in progress
STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
MISCONFIGURATIONS = {  # NVML's codes for an incorrect configuration, and what fixes each
    2: ("system GUID mismatch", Action.FIX_CONFIG),
    3: ("chassis serial number mismatch", Action.FIX_CONFIG),
    4: ("no partition", Action.FIX_CONFIG),
    5: ("insufficient NVLinks", Action.INSPECT),
    6: ("incompatible GPU firmware", Action.FIX_CONFIG),
    7: ("invalid location", Action.FIX_CONFIG),
    8: ("invalid GPU state", Action.RESET_GPU),
}


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    source="NVIDIA Fabric Manager user guide: without it no GPU registers, and links stay down",
)
def test_manager(node: Node) -> None:
    """The Fabric Manager has registered at least one GPU.

    If several GPUs wait and none has registered, the fault is the service's, not the GPUs'.
    """
    states = [(gpu, fabric.state) for gpu, fabric in read(node.gpus, "fabric")]
    waiting = [gpu for gpu, state in states if state in WAITING]
    if len(waiting) > 1 and len(waiting) == len(states):
        names = ("nvidia-fabricmanager", "fabricmanager")
        services = [one for one in node.services if one.label in names]
        state = f" (the service is {services[0].active})" if services else ""
        fail(
            f"no GPU has registered with the NVLink fabric: start the Fabric Manager{state}, in "
            "the driver's version",
            observed=sorted({STATES[state] for _, state in states}),
            expected="completed",
        )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    voided_by="fabric.manager",
    source="NVML fabric info; CUDA returns error 802 until registration has completed successfully",
    aliases=["fabric.registration_is_completed"],
)
def test_registration(gpu: Gpu, profile: Profile) -> None:
    """The GPU has registered with the NVLink fabric successfully.

    The state "completed" is not enough: unless its status is success too, the GPU cannot reach its
    peers. Whether a GPU that reports no fabric should have one is for the profile to say.
    """
    state, status = gpu.fabric.state, gpu.fabric.status
    done = state == COMPLETED and not status
    if (
        done
        or profile.gpu.get("fabric") is False
        or (state == UNSUPPORTED and not profile.gpu.fabric)
    ):
        return
    name = STATES.get(state, f"in state {state}, which this gpuscan does not know")
    if state == COMPLETED:
        fail(
            f"fabric registration failed with NVML error {status}: check the Fabric Manager",
            observed=status,
            expected=0,
        )
    else:
        fail(
            f"fabric registration is {name}: check the Fabric Manager",
            observed=name,
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
    """The fabric reports no fault in bandwidth, routes or configuration."""
    health = gpu.fabric
    for symptom, answer in (
        ("bandwidth is degraded", health.degraded_bandwidth),
        ("a route is unhealthy", health.route_unhealthy),
        ("recovery from an access timeout is in progress", health.access_timeout),
    ):
        if answer == YES:
            fail(f"the fabric reports that {symptom}", observed=symptom)
    if health.misconfigured > 1:
        unknown = (
            f"code {health.misconfigured}, which this gpuscan does not know",
            Action.INVESTIGATE,
        )
        mistake, action = MISCONFIGURATIONS.get(health.misconfigured, unknown)
        fail(
            f"the fabric reports an incorrect configuration: {mistake}",
            action=action,
            observed=health.misconfigured,
        )
    if health.route_recovery == YES:
        warn(
            "the fabric is recovering a route: if this does not finish, reset the GPU",
            action=Action.MONITOR,
            observed="route recovery",
        )


@check(
    action=Action.RESET_GPU,
    needs=("driver.gpu_access", "fabric.registration", "fabric.health"),
    source="NVML fabric health summary (R580)",
    impact="performance",
)
def test_summary(gpu: Gpu) -> None:
    """The fabric's summary calls the GPU healthy."""
    summary = gpu.fabric.summary
    if summary == UNHEALTHY:
        fail("the fabric calls the GPU unhealthy", observed=summary)
    elif summary == LIMITED:
        warn("the fabric's capacity is limited", action=Action.MONITOR, observed=summary)


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "fabric.registration"),
    source="NVML fabric info: NVLink reaches from GPU to GPU within one cluster UUID and clique",
)
def test_domain(node: Node, profile: Profile) -> None:
    """All GPUs of the node are in one NVLink domain: one cluster UUID, one clique.

    A GPU without a cluster beside GPUs that have one is not in their domain. GPUs of a board with
    switches of its own have none; those of a Grace tray get theirs from the rack's switches.
    """
    domains = [
        (gpu, (fabric.cluster, fabric.clique))
        for gpu, fabric in read(node.gpus, "fabric")
        if fabric.state == COMPLETED
    ]
    named = [domain for _, domain in domains if domain[0].strip("0-")]
    known = named or [domain for _, domain in domains]
    common = max(known, key=known.count, default=None)
    apart = [(gpu, domain) for gpu, domain in domains if domain != common]
    if apart and common:
        which = ", ".join(f"{gpu.label} {cluster}/{clique}" for gpu, (cluster, clique) in apart)
        fail(
            f"not in the same NVLink domain as the other GPUs ({common[0]}/{common[1]}): {which}",
            culprits=[gpu for gpu, _ in apart],
        )
    tray = [gpu for gpu, _ in domains if RACK.search(gpu.name)]
    if tray and not named:
        told = "the GPUs have registered with the fabric, but are in no NVLink domain"
        if profile.gpu.get("fabric"):
            fail(f"{told}: check NVLSM and the rack's switches", culprits=tray)
        else:
            warn(f"{told} of a rack", culprits=tray)


RACK = re.compile(r"\bGB[23]00\b")  # NVIDIA: NVL72 trays


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "fabric.registration", "fabric.health"),
    source="NVML fabric health mask, bits 13:12: whether a partition is assigned",
)
def test_partition(node: Node, profile: Profile) -> None:
    """Every GPU has a partition of the NVLink fabric.

    It is wanted where the profile expects a fabric, or where another GPU of the node has one.
    """
    answers = [(gpu, fabric.partition) for gpu, fabric in read(node.gpus, "fabric")]
    without = [gpu for gpu, answer in answers if answer == NO]
    wanted = profile.gpu.get("fabric") or any(answer == YES for _, answer in answers)
    if without and wanted:
        which = ", ".join(gpu.label for gpu in without)
        fail(f"no partition of the NVLink fabric is assigned to {which}", culprits=without)
    elif without:
        which = ", ".join(gpu.label for gpu in without)
        warn(f"no partition of the NVLink fabric is assigned to {which}", culprits=without)
