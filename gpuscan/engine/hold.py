"""A hold: a verdict of 20 or more stays on the parts that caused it, until something better than a
reboot lifts it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuscan.durations import format_moment
from gpuscan.engine.blame import Parts, Target, blamed
from gpuscan.engine.conclude import Conclusion
from gpuscan.model import Held, Node, is_unread, read_or
from gpuscan.model.outcome import ACTIONS, FAILED, HARMLESS, LEVELS, Action, Finding, Result, Status

CHECK = "history.hold"
SWAP = "swap.begin"
TITLE = "No hold that an earlier run set stands."
HARDWARE = 40


def lifted_by(code: int, level: str) -> str:
    """Return what lifts a reason of a hold, in words.

    >>> lifted_by(20, "quick")
    'a passing run of full scope at level quick or above lifts it, or gpuscan clear --reason'
    """
    if code >= HARDWARE:
        return "gpuscan swap verify lifts it, a passing run without this part, or gpuscan clear --reason"
    at = (
        ""
        if level == LEVELS[0]
        else f" at level {level}{'' if level == LEVELS[-1] else ' or above'}"
    )
    return f"a passing run of full scope{at} lifts it, or gpuscan clear --reason"


def proves_health(conclusion: Conclusion, run: Mapping[str, Any]) -> bool:
    """Return whether a run proves the whole node healthy: it passed, complete and of full scope."""
    return conclusion.exit_code == 0 and conclusion.complete and not run.get("limited_to")


def standing(
    node: Node, results: tuple[Result, ...], run: Mapping[str, Any], conclusion: Conclusion
) -> tuple[Held, ...]:
    """Return the reasons of the hold that this run does not lift; pure. A run that does not pass
    lifts none.
    """
    if is_unread(node.past):
        return ()
    passed = proves_health(conclusion, run)
    return tuple(
        held for held in node.past.held if not (passed and _lifts(held, node, results, run))
    )


def _lifts(held: Held, node: Node, results: Sequence[Result], run: Mapping[str, Any]) -> bool:
    """Tell whether a passing run of full scope lifts one reason."""
    if held.code >= HARDWARE:
        return _is_gone(held, node)
    if held.code < FAILED:
        return False  # what was held could not be read: only a person can say
    if LEVELS.index(_level(run)) < LEVELS.index(held.level):
        return False
    mine = [result for result in results if result.check == held.check]
    silent = all(
        result.subject == "node" and result.reason.startswith("what is left") for result in mine
    )
    if mine and silent:  # the log's beginning is gone: that proves something only of another boot
        return not is_unread(node.host.boot_id) and node.host.boot_id != held.boot_id
    return any(result.status in (Status.PASS, Status.WARN) for result in mine)


def _level(run: Mapping[str, Any]) -> str:
    return str(run.get("level") or LEVELS[0])


def _is_gone(held: Held, node: Node) -> bool:
    """Tell whether the held part is no longer in the node: it has a serial, all that are in have
    one, and none is it.
    """
    serials = [gpu.serial for gpu in node.gpus] if not is_unread(node.gpus) else [node.gpus]
    return (
        bool(held.serial)
        and held.subject.startswith("gpu:")
        and not any(is_unread(s) or s == held.serial for s in serials)
    )


def beside_swap(
    held: Sequence[Held],
    changed: Iterable[str],
    node: Node,
    results: Sequence[Result],
    run: Mapping[str, Any],
) -> tuple[Held, ...]:
    """Return the reasons that a proven swap of the *changed* parts (`gpu:SXM1`) does not lift:
    those of parts that stayed in.

    What a passing run lifts this one lifts, too. What the whole node is held for may have been any
    part, this one as well.
    """
    words = set(changed)
    begun = [one for one in held if one.check == SWAP]
    known = {mark for one in begun for mark in (one.subject, one.address, one.serial) if mark}
    others = [one for one in held if one not in begun and one.code >= FAILED]
    kept = [one for one in others if not ({one.subject, one.address, one.serial} & (known | words))]
    return tuple(
        one
        for one in kept
        if not (_is_changed(one, words, node) or _lifts(one, node, results, run))
    )


def _is_changed(held: Held, words: Iterable[str], node: Node) -> bool:
    """Tell whether a reason may have gone with the changed parts: a GPU with its serial or tray,
    a port with any but a GPU.
    """
    kinds = {word.partition(":")[0] for word in words}
    if held.subject.startswith("gpu:"):
        return "tray" in kinds or _is_gone(held, node)
    return held.code >= HARDWARE and (held.subject == "node" or bool(kinds - {"gpu"}))


def results_of(held: Sequence[Held], results: tuple[Result, ...], node: Node) -> tuple[Result, ...]:
    """Return the standing hold as results, one a part; none where the run itself found as much or
    worse.
    """
    if is_unread(node.past) and node.past.kind not in HARMLESS:
        return (
            Result(
                CHECK,
                "node",
                None,
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
    return Result(CHECK, subject, held[0].address or None, Status.FAIL, TITLE, findings=findings)


def _message(held: Held) -> str:
    serial = f", serial {held.serial}" if held.serial else ""
    return f"held since {format_moment(held.since_s)} ({held.check}{serial}): {held.message}; {lifted_by(held.code, held.level)}"


def after(
    held: Sequence[Held],
    results: Sequence[Result],
    parts: Parts,
    run: Mapping[str, Any],
    node: Node,
) -> tuple[Held, ...]:
    """Return the hold that a run leaves behind: what stands of the old one, and what it found
    itself.
    """
    if is_unread(node.past):
        return ()
    reasons = {(one.check, one.subject, one.serial): one for one in held}
    for new in _own(results, parts, run, node):
        key = (new.check, new.subject, new.serial)
        old = reasons.get(key)
        if old is not None:
            level = max(old.level, new.level, key=LEVELS.index)
            new = (new if new.code >= old.code else old)._replace(since_s=old.since_s, level=level)
        reasons[key] = new
    return tuple(sorted(reasons.values(), key=lambda one: (-one.code, one.since_s)))


def _own(
    results: Sequence[Result], parts: Parts, run: Mapping[str, Any], node: Node
) -> Iterable[Held]:
    for result in results:
        for finding in result.findings if result.check != CHECK else ():
            if _fails(result, finding):
                targets = blamed(result, finding, parts) or [Target("node", None, None, None)]
                proof = {**run, "level": max(finding.level, _level(run), key=LEVELS.index)}
                yield from (
                    reason(target, result.check, finding.message, finding.action, proof, node)
                    for target in targets
                )


def reason(
    target: Target, check: str, message: str, action: Action, run: Mapping[str, Any], node: Node
) -> Held:
    """Return one reason of a hold on a part."""
    return Held(
        code=ACTIONS[action].exit_code,
        action=action.value,
        check=check,
        subject=target.subject,
        slot=target.subject.partition(":")[2],
        address=target.address or "",
        serial=target.serial or "",
        message=message,
        level=_level(run),
        boot_id=read_or(node.host.boot_id, ""),
        profile=str((run.get("profile") or {}).get("name", "")),
        since_s=0.0 if is_unread(node.past) else node.past.at_s,
    )


def summary(held: Sequence[Held]) -> dict[str, Any] | None:
    """Return a hold as last.json and reports have it: the heaviest code, since when, and each
    reason; None without one.
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
