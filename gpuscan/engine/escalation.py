"""The past raises an action: a fault that is back after what was asked for has been done asks for
the next step.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuscan import catalogue
from gpuscan.engine.blame import Parts, find_targets
from gpuscan.engine.case import Case
from gpuscan.engine.reported import parts_of
from gpuscan.engine.suite import Check
from gpuscan.model import Fault, Node, Past, is_unread, read_or
from gpuscan.model.outcome import WORK, Action, Finding, Result, Status
from gpuscan.text import counted

DAY_S = 86400.0
MOST_BACK_DAYS = 90.0  # no window is longer: what is older is for people to look at


def tag_faults(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Note on each failure, and on each logged fault that is history now, what distinguishes it
    from other faults of its check, for later runs.
    """
    checks = {one.id: one for one in case.checks}
    past_faults = _history(case.node)

    def tag(result: Result) -> Result:
        if result.status is not Status.FAIL and result.subject not in past_faults:
            return result
        same = (_same(result, one, checks[result.check], case.node) for one in result.findings)
        findings = zip(result.findings, same, strict=True)
        return result._replace(findings=tuple(one._replace(same=text) for one, text in findings))

    return tuple(tag(result) for result in results)


def _history(node: Node) -> dict[str, Action]:
    """Return what each incident asks for by itself, whatever the state says now, by its subject:
    those that ask for a reset or more.
    """
    asked = {f"incident:{one.label}": Action(one.action) for one in read_or(node.incidents, ())}
    return {name: one for name, one in asked.items() if one.rank >= Action.RESET_GPU.rank}


def escalate(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Raise the action of every failure that is back after its action was carried out, and fail
    what returns in boot after boot, though its cause was gone each time.

    No action is lowered.
    """
    past = case.node.past
    if is_unread(past):
        return results
    checks = {one.id: one for one in case.checks}
    now = _Now(past, parts_of(case.node), read_or(case.node.host.boot_id, ""))
    asked = _history(case.node)

    def raised(result: Result) -> Result:
        one = checks.get(result.check)
        if one is None:  # the match of a profile is no check, and has no past
            return result
        if _is_history(result) and result.subject in asked:
            return _returned(result, one, asked[result.subject], now)
        seen_s = _last_seen(result, case.node, past)
        return _change_failures(
            result, lambda result, finding: _raised(result, finding, one, now, seen_s)
        )

    return tuple(raised(result) for result in results)


def _is_history(result: Result) -> bool:
    """Return whether a result only says that something was; what jobs excuse asks for work."""
    if result.status is not Status.WARN:
        return False
    return all(finding.action is Action.MONITOR for finding in result.findings)


class _Now(NamedTuple):
    """What a run knows when it looks back."""

    past: Past
    parts: Parts
    boot_id: str


def _returned(result: Result, one: Check, asks: Action, now: _Now) -> Result:
    """Return a logged fault as a failure if it was there in earlier boots as well: in two, or in
    one where the code has a window of its own.

    A boot proves no power cycle, so that is the most that boots alone can ask for.
    """
    finding = result.findings[0]
    ladder, window_days = _ladder(result, finding, one)
    since_s = now.past.at_s - window_days * DAY_S
    earlier = [f for f in now.past.faults if _is_back(f, result, finding, since_s, now.parts)]
    boots = {fault.boot_id for fault in earlier} - {"", now.boot_id}
    own_window = catalogue.entry(result.about.entry).window_days
    if not now.boot_id or asks not in ladder or len(boots) < (1 if own_window else 2):
        return result
    action = asks
    for _ in boots:
        action = _next(ladder, action)
    action = min(action, max(asks, Action.POWER_CYCLE, key=_rank), key=_rank)
    within = counted(window_days, "day")
    message = f"{finding.message}; it was there in {len(boots) + 1} boots within {within}"
    raised = finding._replace(severity=Status.FAIL, action=action, message=message)
    return result._replace(status=Status.FAIL, findings=(raised, *result.findings[1:]))


def _rank(action: Action) -> int:
    return action.rank


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


def _raised(result: Result, finding: Finding, one: Check, now: _Now, seen_s: float) -> Finding:
    ladder, window_days = _ladder(result, finding, one)
    past, since_s = now.past, now.past.at_s - window_days * DAY_S
    earlier = [
        fault for fault in past.faults if _is_back(fault, result, finding, since_s, now.parts)
    ]
    steps: list[tuple[Action, Fault | None, str]] = [
        (_next(ladder, Action(fault.action)), fault, work)
        for fault in earlier
        if (work := _done(fault, past, now.boot_id, seen_s))
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
