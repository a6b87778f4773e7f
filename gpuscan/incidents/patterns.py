"""When programs' faults are the GPU's: different programs that fail at one place of it."""

from collections.abc import Callable, Sequence
from typing import Any

from gpuscan.kernellog.event import Event

APART_S = 60.0
PLACES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("gpc", "tpc"), "one GPC and TPC"),
    (("fault_address",), "one address"),
)


def pattern(events: Sequence[Event]) -> str:
    """Return why these faults point at the GPU, or nothing.

    Programs' names tell programs apart, not their process ids: one faulty program fails at one
    place however often it is started (NVIDIA's workflow for Xid 13 asks for the same place from
    different work).
    """
    for names, told in PLACES:
        placed = [(event, place) for event in events if (place := _place(event, names)) is not None]
        programs = {event.process for event, _ in placed if event.process}
        places = {place for _, place in placed}
        if len(programs) > 1 and len(places) == 1 and _apart(placed, lambda pair: pair[0]):
            return f"different programs ({', '.join(sorted(programs))}) failed at {told} of the GPU"
    return ""


def _place(event: Event, names: Sequence[str]) -> tuple[Any, ...] | None:
    found = tuple(event.values.get(name) for name in names)
    return None if None in found else found


def _apart(placed: Sequence[Any], of: Callable[[Any], Event]) -> bool:
    """Tell whether it happened at more than one time; lines of one burst may name whoever was
    around.
    """
    stamps = [
        stamp
        for one in placed
        if (stamp := of(one).at_s if of(one).at_s is not None else of(one).wall_s) is not None
    ]
    return not stamps or max(stamps) - min(stamps) > APART_S
