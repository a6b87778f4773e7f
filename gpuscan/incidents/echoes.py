"""Echoes: groups of events that are the consequence of another, their root."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan import catalogue
from gpuscan.incidents.conditions import are_on_path
from gpuscan.incidents.groups import CLEANUP, LOST, RECOVERY, EventGroup
from gpuscan.incidents.lives import OF_THE_DRIVER, Cures
from gpuscan.incidents.standing import Standing
from gpuscan.kernellog.event import NOTHING
from gpuscan.model.outcome import Action

# how long after its root an echo may be printed: a GSP times out after 45 s, and then again
ECHO_S = 120.0
EARLIER_S = 2.0  # and before it: GPUs of one board do not print in order
PEERS = ("xid:74", "xid:137", *(f"xid:{code}" for code in range(144, 151)))  # NVLink's, which
# the far end prints too
ELSEWHERE = ("aer", "apei")  # the host's errors name a port above the GPU, or none


class Scene(NamedTuple):
    """What tells echoes apart: how each group stands (by its id()), the cures, the ports above each
    GPU.
    """

    standings: Mapping[int, Standing]
    cures: Cures = Cures(())
    above: Mapping[str, Any] = NOTHING

    def of(self, group: EventGroup) -> Standing:
        """Return how a group stands."""
        return self.standings[id(group)]


def order(group: EventGroup, scene: Scene) -> tuple[int, int, int]:
    """Return what sorts groups: the most serious fault first, of equals the one that was printed
    first.
    """
    standing = scene.of(group)
    return -standing.exit_code, -standing.choice.action.rank, group.first.line


def find_roots(groups: Sequence[EventGroup], scene: Scene) -> dict[int, list[EventGroup]]:
    """Return the echoes of each root, by the id() of the root, in the order of `order`."""
    roots: dict[int, list[EventGroup]] = {}
    folded: set[int] = set()
    nearby = _Nearby(groups)
    for root in sorted(groups, key=lambda group: order(group, scene)):
        if id(root) in folded or root.entry == RECOVERY:
            continue
        echoes = [
            group
            for group in nearby.find(root)
            if not (id(group) in folded or id(group) in roots or group is root)
            and is_echo(group, root, scene)
        ]
        folded |= {id(echo) for echo in echoes}
        roots[id(root)] = echoes
    for group in groups:  # a recovery action that no fault explains is a root itself
        if group.entry == RECOVERY and id(group) not in folded:
            roots[id(group)] = []
    return roots


class _Nearby:
    """Groups by where they can be an echo: on the root's own GPU, or anywhere."""

    def __init__(self, groups: Sequence[EventGroup]) -> None:
        self._places = {id(group): place for place, group in enumerate(groups)}
        self._commenting: dict[str, list[EventGroup]] = {}
        self._named: dict[tuple[str, str | None], list[EventGroup]] = {}
        for group in groups:
            first = group.first
            follows = group.entry in (RECOVERY, CLEANUP) or first.cause
            if group.address and (follows or first.kind in OF_THE_DRIVER):
                self._commenting.setdefault(group.address, []).append(group)
            anywhere = first.kind in (*ELSEWHERE, "sxid") or group.entry in PEERS
            place = None if anywhere or not group.address else group.address
            for name in {group.entry, first.kind}:
                self._named.setdefault((name, place), []).append(group)

    def find(self, root: EventGroup) -> list[EventGroup]:
        """Return the groups of which some may be echoes of a root, in their order."""
        names = catalogue.entry(root.entry).companions
        found = [
            *self._commenting.get(root.address, ()),
            *(
                group
                for name in names
                for place in (None, root.address)
                for group in self._named.get((name, place), ())
            ),
        ]
        each = {id(group): group for group in found}
        return sorted(each.values(), key=lambda group: self._places[id(group)])


def is_echo(group: EventGroup, root: EventGroup, scene: Scene) -> bool:
    """Return whether a group is a consequence of a root.

    It is a known companion, of the same life of the part, near in time, no more serious, and no
    more alive: history absorbs nothing that still counts. A lost GPU is no echo.
    """
    if group.entry == LOST or not _is_near(group, root):
        return False
    if scene.cures.part(group.events, root.events) or _outlives(group, root, scene):
        return False
    if group.entry == RECOVERY:  # the root then asks for what the driver requests, if that is more
        return _is_last_word(group, root)
    if _is_named_cause(group, root):
        return True
    if _is_heavier(group, root, scene):
        return False
    if group.entry == CLEANUP:
        return _is_last_word(group, root)
    if _are_programs_apart(group, root, scene):
        return False
    return _is_companion(group, root) and _is_in_reach(group, root, scene)


def _outlives(group: EventGroup, root: EventGroup, scene: Scene) -> bool:
    """Return whether a group still asks for work while its root is history."""
    return bool(scene.of(root).ended) and scene.of(group).exit_code > 0


def _is_named_cause(group: EventGroup, root: EventGroup) -> bool:
    """Return whether the group's lines themselves name the root as their cause."""
    return f"xid:{group.first.cause}" == root.entry and _is_on_same_gpu(group, root)


def _is_heavier(group: EventGroup, root: EventGroup, scene: Scene) -> bool:
    """Return whether a group asks for more than its root, or for the same but sooner."""
    own, other = scene.of(group), scene.of(root)
    if own.exit_code > other.exit_code or own.choice.action.rank > other.choice.action.rank:
        return True
    return bool(own.exit_code) and own.choice.urgency == "now" != other.choice.urgency


def _is_on_same_gpu(group: EventGroup, root: EventGroup) -> bool:
    return group.address == root.address and bool(group.address)


def _is_last_word(group: EventGroup, root: EventGroup) -> bool:
    """Return whether a recovery action or a cleanup follows a fault of the same GPU."""
    follows = group.first.line >= root.first.line
    return _is_on_same_gpu(group, root) and root.first.kind in ("xid", "nvrm") and follows


def _is_companion(group: EventGroup, root: EventGroup) -> bool:
    """Return whether the catalogue names the group, or the driver comments on its own Xid."""
    companions = catalogue.entry(root.entry).companions
    if group.entry in companions or group.first.kind in companions:
        return True
    of_driver = group.first.kind in OF_THE_DRIVER and root.first.kind == "xid"
    return of_driver and _is_on_same_gpu(group, root)


def _is_in_reach(group: EventGroup, root: EventGroup, scene: Scene) -> bool:
    """Return whether the group's part can show the root's fault."""
    if group.first.kind in ELSEWHERE:
        return are_on_path(group.address, root.address, scene.above)
    if _is_on_same_gpu(group, root) or not group.address:
        return True
    linked = group.first.kind == "sxid" or group.entry in PEERS
    return root.first.kind == "xid" and linked


def _are_programs_apart(group: EventGroup, root: EventGroup, scene: Scene) -> bool:
    """Return whether two faults of programs are of different ones, so that both are reported.

    What a GPU's fault ends has no fault of its own.
    """
    pids, root_pids = ({event.pid for event in one.events if event.pid} for one in (group, root))
    of_program = scene.of(root).choice.action.rank <= Action.RESTART_APP.rank
    return of_program and bool(pids and root_pids) and not pids & root_pids


def _is_near(group: EventGroup, root: EventGroup) -> bool:
    """Return whether a line of a group was printed during its root or shortly after.

    Without timestamps any group is near, and the order of lines decides.
    """
    ends = (root.first, root.last, group.first, group.last)
    for times in (
        [event.at_s for event in ends],
        [event.wall_s for event in ends],
    ):
        begins, stops, first, last = times
        if begins is not None and stops is not None and first is not None and last is not None:
            return last >= begins - EARLIER_S and first <= stops + ECHO_S
    return True
