"""Shared causes: if half of three or more GPUs show one fault, none is replaced for it."""

from gpuscan.engine.case import Case
from gpuscan.model import is_unread
from gpuscan.model.outcome import Action, Result, Status

SHARED_FROM_GPUS = 3
Fault = tuple[str, str]


def mark_shared_cause(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Mark the failures whose cause is shared, and lower `replace` to `inspect` on them.

    A check marked `shared=False` reads a GPU's own flag, which no shared cause can set.
    """
    node = case.node
    gpus = frozenset() if is_unread(node.gpus) else frozenset(gpu.address for gpu in node.gpus)
    own = {one.id for one in case.checks if not one.mark.shared}
    places: dict[Fault, set[str]] = {}
    for result in results:
        if result.status is Status.FAIL and result.address in gpus and result.check not in own:
            places.setdefault(_fault(result), set()).add(result.address)
    shared = {
        fault
        for fault, where in places.items()
        if len(gpus) >= SHARED_FROM_GPUS and 2 * len(where) >= len(gpus)
    }
    return tuple(
        (
            _mark(one)
            if one.status is Status.FAIL and one.address in gpus and _fault(one) in shared
            else one
        )
        for one in results
    )


def _fault(result: Result) -> Fault:
    """Return what makes two failures one fault: the check, and what was observed of an incident.

    Xid 48 is not Xid 79. Slowness in a burn-in is told apart by test: slow memory on one GPU and
    slow transfers on the others are two faults.
    """
    about = result.about
    if about.kind == "incident":
        return result.check, str([finding.observed for finding in result.findings])
    slow = all(finding.impact == "performance" for finding in result.findings)
    return result.check, about.test if about.kind == "test" and slow else ""


def _mark(result: Result) -> Result:
    findings = tuple(
        finding._replace(
            shared=True,
            action=Action.INSPECT if finding.action is Action.REPLACE else finding.action,
        )
        for finding in result.findings
    )
    return result._replace(findings=findings)
