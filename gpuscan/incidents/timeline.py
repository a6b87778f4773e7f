"""The events of a log in its order, found by code and part, so that no event has to be compared
with all others.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpuscan.incidents.groups import RECOVERY
from gpuscan.kernellog.event import Event

Part = tuple[bool, str]


def part_of(event: Event) -> Part:
    """Return what tells an event's part apart: its PCI address or, without any, its name."""
    return (True, event.address) if event.address else (False, event.part)


class Timeline:
    """All events of a log. *answers* keeps what has been worked out about them."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events = tuple(events)
        self.answers: dict[Any, Any] = {}
        self._places = {id(event): place for place, event in enumerate(self.events)}
        self._boots: list[int] = []
        self._resets: dict[str, list[int]] = {}
        self._coded: dict[str, list[int]] = {}
        self._on_part: dict[tuple[str, Part], list[int]] = {}
        self._recoveries: dict[str, list[Event]] = {}
        for place, event in enumerate(self.events):
            if event.kind == "boot":
                self._boots.append(place)
            elif event.kind == "reset":
                self._resets.setdefault(event.address, []).append(place)
            if event.entry == RECOVERY:
                self._recoveries.setdefault(event.address, []).append(event)
            self._coded.setdefault(event.entry, []).append(place)
            self._on_part.setdefault((event.entry, part_of(event)), []).append(place)

    def place(self, event: Event) -> int:
        """Return the event's index among all, their number if it is not one of them."""
        return self._places.get(id(event), len(self.events))

    def boot_of(self, event: Event) -> tuple[int, int]:
        """Return the places from which and before which all events are of the event's boot."""
        place = self.place(event)
        after = bisect_right(self._boots, place)
        before = after - 1 if self._boots[after - 1 : after] != [place] else after - 2
        start = self._boots[before] + 1 if before >= 0 else 0
        return start, self._boots[after] if after < len(self._boots) else len(self.events)

    def beside(
        self, event: Event, entries: Sequence[str], *, when: str, same_part: bool
    ) -> Iterator[Event]:
        """Yield the other events of some entries in the same boot, those of each entry in their
        order: those before, after, or both (any).
        """
        here = self.place(event)
        start, end = self.boot_of(event)
        if when == "before":
            end = here
        elif when == "after":
            start = here + 1
        for entry in entries:
            places = self._places_of(entry, event if same_part else None)
            for place in places[bisect_left(places, start) : bisect_left(places, end)]:
                if place != here:
                    yield self.events[place]

    def alike(self, event: Event) -> list[Event]:
        """Return all events of the event's code and part."""
        return [self.events[place] for place in self._places_of(event.entry, event)]

    def later_alike(self, event: Event) -> Iterator[Event]:
        """Yield the later events of the event's code and part, the last first."""
        here = self.place(event)
        for place in reversed(self._places_of(event.entry, event)):
            if place <= here:
                return
            yield self.events[place]

    def last_recovery(self, address: str, line: int) -> Event | None:
        """Return the last Xid 154 of a GPU after a line."""
        told = reversed(self._recoveries.get(address, ()))
        return next((event for event in told if event.line > line), None)

    def cures(self, address: str, *, resets: bool) -> list[int]:
        """Return the places of the boots and, if asked for, of the resets of a part."""
        found = list(self._boots)
        if resets:
            for name in {"", address}:
                found += self._resets.get(name, ())
        return sorted(found)

    def is_cured_after(self, event: Event, *, by_reset: bool) -> bool:
        """Return whether a boot or, if asked for, a reset of its part comes after an event."""
        here = self.place(event)
        marks = [self._boots]
        if by_reset:
            marks += [self._resets.get(name, []) for name in ("", event.address)]
        return any(places and places[-1] > here for places in marks)

    def _places_of(self, entry: str, event: Event | None) -> list[int]:
        if event is None:
            return self._coded.get(entry, [])
        return self._on_part.get((entry, part_of(event)), [])


def timeline(events: Sequence[Event] | Timeline) -> Timeline:
    """Return events as a timeline."""
    return events if isinstance(events, Timeline) else Timeline(events)
