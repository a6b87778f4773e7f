"""Names the logged codes that a finding explains: people look for `79`, not for a lost GPU."""

from collections.abc import Iterator, Sequence

from gpuscan.engine.case import Case
from gpuscan.model import Incident, read_or
from gpuscan.model.outcome import Action, Result, Root, Status

CODED = ("xid", "sxid")
MOST_NAMED = 3
LONGEST_CHAIN = 10  # of explanations that are themselves explained


def name_codes(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Add to each failure the Xids and SXids that it explains: `... (Xid 79 at 14:02:11)`."""
    coded = {f"incident:{one.label}": one for one in _coded(case)}
    by_root: dict[Root, list[Incident]] = {}
    for result, root in _explained(results) if coded else ():
        if result.subject in coded:
            by_root.setdefault(root, []).append(coded[result.subject])
    if not by_root:
        return results
    return tuple(_with_codes(one, by_root.get(Root(one.check, one.about), ())) for one in results)


def _coded(case: Case) -> Iterator[Incident]:
    """Yield the codes that ask for work: a program's own fault explains no lost GPU."""
    for one in read_or(case.node.incidents, ()):
        if one.kind in CODED and Action(one.asks).rank > Action.RESTART_APP.rank:
            yield one


def _explained(results: Sequence[Result]) -> Iterator[tuple[Result, Root]]:
    """Yield what is explained, with the result that stands at the end of all explanations."""
    roots = {Root(one.check, one.about): one.explained_by for one in results if one.explained_by}
    for result in results:
        root = result.explained_by
        for _ in range(LONGEST_CHAIN):
            root = roots.get(root, root) if root else None
        if root is not None:
            yield result, root


def _with_codes(result: Result, incidents: Sequence[Incident]) -> Result:
    if not incidents or result.status is not Status.FAIL:
        return result
    told = [_told(one, result) for one in incidents[:MOST_NAMED]]
    more = f" and {len(incidents) - MOST_NAMED} more" if len(incidents) > MOST_NAMED else ""
    first, *rest = result.findings
    message = f"{first.message} ({', '.join(told)}{more})"
    return result._replace(findings=(first._replace(message=message), *rest))


def _told(incident: Incident, result: Result) -> str:
    """Return code and time, and the part unless the result is about it."""
    code, on, part = incident.label.rpartition(" on ")
    where = "" if incident.address and incident.address == result.address else f"{on}{part}"
    return f"{code or part}{where if code else ''} {incident.when}"
