"""Shared causes: if half of three or more GPUs show one fault, none is replaced for it; if half of
three or more ports do, it is a matter of what they share, and no cable is pulled for it.
"""

from collections.abc import Collection, Mapping

from gpuscan.engine.case import Case
from gpuscan.model import Node, is_unread
from gpuscan.model.outcome import Action, Result, Status

SHARED_FROM = 3
GPUS, PORTS, PORT = "gpus", "ports", "port"
Fault = tuple[str, str]


def mark_shared_cause(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Mark the failures whose cause is shared, and lower their action: of GPUs `replace` to
    `inspect`, of ports `inspect` to `investigate`.

    A check marked `shared=False` reads a part's own flag, which no shared cause can set.
    """
    own = {one.id for one in case.checks if not one.mark.shared}
    groups = _groups(case.node)
    places: dict[tuple[str, Fault], set[str]] = {}
    for one in results:
        if _may_be_shared(one, own):
            for group in _groups_of(one, groups):
                places.setdefault((group, _fault(one)), set()).add(_place(one))
    shared = {
        (group, fault)
        for (group, fault), where in places.items()
        if len(groups[group]) >= SHARED_FROM and 2 * len(where) >= len(groups[group])
    }

    def is_shared(one: Result) -> bool:
        found = (group for group in _groups_of(one, groups) if (group, _fault(one)) in shared)
        return _may_be_shared(one, own) and any(found)

    return tuple(_mark(one) if is_shared(one) else one for one in results)


def _may_be_shared(one: Result, own: Collection[str]) -> bool:
    return one.status is Status.FAIL and one.check not in own


def _groups(node: Node) -> dict[str, frozenset[str]]:
    """Return what can share a cause: the addresses of all GPUs, and the labels of the physical
    ports, all of them and those of each board type.
    """
    gpus = () if is_unread(node.gpus) else node.gpus
    groups = {GPUS: {gpu.address for gpu in gpus}}
    for port in () if is_unread(node.ports) else node.ports:
        if port.virtual is not True:
            board = "" if is_unread(port.board_id) else port.board_id
            for name in (PORTS, f"{PORTS} {board}"):
                groups.setdefault(name, set()).add(port.label)
    return {name: frozenset(members) for name, members in groups.items()}


def _groups_of(one: Result, groups: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the groups that a result's part belongs to."""
    names = (name for name in groups if (name == GPUS) != (one.about.kind == PORT))
    return [name for name in names if _place(one) in groups[name]]


def _place(one: Result) -> str:
    return one.about.label if one.about.kind == PORT else one.address or ""


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
    is_port = result.about.kind == PORT
    heavy = (Action.INSPECT, Action.REPLACE) if is_port else (Action.REPLACE,)
    light = Action.INVESTIGATE if is_port else Action.INSPECT
    findings = tuple(
        finding._replace(shared=True, action=light if finding.action in heavy else finding.action)
        for finding in result.findings
    )
    return result._replace(findings=findings)
