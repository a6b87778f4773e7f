"""Xid: what the driver logged about a card in this boot, judged by the action of its code."""

from gpuscan import Action, Incident, Node, check, fail, warn
from gpuscan.suite import WARN_ONLY


@check(
    action=Action.INVESTIGATE,
    needs=("driver.every_card_answers", "recovery.no_action_is_wanted"),
    source="NVIDIA Xid catalogue",
)
def test_no_fault_is_logged(incident: Incident) -> None:
    """The driver logged no Xid in this boot that asks for anything."""
    action = Action(incident.action)
    if action is Action.NONE:
        return
    times = f"at {incident.first_s:.0f} s after boot"
    if incident.events > 1:
        times = f"{incident.events} lines from {incident.first_s:.0f} to {incident.last_s:.0f} s after boot"
    by = f", in {', '.join(incident.processes)}" if incident.processes else ""
    message = f"{times}{by}: {incident.text or incident.name}"
    say = warn if action in WARN_ONLY else fail
    say(message, action=action, observed=incident.code)


@check(action=Action.MONITOR)
def test_log_covers_this_boot(node: Node) -> None:
    """The kernel log reaches back to the start of this boot."""
    if not node.kernel_log.whole:
        warn(f"the kernel log begins {node.kernel_log.covered_from_s:.0f} s after boot: what came before is not known")
