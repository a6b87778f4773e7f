"""Groups of events: all events of one code on one part."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from gpuscan.kernellog.event import Event

RECOVERY, CLEANUP, LOST = "xid:154", "xid:45", "xid:79"
AS_LOST = ("nvrm:fallen-off",)  # what the driver writes with, or instead of, Xid 79
OF_THE_DRIVER = ("nvrm", "driver")
# what ends the life of earlier events, and of which kinds (None: of all)
CURES = {"reset": ("xid", "sxid", "nvrm"), "boot": None}
START_S = 30.0  # the start of a driver on a full board
APART_S = 60.0  # two occurrences of one burst are one


class EventGroup(NamedTuple):
    """All events of one code on one part, in the log's order."""

    entry: str
    address: str
    part: str
    events: list[Event]

    @property
    def first(self) -> Event:
        """The first event."""
        return self.events[0]

    @property
    def last(self) -> Event:
        """The last event."""
        return self.events[-1]


def normalise(event: Event) -> Event:
    """Return an event under the Xid that its text stands for."""
    return event._replace(kind="xid", code=79, entry=LOST) if event.entry in AS_LOST else event


def group_events(events: Iterable[Event]) -> list[EventGroup]:
    """Return the events that are no resets or boots, by code and part.

    What the driver says about the consequences of another Xid is a group for each cause.
    """
    groups: dict[tuple[str, int, str, str], EventGroup] = {}
    for event in events:
        if event.kind not in CURES:
            key = (event.entry, event.cause, event.address, event.part)
            empty = EventGroup(event.entry, event.address, event.part, [])
            groups.setdefault(key, empty).events.append(event)
    return list(groups.values())


def find_cure(group: EventGroup, events: Sequence[Event]) -> str:
    """Return what has ended a fault since its last line: `a reset`, `a boot` or ""."""
    for event in events:
        if event.kind in CURES and event.line > group.last.line and _is_cure(event, group):
            return "a boot" if event.kind == "boot" else "a reset"
    return ""


def _is_cure(event: Event, group: EventGroup) -> bool:
    if event.address and event.address != group.address:
        return False
    kinds = CURES[event.kind]
    return kinds is None or (group.last.kind in kinds and _is_cured_by_reset(event, group.last))


def _is_cured_by_reset(reset: Event, event: Event) -> bool:
    """Return whether a reset ends an event's fault.

    A start of the switches ends their SXids only, one of the driver the GPUs' faults only. The
    driver names itself after it has probed all GPUs: what it found just before belongs to this
    very start.
    """
    if ("nvswitch" in reset.entry) != (event.kind == "sxid"):
        return False
    clocks = ((event.at_s, reset.at_s), (event.wall_s, reset.wall_s))
    apart = [
        later - earlier for earlier, later in clocks if earlier is not None and later is not None
    ]
    return bool(reset.address) or any(seconds > START_S for seconds in apart)


def count_occurrences(events: Sequence[Event]) -> int:
    """Return how often a fault occurred: lines within a minute, or without time, are one burst."""
    times = sorted(time for event in events if (time := _time(event)) is not None)
    return 1 + sum(later - earlier > APART_S for earlier, later in pairwise(times))


def _time(event: Event) -> float | None:
    return event.at_s if event.at_s is not None else event.wall_s
