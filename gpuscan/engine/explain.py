"""Echoes: what a failed check explains on the same subject is skipped, not reported again.

A root explains a finding in one of two ways. Either the finding needs what the root lacks, and is
no heavier; or the root voids the expectation that the finding rests on (`voided_by`), and then the
finding says nothing, however heavy: a GPU of another model has not lost the NVLinks that the
profile expects of its own.
"""

from collections.abc import Mapping, Sequence

from gpuscan.engine.case import Case
from gpuscan.engine.conclude import worst_action
from gpuscan.engine.exceptions import voids
from gpuscan.engine.suite import Check
from gpuscan.model.outcome import Result, Root, SkipReason, Status
from gpuscan.model.subject import NODE

Needs = Mapping[str, frozenset[str]]


def all_needs(checks: Sequence[Check]) -> Needs:
    """Return the ids that each check needs, directly or through others.

    The checks are ordered: each comes after those that it needs.
    """
    needs: dict[str, frozenset[str]] = {}
    for one in checks:
        indirect = (needs.get(need, frozenset()) for need in one.mark.needs)
        needs[one.id] = frozenset(one.mark.needs).union(*indirect)
    return needs


def is_wrong(result: Result, case: Case) -> bool:
    """Return whether a result can explain others: a failure, or an unknown that counts."""
    if result.status is Status.UNKNOWN:
        return result.check not in case.profile.optional
    return result.status is Status.FAIL


def explain_echoes(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Turn the echoes of a failed need, and what a failed check voids, into skips."""
    needs = all_needs(case.checks)
    eased = {one.id for one in case.checks if case.busy and waits_for_jobs(one)}
    roots: dict[str, _Roots] = {}
    for place, one in enumerate(results):
        if is_wrong(one, case) or (one.status is Status.WARN and one.check in eased):
            roots.setdefault(one.check, _Roots()).add(place, one)
    voided_by = {one.id: frozenset(one.mark.voided_by) for one in case.checks}
    return tuple(_explain(one, roots, needs[one.check], voided_by[one.check]) for one in results)


class _Roots:
    """The wrong results of one check, each with its place among all, by what they are about."""

    def __init__(self) -> None:
        self._all: list[tuple[int, Result]] = []
        self._on_node: list[tuple[int, Result]] = []
        self._about: dict[str | None, list[tuple[int, Result]]] = {}
        self._blamed: set[str] = set()

    def add(self, place: int, root: Result) -> None:
        self._all.append((place, root))
        self._blamed.add(root.about.label)
        if root.about.kind == NODE.kind:
            self._on_node.append((place, root))
        else:
            for name in {root.subject, root.address or root.subject}:
                self._about.setdefault(name, []).append((place, root))

    def of_one_place(self, result: Result) -> Sequence[tuple[int, Result]]:
        """Return those about the part that a result is about; all of them, if all culprits of the
        result failed this check.
        """
        culprits = {name for finding in result.findings for name in finding.culprits}
        if culprits and culprits <= self._blamed:
            return self._all
        own = [self._about.get(name, ()) for name in {result.subject, result.address}]
        return [*self._on_node, *(root for roots in own for root in roots)]


def waits_for_jobs(one: Check) -> bool:
    """Return whether a check's findings only warn on a busy node."""
    return one.mark.jobs or one.mark.urgency == "next-idle"


def explained(result: Result, root: Root) -> Result:
    """Return a result as a skip that *root* explains."""
    return result._replace(
        status=Status.SKIP,
        reason=f"explained by {root.check} ({root.subject})",
        findings=(),
        skip_reason=SkipReason.EXPLAINED,
        explained_by=root,
    )


def _explain(
    result: Result, roots: Mapping[str, _Roots], needs: frozenset[str], voided_by: frozenset[str]
) -> Result:
    if not _was_judged(result):
        return result
    explaining = [
        (place, root)
        for check in needs | voided_by
        if check in roots
        for place, root in roots[check].of_one_place(result)
        if voids(root, voided_by) or (check in needs and _covers(root, result))
    ]
    if not explaining:
        return result
    _, root = min(explaining, key=lambda found: found[0])
    return explained(result, Root(root.check, root.about))


def _was_judged(result: Result) -> bool:
    """Return whether a check looked at its subject: other skips are their own reason."""
    if result.status is not Status.SKIP or result.unread:
        return True
    return result.skip_reason is SkipReason.EXPLAINED


def _covers(root: Result, result: Result) -> bool:
    if root.status is Status.WARN:  # what jobs cause explains no more than other warnings
        return result.status is Status.WARN
    if root.status is Status.UNKNOWN:
        return result.status is Status.UNKNOWN
    if result.status is not Status.FAIL:
        return True
    if _is_due(result) and not _is_due(root):  # what may wait explains nothing that may not
        return False
    return worst_action((result,)).rank <= worst_action((root,)).rank


def _is_due(result: Result) -> bool:
    """Return whether a failure may not wait until the node is idle."""
    due = (one for one in result.findings if one.severity is Status.FAIL)
    return any(one.urgency == "now" for one in due)
