"""Conditions: what an entry of the catalogue asks for in the company of other events and the
GPU's state. Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.catalogue import Entry
from gpuscan.incidents import nvlink
from gpuscan.kernellog.events import NOTHING, Event
from gpuscan.model.outcome import RECOVERY_ACTIONS, Action

ONE_S = 1.0  # lines that are no further apart are of one fault: the driver prints several for each
APART_S = 60.0  # a link that goes up and down within a minute has failed once
WEEK_S = 7 * 86400.0
WORDS = re.compile(r"\(\s*(0x[0-9a-fA-F]+(?:[\s,]+0x[0-9a-fA-F]+)*)\s*\)")
UNIT = re.compile(r"[A-Z][A-Z0-9_]+")
LINK = re.compile(r"(?i)\blink\s+(-?\d{1,3})\b")


class Context(NamedTuple):
    """What an event is judged in: all *events* of the log in its order, the driver's *branch* (0 if
    not known), the GPU.

    *state* holds remap_failed, remap_pending, sram_threshold, lost, needs_reset (bool) and
    recovery_action (int), as far as they were read; what is missing or None satisfies no condition.
    """

    events: Sequence[Event] = ()
    branch: int = 0
    architecture: str = ""
    state: Mapping[str, Any] = NOTHING


class Choice(NamedTuple):
    """What an event asks for, why ("" where it is the entry's own first action), and how soon (now
    or next-idle).
    """

    action: Action
    because: str
    urgency: str


def holds(condition: Mapping[str, Any], event: Event, context: Context) -> bool:
    """Tell whether all predicates of a condition hold; raises KeyError for a predicate that does
    not exist.
    """
    return all(PREDICATES[name](wanted, event, context) for name, wanted in condition.items())


def action_of(entry: Entry, event: Event, context: Context) -> tuple[Action, str]:
    """Return what an event asks for, and why."""
    chosen = choice(entry, event, context)
    return chosen.action, chosen.because


def choice(entry: Entry, event: Event, context: Context) -> Choice:
    """Return the first condition's word that holds, else what the event's own words say, else the
    entry's first action.
    """
    for one in entry.conditions:
        if holds(one.when, event, context):
            return Choice(one.action, one.because, one.urgency or entry.urgency)
    decoded = DECODERS[entry.decode](event, context) if entry.decode else None
    action, because = decoded or (entry.action, "")
    return Choice(action, because, entry.urgency)


def _text_contains(wanted: str | list[str], event: Event, _: Context) -> bool:
    return any(part in event.text for part in ([wanted] if isinstance(wanted, str) else wanted))


def _severity(wanted: list[str], event: Event, _: Context) -> bool:
    return _plain(event.severity) in map(_plain, wanted)


def _plain(severity: str) -> str:
    return severity.lower().replace("-", "")  # SXid says Non-fatal, NVLink 5 says Nonfatal


def _companion(wanted: Mapping[str, Any], event: Event, context: Context) -> bool:
    return any(
        other.entry in wanted["entries"]
        and _apart(event, other) <= wanted["within_s"]
        and (not wanted.get("same_part") or same_part(event, other))
        and ("to" not in wanted or other.values.get("to") in wanted["to"])
        for other in _around(event, context, wanted["when"])
    )


def _around(event: Event, context: Context, when: str) -> Iterator[Event]:
    """Yield the other events of the same boot that come before, after, or both: nothing is an echo
    across a boot.
    """
    here = _place(event, context)
    if when != "after":
        yield from _until_boot(reversed(context.events[:here]))
    if when != "before":
        yield from _until_boot(iter(context.events[here + 1 :]))


def _until_boot(events: Iterator[Event]) -> Iterator[Event]:
    for one in events:
        if one.kind == "boot":
            return
        yield one


def _place(event: Event, context: Context) -> int:
    return next((at for at, one in enumerate(context.events) if one is event), len(context.events))


def _apart(one: Event, other: Event) -> float:
    """Return how many seconds lie between two events of one boot; 0 where no stamp tells, as in
    pasted lines.
    """
    if one.at_s is not None and other.at_s is not None:
        return abs(one.at_s - other.at_s)
    if one.wall_s is not None and other.wall_s is not None:
        return abs(one.wall_s - other.wall_s)
    return 0.0


def same_part(one: Event, other: Event) -> bool:
    """Tell whether two events are of one part: by PCI address, and only where neither has one by
    its other name.
    """
    return one.address == other.address if one.address or other.address else one.part == other.part


def _state(wanted: Mapping[str, Any], _: Event, context: Context) -> bool:
    for name, value in wanted.items():
        known = context.state.get(name)
        if known is None or (known not in value if isinstance(value, list) else known != value):
            return False
    return True


def _recurred(wanted: Mapping[str, Any], event: Event, context: Context) -> bool:
    times = _occurrences(event, context, lambda _: True, ONE_S, wanted.get("across", ""))
    return _within(times, wanted["times"], wanted["within_s"])


def _within(times: Sequence[float], count: int, within_s: float) -> bool:
    return any(
        last - first <= within_s for first, last in zip(times, times[count - 1 :], strict=False)
    )


def _occurrences(
    event: Event, context: Context, alike: Callable[[Event], bool], apart_s: float, across: str = ""
) -> tuple[float, ...]:
    """Return when the same fault came on the same part; lines that are less than *apart_s* apart
    are one occurrence.

    With *across* (reset or boot) an occurrence counts only if such a one lies between it and the
    one before. What bears no time is not counted: nothing proves that it is another occurrence.
    """
    wall = event.wall_s is not None
    events = context.events if wall else _one_boot(event, context)
    times: list[float] = []
    last, fresh = 0.0, True
    for one in events:
        fresh = fresh or _ends_life(one, event, across)
        at = one.wall_s if wall else one.at_s
        if one.entry != event.entry or not same_part(one, event) or at is None or not alike(one):
            continue
        if not times or (fresh if across else at - last > apart_s):
            times.append(at)
        last, fresh = at, False
    return tuple(times)


def _one_boot(event: Event, context: Context) -> list[Event]:
    before = list(_around(event, context, "before"))
    return [*reversed(before), event, *_around(event, context, "after")]


def _ends_life(one: Event, event: Event, how: str) -> bool:
    """Tell whether an event is a boot or, where a reset is enough, a reset of the same part or of
    all.
    """
    return one.kind == "boot" or (
        how == "reset" and one.kind == "reset" and one.address in ("", event.address)
    )


def _followed_by(wanted: str, event: Event, context: Context) -> bool:
    return any(
        _ends_life(one, event, wanted) for one in context.events[_place(event, context) + 1 :]
    )


PREDICATES: dict[str, Callable[[Any, Event, Context], bool]] = {
    "text_contains": _text_contains,
    "text_matches": lambda wanted, event, _: re.search(wanted, event.text) is not None,
    "rst": lambda wanted, event, _: event.values.get("rst") is wanted,
    "d_rst": lambda wanted, event, _: event.values.get("d_rst") is wanted,
    "to": lambda wanted, event, _: event.values.get("to") in wanted,
    "severity": _severity,
    "branch_at_least": lambda wanted, _, context: context.branch >= wanted,
    "branch_below": lambda wanted, _, context: 0 < context.branch < wanted,
    "architecture": lambda wanted, _, context: context.architecture in wanted,
    "companion": _companion,
    "state": _state,
    "recurred": _recurred,
    "followed_by": _followed_by,
    "value": lambda wanted, event, _: all(
        event.values.get(name) in values for name, values in wanted.items()
    ),
}


def registers(event: Event) -> list[int]:
    """Return the hex words that an NVLink line ends with."""
    hit = WORDS.search(event.text)
    texts = event.values.get("registers") or (re.split(r"[\s,]+", hit[1]) if hit else [])
    return [int(str(text), 16) for text in texts]


def _link(event: Event) -> int | None:
    hit = LINK.search(event.text)
    link: int | None = event.values.get("link", int(hit[1]) if hit else None)
    return link


def _nvlink5(event: Event, context: Context) -> tuple[Action, str] | None:
    hit = UNIT.match(event.text)
    unit = event.values.get("unit") or (hit[0] if hit else "")
    row = nvlink.decode5(event.code, registers(event), context.branch, unit)
    if row is None:
        return (
            (Action.MONITOR, "the line calls it not fatal")
            if _plain(event.severity) == "nonfatal"
            else None
        )
    if row.immediate == "XID_154_EVAL":
        return _recovery(event, context), row.reason
    reset = row.action is Action.RESET_GPU
    times = _occurrences(event, context, lambda one: _link(one) == _link(event), APART_S)
    if row.investigate in nvlink.SIGNAL and _within(times, 2 if reset else 3, WEEK_S):
        return Action.INSPECT, f"again on the same link: {row.reason}"
    return row.action, row.reason


def _recovery(event: Event, context: Context) -> Action:
    """Return what the driver's next Xid 154 for the GPU wants, for that decides here; else the
    program starts again.
    """
    wanted = [
        RECOVERY_ACTIONS.get(one.values.get("to", 0), Action.INVESTIGATE)
        for one in _around(event, context, "after")
        if one.entry == "xid:154" and same_part(one, event) and _apart(one, event) <= APART_S
    ]
    return max([Action.RESTART_APP, *wanted[-1:]], key=lambda action: action.rank)


def _nvlink4(event: Event, context: Context) -> tuple[Action, str] | None:
    words = registers(event)
    if not words:
        return None
    kind = nvlink.kind74(words)
    action, because = nvlink.MEANINGS[kind]

    def alike(one: Event) -> bool:
        return _link(one) == _link(event) and nvlink.kind74(registers(one)) == kind

    times = _occurrences(event, context, alike, APART_S)
    if kind == "ecc" and len(times) > 2:
        return (
            Action.REPLACE,
            "ECC or parity errors in the link's hardware, more than twice on one link",
        )
    if kind in ("mechanical", "signal") and len(times) > 1:
        return Action.INSPECT, f"again on the same link: {because}"
    return action, because


DECODERS: dict[str, Callable[[Event, Context], tuple[Action, str] | None]] = {
    "nvlink5": _nvlink5,
    "nvlink": _nvlink4,
}
