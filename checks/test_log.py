"""Host faults in the kernel log: memory, PCIe, network, disks, stuck CPUs and processes."""

from typing import Any

from gpuscan import Action, Incident, Profile, check, fail, warn
from gpuscan.engine.suite import WARN_ONLY
from gpuscan.incidents.sentences import sentence


@check(
    action=Action.INVESTIGATE,
    kinds=("host",),
    needs="xid.log_coverage",
    source="the kernel's drivers; gpuscan explain names the source of each kind of line",
    same=("observed",),
    aliases=["log.no_host_fault_is_logged"],
)
def test_host_faults(incident: Incident, profile: Profile) -> None:
    """The kernel logged no host fault in this boot that needs action.

    What healthy fleets log every day (corrected errors, a job that exceeded its own memory limit)
    only warns.
    """
    action = Action(incident.action)
    if action is Action.NONE:
        return
    message = sentence(incident)
    details: dict[str, Any] = {
        "observed": incident.entry,
        "urgency": incident.urgency,
        "impact": incident.impact,
    }
    if _is_unwanted(incident, profile):
        warn(f"{message}; the profile wants no GPUDirect RDMA", action=Action.MONITOR, **details)
    elif action in WARN_ONLY:
        warn(message, action=action, **details)
    elif incident.ended:
        warn(
            f"{message}; history, followed by {incident.ended}",
            action=Action.MONITOR,
            **details,
        )
    else:
        fail(message, action=action, **details)


def _is_unwanted(incident: Incident, profile: Profile) -> bool:
    return incident.entry == "peermem:symbol" and profile.kernel.get("gpudirect_rdma") is False
