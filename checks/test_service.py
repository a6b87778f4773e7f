"""Services: where a text tells of NVIDIA's, none has failed."""

from gpuscan import Action, Service, check, fail, warn

OURS = {
    "nvidia-fabricmanager": "without it NVSwitches carry nothing and CUDA answers error 802: reset the GPUs, start it",
    "nvidia-persistenced": "it keeps the driver's state between programs",
    "nvidia-imex": "it shares memory across nodes of one NVLink domain",
    "nvidia-dcgm": "it watches the GPUs",
    "openibd": "it loads the drivers of the InfiniBand adapters",
    "opensm": "it is the subnet manager of this InfiniBand network",
}
DOWN = ("failed", "activating")


@check(
    action=Action.FIX_CONFIG,
    source="systemd; NVIDIA Fabric Manager user guide",
    imported=True,
    aliases=["service.runs"],
)
def test_state(service: Service) -> None:
    """The service runs, if it is one that the GPUs or their network need.

    One that is only inactive may not be wanted here: a node without NVSwitches needs no Fabric
    Manager.
    """
    if service.active not in (*DOWN, "inactive"):
        return
    why = f" ({service.result})" if service.result else ""
    needed = OURS.get(service.label)
    if needed and service.active in DOWN:
        fail(
            f"the service is {service.active}{why}; {needed}",
            observed=service.active,
            expected="active",
        )
    elif needed or service.active == "failed":
        warn(f"the service is {service.active}{why}", observed=service.active, expected="active")
