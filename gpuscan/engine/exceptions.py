"""The only exceptions: where one more fault in the readings may lower what a node is asked for.

Each comes from a check's mark or from what a stage notes on the result; the node is then asked for
no less than the fault alone that lowers it.
"""

from collections.abc import Collection, Mapping, Sequence

from gpuscan.engine.suite import Check
from gpuscan.model.outcome import Result, SkipReason, Status

MODEL_CHECK = "inventory.gpu_model"


def voids(root: Result, voided_by: Collection[str]) -> bool:
    """Return whether *root* leaves a check that *voided_by* names it for without a basis."""
    return root.check in voided_by and root.status is Status.FAIL


def may_ask_less(
    before: Result, after: Mapping[tuple[str, str], Result], checks: Sequence[Check]
) -> bool:
    """Return whether a failure may ask for less after one more fault.

    *before* is its result without that fault, *after* are all results with it, by check and
    subject. Either the part itself is gone, as a port is without its driver; or a failed check
    voids this one, or eases it; or the GPU turns out to be of another model than the profile
    describes; or half of the parts now show the fault, whose cause is then shared.
    """
    failed = [one for one in after.values() if one.status is Status.FAIL]
    now = after.get((before.check, before.subject))
    if now is None:
        return before.about.kind == "port" and bool(failed)
    mark = next(one.mark for one in checks if one.id == before.check)
    found = [one for one in after.values() if one.findings]
    if now.status is Status.FAIL:
        return any(one.shared for one in now.findings) or _named(mark.eased_by, found)
    if now.skip_reason is SkipReason.EXPLAINED and now.explained_by is not None:
        return now.explained_by.check in (*mark.voided_by, *mark.eased_by)
    if now.status is Status.PASS:
        return _named(mark.eased_by, found)
    return now.skip_reason is SkipReason.NOT_JUDGED and _named((MODEL_CHECK,), failed)


def _named(checks: Collection[str], results: Sequence[Result]) -> bool:
    return any(one.check in checks for one in results)
