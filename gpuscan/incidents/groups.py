"""Groups of events: all events of one code on one part, in one life of that part."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from gpuscan.incidents.lives import MARKS, Cures
from gpuscan.kernellog.event import Event

RECOVERY, CLEANUP, LOST = "xid:154", "xid:45", "xid:79"
WITHOUT_XID = "without_xid"  # marks in an event's values that no number was printed
AS_LOST = ("nvrm:fallen-off",)  # what the driver writes with, or instead of, Xid 79
APART_S = 60.0  # two occurrences of one burst are one
Key = tuple[str, int, str, str]  # entry, cause, address and part of a group


class EventGroup(NamedTuple):
    """Events of one code on one part in one life of that part, in the log's order."""

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

    @property
    def key(self) -> Key:
        """What all lives of one fault share: its code and its part."""
        return self.entry, self.first.cause, self.address, self.part


def normalise(event: Event) -> Event:
    """Return an event under the Xid that its text stands for."""
    if event.entry not in AS_LOST:
        return event
    values = {**event.values, WITHOUT_XID: True}
    return event._replace(kind="xid", code=79, entry=LOST, values=values)


def group_events(events: Iterable[Event], cures: Cures) -> list[EventGroup]:
    """Return the events that are no resets or boots, by code, part and life of the part.

    What the driver says about the consequences of another Xid is a group for each cause.
    """
    groups: dict[tuple[str, int, str, str, int], EventGroup] = {}
    for event in events:
        if event.kind not in MARKS:
            key = (event.entry, event.cause, event.address, event.part, cures.life(event))
            empty = EventGroup(event.entry, event.address, event.part, [])
            groups.setdefault(key, empty).events.append(event)
    return list(groups.values())


def count_occurrences(events: Sequence[Event]) -> int:
    """Return how often a fault occurred: lines within a minute, or without time, are one burst."""
    times = sorted(time for event in events if (time := time_of(event)) is not None)
    return 1 + sum(later - earlier > APART_S for earlier, later in pairwise(times))


def time_of(event: Event) -> float | None:
    """Return an event's time on either clock, None if it has none."""
    return event.at_s if event.at_s is not None else event.wall_s
