"""A hold: a verdict of 20 or more stays on the parts that caused it until it is lifted.

A reboot alone lifts nothing; what does is one rule, in `lifting`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpuscan.durations import format_moment
from gpuscan.engine.blame import Parts, Target, find_targets
from gpuscan.engine.case import HOLD_CHECK, SWAP, Case
from gpuscan.engine.conclude import conclude
from gpuscan.engine.drives import level_of
from gpuscan.engine.lifting import (
    Place,
    Proof,
    after_pass,
    expectations,
    find_part,
    last_found,
    lifted_by,
    link_downs,
    marks,
    proves_health,
    serial_in,
    watch,
)
from gpuscan.engine.rates import count_events
from gpuscan.engine.reported import parts_of
from gpuscan.model import Held, Node, Unread, is_unread, read_or
from gpuscan.model.outcome import (
    ACTIONS,
    FAILED,
    HARMLESS,
    LEVELS,
    WORK,
    Action,
    Finding,
    Result,
    Status,
)
from gpuscan.model.report_rows import ChangeRow, RunInfo
from gpuscan.model.subject import NODE, parse_subject

CHECK = HOLD_CHECK
TITLE = "No hold that an earlier run set stands."
ReasonKey = tuple[str, str, str]


def apply_holds(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Add the hold that still stands as failures of `history.hold`, one a part."""
    return results + results_of(_standing(case, results), results, case.node, case.run)


def hold_after(case: Case, results: tuple[Result, ...]) -> tuple[Held, ...]:
    """Return the hold that a run leaves: what stands of the old one, and what the run found."""
    if is_unread(case.node.past):
        return ()
    own = tuple(one for one in results if one.check != CHECK)
    return join_holds(_standing(case, own), _new_reasons(own, case))


def join_holds(old: Iterable[Held], new: Iterable[Held]) -> tuple[Held, ...]:
    """Return both holds as one, the heaviest reason first; one that both have began with the old
    one, and is as heavy as the heavier.
    """
    reasons = {key_of(one): one for one in old}
    for one in new:
        before = reasons.get(key_of(one))
        reasons[key_of(one)] = _join(before, one) if before else one
    return tuple(sorted(reasons.values(), key=lambda one: (-one.code, one.since_s)))


def key_of(held: Held) -> ReasonKey:
    """Return what tells one reason of a hold from another: check, part and serial."""
    return held.check, held.subject, held.serial


def _join(old: Held, new: Held) -> Held:
    level = max(old.level, new.level, key=LEVELS.index)
    heavier = max(new, old, key=lambda one: Action(one.action).rank)
    return heavier._replace(
        since_s=old.since_s,
        seen_s=new.seen_s,
        boot_id=new.boot_id,
        level=level,
        link_downed=max(old.link_downed, new.link_downed),
        asleep=False,
        tests=_tests_of(old, new),
        events=new.events,
        over_s=new.over_s,
    )


def _tests_of(old: Held, new: Held) -> str:
    """Return the tests in which a reason was found: a later run, or a proof, that met it in fewer
    of them says nothing of the others.
    """
    found = (name for one in (old, new) for name in one.tests.split("; ") if name)
    return "; ".join(dict.fromkeys(found))


def _standing(case: Case, results: tuple[Result, ...]) -> tuple[Held, ...]:
    """Return the reasons that a run does not lift; one that does not pass lifts none."""
    past = case.node.past
    if is_unread(past):
        return ()
    optional = case.profile.optional
    conclusion = conclude(results, circumstances=case.circumstances, optional=optional)
    if past.unread_holds or not proves_health(conclusion, case.left_out):
        return tuple(watch(one, case.node) for one in past.held)
    return after_pass(past.held, Proof(case.node, results, case.run, case.profile))


def after_swap(
    held: Iterable[Held], changes: Sequence[ChangeRow], proof: Proof
) -> tuple[Held, ...]:
    """Return the reasons that a proven swap does not lift: those of parts that it did not change.

    It lifts what replaced parts were held for, what a passing run lifts, for which it is the proof
    of work, and all that `swap begin` held.
    """
    named = [row for row in changes if row.expected and row.kind != NODE.kind]
    replaced = _marks_of(row for row in named if _is_replaced(row))
    worked = _marks_of(named)
    kept = [
        one
        for one in held
        if one.check != SWAP and one.code >= FAILED and not marks(one) & replaced
    ]
    return after_pass(kept, proof._replace(worked=worked))


def _is_replaced(row: ChangeRow) -> bool:
    """Return whether a row is of a replaced part; a cable has no identity that would show it."""
    return not row.reseated and (row.kind == "cable" or row.what in ("replaced", "added"))


def _marks_of(rows: Iterable[ChangeRow]) -> frozenset[str]:
    """Return what the holds on these parts may know them by; a port goes with adapter or cable."""
    found = set()
    for row in rows:
        found |= {f"{row.kind}:{row.slot}", str(row.before.get("serial") or "")}
        found |= {f"port:{row.slot}"} if row.kind == "cable" else {row.address}
    return frozenset(found) - {""}


def results_of(
    held: Sequence[Held], results: tuple[Result, ...], node: Node, run: RunInfo
) -> tuple[Result, ...]:
    """Return a standing hold as results, one a part; none if the run found as bad or worse."""
    return (*_unread_of(node), *_failures_of(held, results, node, run))


def _unread_of(node: Node) -> tuple[Result, ...]:
    """Return what is not known of the hold as one result: the node may be held."""
    past = node.past
    if is_unread(past):
        lacks = [] if past.kind in HARMLESS else [past]
    else:
        lacks = [Unread("history:hold.unread", "garbled", text) for text in past.unread_holds]
    if not lacks:
        return ()
    text = "; ".join(lack.text for lack in lacks)
    unread = tuple(("past", lack) for lack in lacks)
    return (Result(CHECK, NODE, Status.UNKNOWN, TITLE, text, unread=unread),)


def _failures_of(
    held: Sequence[Held], results: tuple[Result, ...], node: Node, run: RunInfo
) -> tuple[Result, ...]:
    own = max(
        (ACTIONS[f.action].exit_code for r in results for f in r.findings if _fails(r, f)),
        default=0,
    )
    awake = [(one, _action(one, node, run)) for one in held if not one.asleep]
    if max((ACTIONS[action].exit_code for _, action in awake), default=0) <= own:
        return ()
    return tuple(
        _result([(one, action) for one, action in awake if one.subject == subject], node, run)
        for subject in dict.fromkeys(one.subject for one, _ in awake)
    )


def _fails(result: Result, finding: Finding) -> bool:
    return result.status is Status.FAIL and finding.severity is Status.FAIL


def _is_missing(held: Held, node: Node, run: RunInfo) -> bool:
    """Return whether a run that lists all parts does not see the one that is held."""
    return not run.limited_to and find_part(held, node).place is Place.ABSENT


def _action(held: Held, node: Node, run: RunInfo) -> Action:
    """Return what a standing reason asks for: of a GPU that is gone since, at least what brings it
    back (a reboot, then a power cycle, then a look at its seat).
    """
    action = Action(held.action)
    if parse_subject(held.subject).kind != "gpu" or not _is_missing(held, node, run):
        return action
    works = () if is_unread(node.past) else node.past.tried
    done = {Action.POWER_CYCLE} & {
        each for one in works if one.at_s > last_found(held) for each in WORK.get(one.work, ())
    }
    booted = read_or(node.host.boot_id, "") != held.boot_id
    back = Action.INSPECT if done else Action.POWER_CYCLE if booted else Action.REBOOT
    return max(action, back, key=lambda each: each.rank)


def _result(held: Sequence[tuple[Held, Action]], node: Node, run: RunInfo) -> Result:
    findings = tuple(
        Finding(
            Status.FAIL,
            _message(one, missing=_is_missing(one, node, run)),
            action,
            source="the hold that an earlier run set",
            same=one.check,
        )
        for one, action in held
    )
    first, _ = held[0]
    about = parse_subject(first.subject)._replace(address=first.address or None)
    return Result(CHECK, about, Status.FAIL, TITLE, findings=findings)


def _message(held: Held, *, missing: bool) -> str:
    serial = f", serial {held.serial}" if held.serial else ""
    since = format_moment(held.since_s)
    gone = "; it is not in the node now" if missing else ""
    by = " by root" if held.of_root else ""
    return f"held{by} since {since} ({held.check}{serial}): {held.message}{gone}; {lifted_by(held)}"


def asleep_notes(held: Iterable[Held]) -> tuple[str, ...]:
    """Return a sentence on each reason whose part is gone, and not missed."""
    return tuple(
        f"{one.subject.replace(':', ' ', 1)}{', serial ' if one.serial else ''}{one.serial} is held"
        f" ({one.check}) and not in the node: the profile's count is met without it; the hold"
        " stands again when it is seen"
        for one in held
        if one.asleep
    )


def _new_reasons(results: Sequence[Result], case: Case) -> Iterator[Held]:
    parts = parts_of(case.node)
    for result in results:
        for finding in result.findings:
            if _fails(result, finding):
                yield from _reasons_of(result, finding, parts, case)


def _reasons_of(result: Result, finding: Finding, parts: Parts, case: Case) -> Iterator[Held]:
    targets = find_targets(result, finding, parts) or [Target(str(NODE), None, None, None)]
    tests = _tests_under(result, case.node)
    levels = (finding.level, case.run.level, level_of(tests) if case.run.proof else LEVELS[0])
    proof = case.run._replace(level=max(levels, key=LEVELS.index))
    for target in targets:
        message, action = finding.message, finding.action
        one = reason(target, result.check, message, action, proof, case.node)
        record = find_part(one, case.node).record
        serial = serial_in(parse_subject(one.subject).kind, record) if record else ""
        events, over_s = count_events(result, record, case.node)
        yield one._replace(
            serial=one.serial or serial,
            expects=expectations([result]),
            link_downed=link_downs(record),
            tests=tests,
            events=events,
            over_s=over_s,
        )


def _tests_under(result: Result, node: Node) -> str:
    """Return the burn-in's test that a result is about; of a line in the log those of its GPU
    during which the kernel logged any.
    """
    if result.about.kind == "test":
        return result.about.label
    if result.about.kind != "incident" or not result.address:
        return ""
    mine = (test for test in read_or(node.tests, ()) if test.address == result.address)
    return "; ".join(test.label for test in mine if read_or(test.logged, ()))


def reason(
    target: Target, check: str, message: str, action: Action, run: RunInfo, node: Node
) -> Held:
    """Return one reason of a hold on a part."""
    at_s = 0.0 if is_unread(node.past) else node.past.at_s
    return Held(
        code=ACTIONS[action].exit_code,
        action=action.value,
        check=check,
        subject=target.subject,
        slot=parse_subject(target.subject).label,
        address=target.address or "",
        serial=target.serial or "",
        message=message,
        level=run.level,
        boot_id=read_or(node.host.boot_id, ""),
        profile=run.profile.name,
        since_s=at_s,
        seen_s=at_s,
    )


def summary(held: Sequence[Held]) -> dict[str, Any] | None:
    """Return a hold as last.json and reports have it, None where nothing is held or all sleeps.

    Keys: code (the heaviest), verdict, since (Unix time), reasons.
    """
    awake = [one for one in held if not one.asleep]
    if not awake:
        return None
    worst = max(awake, key=lambda one: one.code)
    verdict = next(row.verdict for row in ACTIONS.values() if row.exit_code == worst.code)
    return {
        "code": worst.code,
        "verdict": verdict,
        "since": min(one.since_s for one in awake),
        "reasons": [one._asdict() for one in awake],
    }
