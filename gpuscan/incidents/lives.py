"""Lives of a part: what a reset, a boot or declared work has ended, and what it leaves standing."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuscan.kernellog.event import Event
from gpuscan.model.outcome import WORK, Action

OF_THE_DRIVER = ("nvrm", "driver")
OF_A_GPU = ("xid", *OF_THE_DRIVER)
MARKS = ("reset", "boot")  # events that are cures, not faults
START_S = 30.0  # the start of a driver on a full board


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
        if self.what == "a boot" or self.address:
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


def find_cures(
    events: Iterable[Event], works: Sequence[Work] = (), booted_s: float = 0.0
) -> tuple[Cure, ...]:
    """Return the cures in a log in its order, then those that were declared."""
    marks = [_marked(event) for event in events if event.kind in MARKS]
    return (*marks, *(_declared(work, booted_s) for work in works if work.work in WORK))


def _marked(event: Event) -> Cure:
    if event.kind == "boot":
        cure = Cure("a boot", Action.REBOOT)
    elif "nvswitch" in event.entry:  # a start of the switches ends their SXids only
        cure = Cure("a reset", Action.RESET_GPU, ("sxid",), event.address)
    else:
        cure = Cure("a reset", Action.RESET_GPU, OF_A_GPU, event.address)
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


def cures_between(first: Event, then: Event, cures: Sequence[Cure]) -> list[Cure]:
    """Return the cures of a part between two events of it."""
    return [
        cure
        for cure in cures
        if cure.touches(first) and cure.follows(first) and not cure.follows(then)
    ]


def life(event: Event, cures: Sequence[Cure]) -> int:
    """Return which life of its part an event belongs to: how many cures came after it."""
    return sum(cure.touches(event) and cure.follows(event) for cure in cures)


def are_apart(one: Sequence[Event], other: Sequence[Event], cures: Sequence[Cure]) -> bool:
    """Return whether a cure of either stands between two sequences of events, each in order."""
    ends = (one[0], one[-1], other[0], other[-1])
    return any(
        (cure.touches(one[0]) or cure.touches(other[0]))
        and len({cure.follows(event) for event in ends}) > 1
        for cure in cures
    )
