"""Xid and SXid: what the driver logged in this boot, judged by its code and text, its company, and
the GPU's state.
"""

from typing import Any

from gpuscan import Action, Incident, Node, check, fail, read, warn
from gpuscan.engine.suite import WARN_ONLY
from gpuscan.incidents.sentences import sentence
from gpuscan.model.outcome import TO_REPLACE


@check(
    action=Action.INVESTIGATE,
    kinds=("xid", "sxid", "nvrm"),
    needs=(
        "driver.gpu_access",
        "recovery.action",
        "memory.row_remap",
        "memory.row_remap_pending",
        "memory.uncorrectable_ecc",
    ),
    source="NVIDIA Xid catalogue; Fabric Manager user guide, appendix D",
    ladder=TO_REPLACE,
    same=("observed",),
    aliases=["xid.no_fault_is_logged"],
)
def test_faults(incident: Incident) -> None:
    """The driver logged no Xid or SXid in this boot that asks for anything.

    State decides where it can be read: where the driver maps a code to a recovery action and wants
    none now, the event is history; where it does not, the event stays until a reset or a boot is
    seen after it. Programs' faults only warn. A code that nobody lists, or for which NVIDIA wants
    to be asked, drains a node only when it is back.
    """
    action = Action(incident.action)
    if action is Action.NONE:
        return
    message = sentence(incident)
    details: dict[str, Any] = {
        "observed": incident.code or incident.entry,
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
    elif action is Action.INVESTIGATE and not incident.because:
        what = "NVIDIA wants to be asked about it" if incident.listed else "nobody lists this code"
        if incident.times == 1 and incident.clean != "no":
            warn(
                f"{message}; once, and {what}: open a ticket with nvidia-bug-report.sh",
                action=Action.MONITOR,
                **details,
            )
        else:
            fail(
                f"{message}; {what}: open a ticket with nvidia-bug-report.sh",
                action=action,
                **details,
            )
    elif _is_history(incident):
        warn(
            f"{message}; history, as the driver wants no recovery of the GPU now",
            action=Action.MONITOR,
            **details,
        )
    else:
        fail(message, action=action, **details)


def _is_history(incident: Incident) -> bool:
    return incident.state == "mapped" and [
        wanted for _, wanted in read([incident], "recovery_action")
    ] == [0]


@check(action=Action.MONITOR, aliases=["xid.log_covers_this_boot"])
def test_log_coverage(node: Node) -> None:
    """The kernel log reaches back to the start of this boot."""
    if not node.kernel_log.whole:
        since_s = [seconds for _, seconds in read([node.kernel_log], "covered_from_s")]
        told = (
            f"begins {since_s[0]:.0f} s after boot"
            if since_s
            else "does not hold the beginning of a boot"
        )
        warn(f"the kernel log {told}: what came before is not known")
