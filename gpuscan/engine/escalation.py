"""The past raises an action: a fault that is back after what was asked for has been done asks for
the next step.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from gpuscan import catalogue
from gpuscan.engine.blame import Parts, find_targets
from gpuscan.engine.case import Case
from gpuscan.engine.reported import parts_of
from gpuscan.engine.suite import Check
from gpuscan.model import Fault, Node, Past, is_unread, read_or
from gpuscan.model.outcome import WORK, Action, Finding, Result, Status

DAY_S = 86400.0
MOST_BACK_DAYS = 90.0  # no window is longer: what is older is for people to look at


def tag_faults(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Note on each failure what distinguishes it from other faults of its check, for later runs."""
    checks = {one.id: one for one in case.checks}

    def tag(result: Result, finding: Finding) -> Finding:
        return finding._replace(same=_same(result, finding, checks[result.check], case.node))

    return tuple(_change_failures(result, tag) for result in results)


def escalate(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Raise the action of every failure that is back after its action was carried out.

    No action is lowered.
    """
    past = case.node.past
    if is_unread(past):
        return results
    checks = {one.id: one for one in case.checks}
    parts = parts_of(case.node)
    boot_id = read_or(case.node.host.boot_id, "")

    def raise_action(result: Result, finding: Finding) -> Finding:
        seen_s = _last_seen(result, case.node, past)
        return _raised(result, finding, checks[result.check], past, parts, boot_id, seen_s)

    return tuple(_change_failures(result, raise_action) for result in results)


def _change_failures(result: Result, change: Callable[[Result, Finding], Finding]) -> Result:
    if result.status is not Status.FAIL:
        return result
    findings = tuple(
        change(result, finding) if finding.severity is Status.FAIL else finding
        for finding in result.findings
    )
    return result._replace(findings=findings)


def _same(result: Result, finding: Finding, one: Check, node: Node) -> str:
    """Return the values that make it this fault, as JSON: those that the check's mark names."""
    values = {
        name: finding.observed if name == "observed" else _fact(one, result, node, name)
        for name in one.mark.same
    }
    return json.dumps(values, default=str, sort_keys=True) if values else ""


def _fact(one: Check, result: Result, node: Node, name: str) -> Any:
    records = [node] if one.subject == "node" else getattr(node, f"{one.subject}s")
    record: Any = next((r for r in records if getattr(r, "label", "") == result.about.label), node)
    for word in name.split("."):
        record = record if is_unread(record) else getattr(record, word)
    return read_or(record, None)


def _raised(
    result: Result,
    finding: Finding,
    one: Check,
    past: Past,
    parts: Parts,
    boot_id: str,
    seen_s: float,
) -> Finding:
    ladder, window_days = _ladder(result, finding, one)
    earlier = [
        fault
        for fault in past.faults
        if _is_back(fault, result, finding, past.at_s - window_days * DAY_S, parts)
    ]
    steps: list[tuple[Action, Fault | None, str]] = [
        (_next(ladder, Action(fault.action)), fault, work)
        for fault in earlier
        if (work := _done(fault, past, boot_id, seen_s))
    ]
    if not past.runs:  # what was there before is unknown: declared work counts
        declared = [tried for tried in past.tried if finding.action in WORK.get(tried.work, ())]
        steps += [(_next(ladder, finding.action), None, f"the {tried.work}") for tried in declared]
    kept: list[tuple[Action, Fault | None, str]] = [
        (Action(fault.action), fault, "") for fault in earlier
    ]  # asked for and not done yet
    action, fault, work = max(
        [*kept, *steps], key=lambda step: step[0].rank, default=(finding.action, None, "")
    )
    if action.rank <= finding.action.rank:
        return finding
    if finding.shared and action is Action.REPLACE:  # its cause is no part of this GPU
        action = Action.INSPECT
    return finding._replace(
        action=action, message=f"{finding.message}; {_explain(fault, work, past.at_s)}"
    )


def _ladder(result: Result, finding: Finding, one: Check) -> tuple[tuple[Action, ...], float]:
    """Return the ladder of the code that an incident bears, where the catalogue has one, else its
    check's.
    """
    if one.subject == "incident" and isinstance(finding.observed, int):
        entry = catalogue.entry(result.about.entry)
        ladder = one.mark.ladder if entry.ladder is None else entry.ladder
        return ladder, entry.window_days or one.mark.window_days
    return one.mark.ladder, one.mark.window_days


def _is_back(fault: Fault, result: Result, finding: Finding, since_s: float, parts: Parts) -> bool:
    """Tell whether an earlier fault is this one: the same fault of one check, on one part, within
    the window.
    """
    if fault.check != result.check or fault.same != finding.same or fault.at_s < since_s:
        return False
    blame = find_targets(result, finding, parts)
    if not blame:
        return fault.subject == "node"
    # by serial where both are known: another GPU in the same slot is another part
    return any(
        fault.serial == part.serial
        if fault.serial and part.serial
        else fault.subject == part.subject
        for part in blame
    )


def _last_seen(result: Result, node: Node, past: Past) -> float:
    """Return when what a result reports was last seen (Unix time): what was logged, by its last
    line; everything else, and a line without a time, now.
    """
    for incident in read_or(node.incidents, ()) if result.about.kind == "incident" else ():
        if incident.label == result.about.label and not is_unread(incident.last_s):
            return past.booted_s + incident.last_s if past.booted_s else past.at_s
    return past.at_s


def _done(fault: Fault, past: Past, boot_id: str, seen_s: float) -> str:
    """Return what has carried out a fault's action before it was seen again, in words, or nothing.

    A newer boot proves no more than a reboot.
    """
    action = Action(fault.action)
    works = [
        tried
        for tried in past.tried
        if fault.at_s <= tried.at_s
        and tried.after_s < seen_s  # a line that is older than the work is no return
        and action in WORK.get(tried.work, ())
    ]
    if works:
        return f"the {works[-1].work}{' that the BMC logged' if works[-1].source == 'SEL' else ''}"
    rebooted = boot_id and fault.boot_id and boot_id != fault.boot_id
    return "a reboot" if rebooted and action in WORK["reboot"] else ""


def _next(ladder: Sequence[Action], action: Action) -> Action:
    """Return the step above an action on its ladder; whoever is not on it, or at its end, stays."""
    return (
        next((step for step in ladder if step.rank > action.rank), action)
        if action in ladder
        else action
    )


def _explain(fault: Fault | None, work: str, now_s: float) -> str:
    if fault is None:
        return f"{work} has not mended it"
    days = (now_s - fault.at_s) / DAY_S
    when = (
        f"{days:.0f} days ago"
        if days >= 1.5
        else f"{days * 24:.0f} hours ago"
        if days * 24 >= 1.5
        else "earlier"
    )
    return (
        f"it was there {when}, and {work} has not mended it"
        if work
        else f"it was there {when}, when {fault.action} was asked for"
    )
