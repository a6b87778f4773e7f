"""Blind spots: what could not be read, once for each fact and reason."""

from collections.abc import Sequence

from gpuscan.model.outcome import Result, SkipReason, Status
from gpuscan.model.report_rows import BlindSpot


def find_blind_spots(results: Sequence[Result]) -> tuple[BlindSpot, ...]:
    """Return each fact that kept a check from judging, with the subjects it was missing on."""
    spots: dict[tuple[str, str, str], set[str]] = {}
    for result in results:
        if result.status not in (Status.SKIP, Status.UNKNOWN):
            continue
        if result.skip_reason is SkipReason.EXPLAINED:
            continue
        for path, unread in result.unread:
            spot = (_without_labels(path), unread.kind, unread.text)
            spots.setdefault(spot, set()).add(result.subject)
    return tuple(
        BlindSpot(fact, kind, text, tuple(sorted(subjects)))
        for (fact, kind, text), subjects in spots.items()
    )


def _without_labels(path: str) -> str:
    """Return a fact's path for all subjects: `gpus[SXM6].nvlinks[3].active` without the labels."""
    head, bracket, tail = path.partition("[")
    return f"{head}[]{_without_labels(tail.partition(']')[2])}" if bracket else path
