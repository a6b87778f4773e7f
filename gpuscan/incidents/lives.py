"""Lives of a part: what a reset, a boot or declared work has ended, and what it leaves standing."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuscan.kernellog.event import Event
from gpuscan.model.outcome import WORK, Action

OF_THE_DRIVER = ("nvrm", "driver")
OF_A_GPU = ("xid", *OF_THE_DRIVER)
MARKS = ("reset", "boot")  # events that are cures, not faults
START_S = 30.0  # the start of a driver on a full board
# of the starts of a driver, each of which is asked about each event: the first and the last
MOST_LOADS = 400
BOOT, RESET = "a boot", "a reset"


class Work(NamedTuple):
    """Work that was declared (a key of `outcome.WORK`), done at *at_s* (Unix time)."""

    work: str
    at_s: float


class Cure(NamedTuple):
    """A reset, a boot or declared work, which ends faults that ask for no more than *heals*.

    *kinds* are the kinds of events that it can end (empty: all), *address* its only part, ""
    if it is for all. *at_s* and *wall_s* are as in an event, *booted_s* is when this boot began
    (Unix time, 0 if unknown).
    """

    what: str
    heals: Action
    kinds: tuple[str, ...] = ()
    address: str = ""
    line: int = 0
    at_s: float | None = None
    wall_s: float | None = None
    booted_s: float = 0.0
    declared: bool = False

    def touches(self, event: Event) -> bool:
        """Return whether it can end an event of this kind on this part."""
        if self.kinds and event.kind not in self.kinds:
            return False
        return self.address in ("", event.address)

    def follows(self, event: Event) -> bool:
        """Return whether it came after an event.

        The driver names itself after it has probed all GPUs: what it found just before belongs to
        this very start, and so does what has no time.
        """
        if self.declared:
            return self._was_done_after(event)
        if event.line >= self.line:
            return False
        if self.what == BOOT or self.address:
            return True
        clocks = ((event.at_s, self.at_s), (event.wall_s, self.wall_s))
        return any(
            later - earlier > START_S
            for earlier, later in clocks
            if earlier is not None and later is not None
        )

    def _was_done_after(self, event: Event) -> bool:
        at_s = event.wall_s
        if at_s is None and event.at_s is not None and self.booted_s:
            at_s = self.booted_s + event.at_s
        return at_s is not None and self.wall_s is not None and at_s <= self.wall_s


class _OfAPart(NamedTuple):
    """The cures that can end events of one kind on one part: the lines of the boots and of its own
    resets, which end whatever comes before them, and the others, each to be asked.
    """

    boots: list[int]
    resets: list[int]
    others: list[Cure]

    def count_after(self, event: Event) -> int:
        return (
            len(self.boots)
            - bisect_right(self.boots, event.line)
            + len(self.resets)
            - bisect_right(self.resets, event.line)
            + sum(cure.follows(event) for cure in self.others)
        )

    def stand_between(self, lines: Sequence[int], events: Sequence[Event]) -> bool:
        """Return whether one of them follows some of these events, and not all."""
        for places in (self.boots, self.resets):
            if bisect_right(places, min(lines)) < bisect_right(places, max(lines)):
                return True
        return any(len({cure.follows(event) for event in events}) > 1 for cure in self.others)


class Cures:
    """The cures of a log, then those that were declared, found by the part that they can end."""

    def __init__(self, cures: Iterable[Cure]) -> None:
        self._all = tuple(cures)
        self._boots: list[int] = []
        self._resets: dict[str, list[Cure]] = {}
        loads: list[Cure] = []
        declared: list[Cure] = []
        for cure in self._all:
            if cure.declared:
                declared.append(cure)
            elif cure.what == BOOT:
                self._boots.append(cure.line)
            elif cure.address:
                self._resets.setdefault(cure.address, []).append(cure)
            else:
                loads.append(cure)
        if len(loads) > MOST_LOADS:
            loads = [*loads[: MOST_LOADS // 2], *loads[-MOST_LOADS // 2 :]]
        self._boots.sort()
        self._others = [*loads, *declared]
        self._parts: dict[tuple[str, str], _OfAPart] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def _of(self, event: Event) -> _OfAPart:
        name = (event.kind, event.address)
        if name not in self._parts:
            own = [one.line for one in self._resets.get(event.address, ()) if one.touches(event)]
            others = [cure for cure in self._others if cure.touches(event)]
            self._parts[name] = _OfAPart(self._boots, sorted(own), others)
        return self._parts[name]

    def life(self, event: Event) -> int:
        """Return which life of its part an event belongs to: how many cures came after it."""
        return self._of(event).count_after(event) if self._all else 0

    def what_ended(self, event: Event, action: Action) -> str:
        """Return what came after an event and ends a fault that asks for *action*, "" if nothing
        does.
        """
        known = self._of(event)
        logged = [
            (places[after], what)
            for places, what, heals in (
                (known.boots, BOOT, Action.REBOOT),
                (known.resets, RESET, Action.RESET_GPU),
            )
            if heals.rank >= action.rank
            and (after := bisect_right(places, event.line)) < len(places)
        ]
        others = [
            cure for cure in known.others if cure.heals.rank >= action.rank and cure.follows(event)
        ]
        logged += [(cure.line, cure.what) for cure in others if not cure.declared]
        declared = [cure.what for cure in others if cure.declared]
        return min(logged)[1] if logged else "".join(declared[:1])

    def between(self, first: Event, then: Event) -> list[Action]:
        """Return what the cures of a part between two events of it heal."""
        known = self._of(first)
        return [
            *(
                heals
                for places, heals in (
                    (known.boots, Action.REBOOT),
                    (known.resets, Action.RESET_GPU),
                )
                if bisect_right(places, first.line) < bisect_right(places, then.line)
            ),
            *(
                cure.heals
                for cure in known.others
                if cure.follows(first) and not cure.follows(then)
            ),
        ]

    def part(self, one: Sequence[Event], other: Sequence[Event]) -> bool:
        """Return whether a cure of either stands between two sequences of events, each in order."""
        if not self._all:
            return False
        ends = (one[0], one[-1], other[0], other[-1])
        lines = [event.line for event in ends]
        return any(self._of(side[0]).stand_between(lines, ends) for side in (one, other))


def find_cures(events: Iterable[Event], works: Sequence[Work] = (), booted_s: float = 0.0) -> Cures:
    """Return the cures in a log, and those that were declared."""
    marks = [_marked(event) for event in events if event.kind in MARKS]
    return Cures((*marks, *(_declared(work, booted_s) for work in works if work.work in WORK)))


def _marked(event: Event) -> Cure:
    if event.kind == "boot":
        cure = Cure(BOOT, Action.REBOOT)
    elif "nvswitch" in event.entry:  # a start of the switches ends their SXids only
        cure = Cure(RESET, Action.RESET_GPU, ("sxid",), event.address)
    else:
        cure = Cure(RESET, Action.RESET_GPU, OF_A_GPU, event.address)
    return cure._replace(line=event.line, at_s=event.at_s, wall_s=event.wall_s)


def _declared(work: Work, booted_s: float) -> Cure:
    heals = max(WORK[work.work], key=lambda action: action.rank)
    kinds = (*OF_A_GPU, "sxid", "fm") if heals is Action.RESET_GPU else ()
    return Cure(
        f"the declared {work.work}",
        heals,
        kinds,
        wall_s=work.at_s,
        booted_s=booted_s,
        declared=True,
    )
