"""The conclusion of a judgement: verdict, exit code, completeness, action and targets, derived here
and nowhere else.

Whatever changes a verdict (a scan cut short, a swap without proof, a hold that stands) adds a
result or a circumstance; nothing sets a code.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from gpuscan.engine.blame import NO_KINDS, Parts, Target, find_targets
from gpuscan.model.outcome import (
    ACTIONS,
    EXIT_INCOMPLETE,
    EXIT_OK,
    HARMLESS,
    Action,
    Result,
    SkipReason,
    Status,
    exit_code,
)


class Circumstance(Enum):
    """What a judgement was made under, beyond its results."""

    CUT_SHORT = "a signal ended the scan: it proves faults, never health"
    NOT_UNDERSTOOD = "lines of the input were not understood: it proves faults, never health"
    PARTIAL = "the whole node was to be judged, and this is only a part of it"
    ONLY_ETHERNET = "the input lists Ethernet ports only: no check applies, and nothing is missing"


class Conclusion(NamedTuple):
    """What follows from the results of one judgement.

    *targets* are the parts that *action* is for, empty where it is for the node as a whole.
    """

    verdict: str
    exit_code: int
    complete: bool
    action: Action
    targets: tuple[Target, ...]


def conclude(
    results: Sequence[Result],
    *,
    circumstances: frozenset[Circumstance] = frozenset(),
    optional: frozenset[str] = frozenset(),
    fail_on: str = "",
    parts: Parts = (),
    kinds: Mapping[str, str] = NO_KINDS,
) -> Conclusion:
    """Return the conclusion of *results*: a proven failure outweighs what was not read.

    *optional* names the checks whose `unknown` leaves the scan complete; *fail_on* is "warn" where
    a warning counts as a failure. *parts* and *kinds* (slot -> kind of a compared part) only serve
    to name the targets. A standing hold takes part as results of the check `history.hold`.
    """
    action = worst_action(results)
    complete = _is_complete(results, circumstances, optional)
    if action is not Action.NONE:
        row = ACTIONS[action]
        targets = _targets(results, action, parts, kinds)
        return Conclusion(row.verdict, row.exit_code, complete, action, targets)
    is_part = Circumstance.PARTIAL in circumstances
    if not complete or is_part or not _shows_health(results, circumstances):
        return Conclusion("incomplete", EXIT_INCOMPLETE, False, action, ())
    verdict = "warn" if any(one.status is Status.WARN for one in results) else "pass"
    code = exit_code(verdict, EXIT_OK, fail_on_warn=fail_on == "warn")
    return Conclusion(verdict, code, True, action, ())


def worst_action(results: Sequence[Result]) -> Action:
    """Return the heaviest action among the failures, `none` without one."""
    actions = [
        finding.action
        for result in results
        if result.status is Status.FAIL
        for finding in result.findings
        if finding.severity is Status.FAIL
    ]
    return max(actions, key=lambda action: action.rank, default=Action.NONE)


def _is_complete(
    results: Sequence[Result], circumstances: frozenset[Circumstance], optional: frozenset[str]
) -> bool:
    if circumstances & {Circumstance.CUT_SHORT, Circumstance.NOT_UNDERSTOOD}:
        return False
    needed = [one for one in results if one.check not in optional]
    return not any(one.status is Status.UNKNOWN or _hides_a_gap(one) for one in needed)


def _hides_a_gap(result: Result) -> bool:
    """Return whether an explained result lacked a fact: no finding of its own, yet not read."""
    return result.skip_reason is SkipReason.EXPLAINED and any(
        unread.kind not in HARMLESS for _, unread in result.unread
    )


def _shows_health(results: Sequence[Result], circumstances: frozenset[Circumstance]) -> bool:
    """Return whether anything was judged good: results that are all skips prove nothing."""
    if any(one.status in (Status.PASS, Status.WARN) for one in results):
        return True
    unknown = any(one.status is Status.UNKNOWN for one in results)
    return Circumstance.ONLY_ETHERNET in circumstances and not unknown


def _targets(
    results: Sequence[Result], action: Action, parts: Parts, kinds: Mapping[str, str]
) -> tuple[Target, ...]:
    """Return the parts that the node's action is for, each once."""
    targets: dict[str, Target] = {}
    for result in results:
        for finding in result.findings:
            if finding.severity is Status.FAIL and finding.action is action:
                blame = find_targets(result, finding, parts, kinds)
                targets |= {target.subject: target for target in blame}
    return tuple(targets.values())
