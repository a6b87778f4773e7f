"""Services: those that the GPUs and their network need are running."""

from gpuscan import Action, Node, Service, check, fail, warn

FABRIC_MANAGER = "nvidia-fabricmanager"
OURS = {
    FABRIC_MANAGER: "without it NVSwitches carry no traffic and CUDA returns error 802: "
    "reset the GPUs, then start it",
    "nvidia-persistenced": "it keeps the driver initialised between programs",
    "nvidia-imex": "it shares memory between the nodes of an NVLink domain",
    "nvidia-dcgm": "it monitors the GPUs",
    "nvlsm": "it is the subnet manager of NVLink switches",
    "openibd": "it loads the HCA drivers",
    "opensm": "it is the InfiniBand subnet manager",
}
DOWN = ("failed", "activating")


@check(
    action=Action.FIX_CONFIG,
    source="systemd; NVIDIA Fabric Manager user guide",
    aliases=["service.runs"],
)
def test_state(service: Service) -> None:
    """The service is running, if the GPUs or their network need it.

    A service that is inactive or still starting only warns, but without the Fabric Manager nothing
    runs on GPUs behind NVSwitches; on a node without any it has nothing to manage and may fail.
    """
    unwanted = service.active == "inactive" and service.enabled in ("disabled", "masked")
    if service.active not in (*DOWN, "inactive") or unwanted:
        return
    why = f" ({service.result})" if service.result else ""
    message = f"the service is {service.active}{why}"
    starts = service.active == "activating" and service.result == "start"
    purpose = OURS.get(service.label)
    must_run = service.label == FABRIC_MANAGER and service.needed == "yes"
    stopped = must_run and service.enabled == "enabled"
    down = (service.active in DOWN and not starts) or (service.active == "inactive" and stopped)
    if purpose and service.needed != "no" and down:
        fail(f"{message}; {purpose}", observed=service.active, expected="active")
    elif purpose or service.active == "failed":
        warn(message, observed=service.active, expected="active")


DAEMONS = {
    "nvidia-fabricmanager": Action.FIX_CONFIG,
    "nvidia-imex": Action.FIX_CONFIG,
    "nvlsm": Action.INVESTIGATE,
}


@check(
    action=Action.FIX_CONFIG,
    source="Fabric Manager, IMEX and NVLSM: the level that the daemon itself gives its lines",
    imported=True,
)
def test_daemon_logs(node: Node) -> None:
    """Fabric Manager, IMEX and NVLSM logged no error since they were last started."""
    errors = [error for error in node.daemon_errors if error.kind == "error"]
    for daemon in dict.fromkeys(error.part for error in errors):
        own = [error.text for error in errors if error.part == daemon]
        more = f" (and {len(own) - 1} more)" if len(own) > 1 else ""
        action = DAEMONS.get(daemon, Action.INVESTIGATE)
        fail(f"{daemon} logged an error: {own[-1]}{more}", action=action, observed=len(own))
