"""A hold: a verdict of 20 or more stays on the parts that caused it until it is lifted.

A reboot alone lifts nothing. A passing run lifts what is below 40; a proven swap, another part in
the slot or a person (`gpuscan clear`) lifts the rest.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpuscan.durations import format_moment
from gpuscan.engine.blame import Parts, Target, find_targets
from gpuscan.engine.case import HOLD_CHECK, Case
from gpuscan.engine.conclude import Conclusion, conclude
from gpuscan.engine.reported import parts_of
from gpuscan.model import Held, Node, is_unread, read_or
from gpuscan.model.outcome import (
    ACTIONS,
    FAILED,
    HARMLESS,
    LEVELS,
    Action,
    Finding,
    Result,
    SkipReason,
    Status,
)
from gpuscan.model.report_rows import RunInfo
from gpuscan.model.subject import NODE, parse_subject

CHECK = HOLD_CHECK
SWAP = "swap.begin"
TITLE = "No hold that an earlier run set stands."
HARDWARE = 40
GPU = "gpu"
TRAY = "tray"
ReasonKey = tuple[str, str, str]


def apply_holds(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Add the hold that still stands as failures of `history.hold`, one a part."""
    return results + results_of(_standing(case, results), results, case.node)


def hold_after(case: Case, results: tuple[Result, ...]) -> tuple[Held, ...]:
    """Return the hold that a run leaves: what stands of the old one, and what the run found."""
    if is_unread(case.node.past):
        return ()
    own = tuple(one for one in results if one.check != CHECK)
    reasons = {key_of(one): one for one in _standing(case, own)}
    for new in _new_reasons(own, case):
        old = reasons.get(key_of(new))
        reasons[key_of(new)] = _join(old, new) if old else new
    return tuple(sorted(reasons.values(), key=lambda one: (-one.code, one.since_s)))


def key_of(held: Held) -> ReasonKey:
    """Return what tells one reason of a hold from another: check, part and serial."""
    return held.check, held.subject, held.serial


def _join(old: Held, new: Held) -> Held:
    level = max(old.level, new.level, key=LEVELS.index)
    heavier = new if new.code >= old.code else old
    return heavier._replace(since_s=old.since_s, level=level)


def _standing(case: Case, results: tuple[Result, ...]) -> tuple[Held, ...]:
    """Return the reasons that a run does not lift; one that does not pass lifts none."""
    past = case.node.past
    if is_unread(past):
        return ()
    optional = case.profile.optional
    conclusion = conclude(results, circumstances=case.circumstances, optional=optional)
    if not proves_health(conclusion, case.run):
        return past.held
    return tuple(one for one in past.held if not _lifts(one, case.node, results, case.run))


def lifted_by(code: int, level: str) -> str:
    """Return the sentence on what lifts a reason of a hold.

    >>> lifted_by(20, "quick")
    'a passing run of full scope at level quick or above lifts it, or gpuscan clear --reason'
    """
    if code >= HARDWARE:
        return (
            "gpuscan swap verify lifts it, a passing run without this part, "
            "or gpuscan clear --reason"
        )
    at = (
        ""
        if level == LEVELS[0]
        else f" at level {level}{'' if level == LEVELS[-1] else ' or above'}"
    )
    return f"a passing run of full scope{at} lifts it, or gpuscan clear --reason"


def proves_health(conclusion: Conclusion, run: RunInfo) -> bool:
    """Return whether a run proves the whole node healthy: it passed, complete and of full scope."""
    return conclusion.exit_code == 0 and conclusion.complete and not run.limited_to


def _lifts(held: Held, node: Node, results: Sequence[Result], run: RunInfo) -> bool:
    """Return whether a passing run of full scope lifts one reason."""
    if held.code >= HARDWARE:
        return _is_gone(held, node)
    if held.code < FAILED:
        return False  # what was held could not be read: only a person can say
    if LEVELS.index(run.level) < LEVELS.index(held.level):
        return False
    mine = [result for result in results if result.check == held.check]
    silent = all(result.skip_reason is SkipReason.SILENT_LOG for result in mine)
    if mine and silent:  # the log's beginning is gone: that proves something only of another boot
        return not is_unread(node.host.boot_id) and node.host.boot_id != held.boot_id
    return any(result.status in (Status.PASS, Status.WARN) for result in mine)


def _is_gone(held: Held, node: Node) -> bool:
    """Return whether the held GPU left the node: all serials are known, and none is its own."""
    serials = [gpu.serial for gpu in node.gpus] if not is_unread(node.gpus) else [node.gpus]
    return (
        bool(held.serial)
        and parse_subject(held.subject).kind == GPU
        and not any(is_unread(s) or s == held.serial for s in serials)
    )


def beside_swap(
    held: Sequence[Held],
    changed: Iterable[str],
    node: Node,
    results: Sequence[Result],
    run: RunInfo,
) -> tuple[Held, ...]:
    """Return the reasons that a proven swap does not lift: those of parts that stayed in.

    *changed* are subjects (`gpu:SXM1`). The swap lifts all that a passing run lifts. A reason on
    the whole node may have been any part, so it goes as well.
    """
    swapped = set(changed)
    begun = [one for one in held if one.check == SWAP]
    known = {mark for one in begun for mark in (one.subject, one.address, one.serial) if mark}
    others = [one for one in held if one not in begun and one.code >= FAILED]
    kept = [
        one for one in others if not ({one.subject, one.address, one.serial} & (known | swapped))
    ]
    return tuple(
        one
        for one in kept
        if not (_is_changed(one, swapped, node) or _lifts(one, node, results, run))
    )


def _is_changed(held: Held, swapped: Iterable[str], node: Node) -> bool:
    """Return whether a reason may have gone with the swapped parts.

    A GPU goes with its serial or its tray, a port with any part but a GPU.
    """
    kinds = {parse_subject(one).kind for one in swapped}
    about = parse_subject(held.subject)
    if about.kind == GPU:
        return TRAY in kinds or _is_gone(held, node)
    return held.code >= HARDWARE and (about == NODE or bool(kinds - {GPU}))


def results_of(held: Sequence[Held], results: tuple[Result, ...], node: Node) -> tuple[Result, ...]:
    """Return a standing hold as results, one a part; none if the run found as bad or worse."""
    if is_unread(node.past) and node.past.kind not in HARMLESS:
        return (
            Result(
                CHECK,
                NODE,
                Status.UNKNOWN,
                TITLE,
                node.past.text,
                unread=(("past", node.past),),
            ),
        )
    own = max(
        (ACTIONS[f.action].exit_code for r in results for f in r.findings if _fails(r, f)),
        default=0,
    )
    if not held or max(one.code for one in held) <= own:
        return ()
    return tuple(
        _result(subject, [one for one in held if one.subject == subject])
        for subject in dict.fromkeys(h.subject for h in held)
    )


def _fails(result: Result, finding: Finding) -> bool:
    return result.status is Status.FAIL and finding.severity is Status.FAIL


def _result(subject: str, held: Sequence[Held]) -> Result:
    findings = tuple(
        Finding(
            Status.FAIL,
            _message(one),
            Action(one.action),
            source="the hold that an earlier run set",
            same=one.check,
        )
        for one in held
    )
    about = parse_subject(subject)._replace(address=held[0].address or None)
    return Result(CHECK, about, Status.FAIL, TITLE, findings=findings)


def _message(held: Held) -> str:
    serial = f", serial {held.serial}" if held.serial else ""
    since = format_moment(held.since_s)
    lift = lifted_by(held.code, held.level)
    return f"held since {since} ({held.check}{serial}): {held.message}; {lift}"


def _new_reasons(results: Sequence[Result], case: Case) -> Iterator[Held]:
    parts = parts_of(case.node)
    for result in results:
        for finding in result.findings:
            if _fails(result, finding):
                yield from _reasons_of(result, finding, parts, case)


def _reasons_of(result: Result, finding: Finding, parts: Parts, case: Case) -> Iterator[Held]:
    targets = find_targets(result, finding, parts) or [Target(str(NODE), None, None, None)]
    proof = case.run._replace(level=max(finding.level, case.run.level, key=LEVELS.index))
    for target in targets:
        message, action = finding.message, finding.action
        yield reason(target, result.check, message, action, proof, case.node)


def reason(
    target: Target, check: str, message: str, action: Action, run: RunInfo, node: Node
) -> Held:
    """Return one reason of a hold on a part."""
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
        since_s=0.0 if is_unread(node.past) else node.past.at_s,
    )


def summary(held: Sequence[Held]) -> dict[str, Any] | None:
    """Return a hold as last.json and reports have it, None without one.

    Keys: code (the heaviest), verdict, since (Unix time), reasons.
    """
    if not held:
        return None
    worst = max(held, key=lambda one: one.code)
    verdict = next(row.verdict for row in ACTIONS.values() if row.exit_code == worst.code)
    return {
        "code": worst.code,
        "verdict": verdict,
        "since": min(one.since_s for one in held),
        "reasons": [one._asdict() for one in held],
    }
