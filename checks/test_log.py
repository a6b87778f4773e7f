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
    asks = Action(incident.asks)
    if asks is Action.NONE:
        return
    details: dict[str, Any] = {
        "observed": incident.entry,
        "urgency": incident.urgency,
        "impact": incident.impact,
    }
    if _is_unwanted(incident, profile):
        message = f"{sentence(incident)}; the profile wants no GPUDirect RDMA"
        warn(message, action=Action.MONITOR, **details)
        return
    say = warn if asks in WARN_ONLY else fail
    say(sentence(incident), action=asks, **details)


def _is_unwanted(incident: Incident, profile: Profile) -> bool:
    return incident.entry == "peermem:symbol" and profile.kernel.get("gpudirect_rdma") is False
