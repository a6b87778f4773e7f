"""The kernel's own words on the machine around the GPUs: memory, PCIe, network, disks, stuck
processors and programs.
"""

from typing import Any

from gpuscan import Action, Incident, check, fail, warn
from gpuscan.engine.suite import WARN_ONLY
from gpuscan.incidents.sentences import sentence


@check(
    action=Action.INVESTIGATE,
    kinds=("host",),
    needs="xid.log_coverage",
    source="the kernel's drivers; each kind of line has its own source: gpuscan explain",
    same=("observed",),
    aliases=["log.no_host_fault_is_logged"],
)
def test_host_faults(incident: Incident) -> None:
    """The kernel logged no fault of the host in this boot that asks for anything.

    What healthy fleets show every day (corrected errors, a job that ran out of its own memory) only
    warns.
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
    if action in WARN_ONLY:
        warn(message, action=action, **details)
    elif incident.ended:
        warn(
            f"{message}; history, as {incident.ended} came after it",
            action=Action.MONITOR,
            **details,
        )
    else:
        fail(message, action=action, **details)
