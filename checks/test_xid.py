"""Xid and SXid: what the driver logged in this boot, judged by the action of its code and by the card's state."""

from gpuscan import Action, Incident, Node, check, fail, read, warn
from gpuscan.outcome import TO_REPLACE
from gpuscan.suite import WARN_ONLY

# Codes for which the driver sets no recovery action: a clear state says nothing of them, only a reset or a boot does.
NOT_IN_STATE = (46, 54, 119, 140, 151, 166, 167, 168, 169, 173, 175)


@check(
    action=Action.INVESTIGATE,
    needs=(
        "driver.every_card_answers",
        "recovery.no_action_is_wanted",
        "memory.no_row_remap_failed",
        "memory.no_row_remap_is_pending",
        "memory.no_uncorrectable_ecc",
    ),
    source="NVIDIA Xid catalogue; Fabric Manager user guide, appendix D",
    ladder=TO_REPLACE,
    same=("observed",),
)
def test_no_fault_is_logged(incident: Incident) -> None:
    """The driver logged no Xid or SXid in this boot that asks for anything.

    State decides where it can be read: where the driver maps a code to a recovery action and wants none now, the event
    is history. Programs' faults only warn.
    """
    action = Action(incident.action)
    if action is Action.NONE:
        return
    times = f"at {incident.first_s:.0f} s after boot"
    if incident.events > 1:
        times = f"{incident.events} lines from {incident.first_s:.0f} to {incident.last_s:.0f} s after boot"
    by = f", in {', '.join(incident.processes)}" if incident.processes else ""
    message = f"{times}{by}: {incident.text or incident.name}"
    if action in WARN_ONLY:
        warn(message, action=action, observed=incident.code)
    elif _is_history(incident):
        warn(f"{message}; history, as the driver wants no recovery of the card now", action=Action.MONITOR, observed=incident.code)
    else:
        fail(message, action=action, observed=incident.code)


def _is_history(incident: Incident) -> bool:
    mapped = incident.kind == "xid" and incident.code not in NOT_IN_STATE
    return mapped and [wanted for _, wanted in read([incident], "recovery_action")] == [0]


@check(action=Action.MONITOR)
def test_log_covers_this_boot(node: Node) -> None:
    """The kernel log reaches back to the start of this boot."""
    if not node.kernel_log.whole:
        warn(f"the kernel log begins {node.kernel_log.covered_from_s:.0f} s after boot: what came before is not known")
