"""Patterns that blame the GPU for programs' faults: different programs that fail at one place."""

from collections.abc import Sequence
from typing import Any

from gpuscan.kernellog.event import Event

APART_S = 60.0
PLACES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("gpc", "tpc"), "one GPC and TPC"),
    (("fault_address",), "one address"),
)


def find_pattern(events: Sequence[Event]) -> str:
    """Return why these faults point at the GPU, "" if they do not.

    Programs are told apart by name, not by process id: one faulty program fails at one place
    however often it is started (for Xid 13, NVIDIA's workflow asks for the same place from
    different work).
    """
    for names, place in PLACES:
        placed = [event for event in events if _place(event, names) is not None]
        programs = {event.process for event in placed if event.process}
        places = {_place(event, names) for event in placed}
        if len(programs) > 1 and len(places) == 1 and _are_apart(placed):
            listed = ", ".join(sorted(programs))
            return f"different programs ({listed}) failed at {place} of the GPU"
    return ""


def _place(event: Event, names: Sequence[str]) -> tuple[Any, ...] | None:
    place = tuple(event.values.get(name) for name in names)
    return None if None in place else place


def _are_apart(events: Sequence[Event]) -> bool:
    """Return whether it happened more than once: lines of one burst may name any program."""
    times = [
        time
        for event in events
        if (time := event.at_s if event.at_s is not None else event.wall_s) is not None
    ]
    return not times or max(times) - min(times) > APART_S
