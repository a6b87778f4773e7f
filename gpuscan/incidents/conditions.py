"""Evaluate the conditions of catalogue entries against other events and the GPU's state."""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from gpuscan.catalogue import Entry
from gpuscan.incidents import nvlink
from gpuscan.incidents.lives import Cures
from gpuscan.incidents.timeline import Timeline, part_of, timeline
from gpuscan.kernellog.event import NOTHING, Event
from gpuscan.model.outcome import RECOVERY_ACTIONS, Action

ONE_S = 1.0  # lines this close are one fault: the driver prints several for each
APART_S = 60.0  # a link that goes up and down within a minute has failed once
WEEK_S = 7 * 86400.0
WORDS = re.compile(r"\(\s*(0x[0-9a-fA-F]+(?:[\s,]+0x[0-9a-fA-F]+)*)\s*\)")
UNIT = re.compile(r"[A-Z][A-Z0-9_]+")
LINK = re.compile(r"(?i)\blink\s+(-?\d{1,3})\b")


class Context(NamedTuple):
    """What an event is judged against.

    *events* are all events of the log in its order; *branch* is the driver's (0 if unknown).
    *state* is the GPU's: remap_failed, remap_pending, sram_threshold, lost, needs_reset (bool) and
    recovery_action (int), as far as they were read. What is missing or None meets no condition.
    *cures* are those of the log, *above* the ports above each GPU (both PCI addresses), where that
    was read. *dead* has the id() of each event that is history: none of them explains another away
    (None: no event explains another). With *explained* only the events count that can explain that
    one away.
    """

    events: Sequence[Event] | Timeline = ()
    branch: int = 0
    architecture: str = ""
    state: Mapping[str, Any] = NOTHING
    cures: Cures = Cures(())
    above: Mapping[str, Sequence[str]] = NOTHING
    dead: Set[int] | None = frozenset()
    explained: Event | None = None

    def counts(self, other: Event) -> bool:
        """Return whether an event beside another counts: in explaining one away, only what is of
        the same life of the part, and not history.
        """
        if self.explained is None or other is self.explained:
            return True
        return id(other) not in (self.dead or ()) and not self.cures.part([self.explained], [other])


class Choice(NamedTuple):
    """The action for an event, its reason and its urgency (now or next-idle).

    *because* is "" if the action is the entry's default.
    """

    action: Action
    because: str
    urgency: str


def holds(condition: Mapping[str, Any], event: Event, context: Context) -> bool:
    """Return whether all predicates of a condition hold.

    Raises KeyError for a predicate that does not exist.
    """
    return all(PREDICATES[name](wanted, event, context) for name, wanted in condition.items())


def choose_action(entry: Entry, event: Event, context: Context) -> Choice:
    """Return the action for an event.

    That of the entry's first condition that holds, else that of the decoder of the event's text,
    else the entry's default. An event beside it makes it ask for less only while that event is as
    alive: of the same life of the part, and not history.
    """
    return _choose(entry, event, context, 0)


def _choose(entry: Entry, event: Event, context: Context, start: int) -> Choice:
    for index, condition in enumerate(entry.conditions[start:], start):
        if not holds(condition.when, event, context):
            continue
        urgency = condition.urgency or entry.urgency
        choice = Choice(condition.action, condition.because, urgency)
        if "companion" not in condition.when:
            return choice
        without = _choose(entry, event, context, index + 1)
        if without.action.rank <= choice.action.rank or holds(
            condition.when, event, _explaining(event, context)
        ):
            return choice
        return without
    decoded = DECODERS[entry.decode](event, context) if entry.decode else None
    action, because = decoded or (entry.action, "")
    return Choice(action, because, entry.urgency)


def _explaining(event: Event, context: Context) -> Context:
    """Return the context with only the events that can explain *event* away."""
    if context.dead is None:
        return context._replace(events=(event,))
    return context._replace(explained=event)


def _text_contains(wanted: str | list[str], event: Event, _: Context) -> bool:
    return any(part in event.text for part in ([wanted] if isinstance(wanted, str) else wanted))


def _severity(wanted: list[str], event: Event, _: Context) -> bool:
    return _plain(event.severity) in map(_plain, wanted)


def _plain(severity: str) -> str:
    return severity.lower().replace("-", "")  # SXid says Non-fatal, NVLink 5 says Nonfatal


def _companion(wanted: Mapping[str, Any], event: Event, context: Context) -> bool:
    same = wanted.get("same_part", False)
    others = timeline(context.events).beside(
        event, wanted["entries"], when=wanted["when"], same_part=same is True
    )
    return any(
        _apart(event, other) <= wanted["within_s"]
        and _is_placed(same, event, other, context)
        and context.counts(other)
        and ("to" not in wanted or _asks_for(wanted["to"], other, context))
        for other in others
    )


def _is_placed(wanted: bool | str, event: Event, other: Event, context: Context) -> bool:
    """Return whether the parts of two events are as wanted: the same, on one path, or any."""
    if wanted == "path":
        return are_on_path(event.address, other.address, context.above)
    return not wanted or same_part(event, other)


def are_on_path(one: str, other: str, above: Mapping[str, Sequence[str]]) -> bool:
    """Return whether of two PCI addresses one is, or may be, a port above the other.

    *above* has the ports above each GPU. Where neither address is that of such a GPU, or one is
    unknown, it may be.
    """
    if not one or not other or _slot(one) == _slot(other):
        return True
    known = [(above[gpu], port) for gpu, port in ((one, other), (other, one)) if gpu in above]
    return not known or any(port in ports for ports, port in known)


def _slot(address: str) -> str:
    return address.partition(".")[0]


def _asks_for(wanted: Sequence[int], recovery: Event, context: Context) -> bool:
    """Return whether an Xid 154 asks for one of these actions and has not been taken back."""
    if recovery.values.get("to") not in wanted:
        return False
    later = timeline(context.events).later_alike(recovery)
    return not any(other.values.get("to") == 0 and context.counts(other) for other in later)


def _apart(event: Event, other: Event) -> float:
    """Return the seconds between two events of one boot; 0 without timestamps (pasted lines)."""
    if event.at_s is not None and other.at_s is not None:
        return abs(event.at_s - other.at_s)
    if event.wall_s is not None and other.wall_s is not None:
        return abs(event.wall_s - other.wall_s)
    return 0.0


def same_part(event: Event, other: Event) -> bool:
    """Return whether two events are about one part, by PCI address or, without any, by name."""
    return part_of(event) == part_of(other)


def _state(wanted: Mapping[str, Any], _: Event, context: Context) -> bool:
    for name, value in wanted.items():
        known = context.state.get(name)
        if known is None or (known not in value if isinstance(value, list) else known != value):
            return False
    return True


def _recurred(wanted: Mapping[str, Any], event: Event, context: Context) -> bool:
    times = _occurrences(event, context, ONE_S, across=wanted.get("across", ""))
    return _within(times, wanted["times"], wanted["within_s"])


def _within(times: Sequence[float], count: int, within_s: float) -> bool:
    return any(
        last - first <= within_s for first, last in zip(times, times[count - 1 :], strict=False)
    )


def _occurrences(
    event: Event,
    context: Context,
    apart_s: float,
    what: Callable[[Event], object] | None = None,
    across: str = "",
) -> tuple[float, ...]:
    """Return the times of the same fault on the same part: of which *what*, if given, is the same.

    Lines less than *apart_s* seconds apart are one occurrence. With *across* (reset or boot) an
    occurrence counts only if there was such an event since the one before. Lines without a time do
    not count: nothing proves that they are another occurrence.
    """
    log, wall = timeline(context.events), event.wall_s is not None
    boot = (0, len(log.events)) if wall else log.boot_of(event)
    wanted = what(event) if what else None
    question = (event.entry, part_of(event), wall, boot, apart_s, wanted, across)
    if context.explained is not None:
        return _times(event, log, boot, question, what, context)
    if question not in log.answers:
        log.answers[question] = _times(event, log, boot, question, what, context)
    return tuple(log.answers[question])


def _times(
    event: Event,
    log: Timeline,
    boot: tuple[int, int],
    question: tuple[Any, ...],
    what: Callable[[Event], object] | None,
    context: Context,
) -> tuple[float, ...]:
    """Answer the question of `_occurrences`."""
    *_, wall, _, apart_s, wanted, across = question
    cures = log.cures(event.address, resets=across == "reset") if across else []
    times: list[float] = []
    last, ended, passed = 0.0, True, 0
    for other in log.alike(event):
        here = log.place(other)
        if not boot[0] <= here < boot[1] or not context.counts(other):
            continue
        now = bisect_left(cures, here)
        ended, passed = ended or now > passed, now
        at = other.wall_s if wall else other.at_s
        if at is None or (what and what(other) != wanted):
            continue
        if not times or (ended if across else at - last > apart_s):
            times.append(at)
        last, ended = at, False
    return tuple(times)


def _followed_by(wanted: str, event: Event, context: Context) -> bool:
    return timeline(context.events).is_cured_after(event, by_reset=wanted == "reset")


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
    """Return the registers at the end of an NVLink line."""
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
    error = nvlink.decode_nvlink5(event.code, registers(event), context.branch, unit)
    if error is None:
        if _plain(event.severity) == "nonfatal":
            return Action.MONITOR, "the line calls it non-fatal"
        return None
    if error.immediate == "XID_154_EVAL":
        return _recovery(event, context), error.reason
    reset = error.action is Action.RESET_GPU
    times = _occurrences(event, context, APART_S, _link)
    if error.investigate in nvlink.SIGNAL and _within(times, 2 if reset else 3, WEEK_S):
        return Action.INSPECT, f"again on the same link: {error.reason}"
    return error.action, error.reason


def _recovery(event: Event, context: Context) -> Action:
    """Return the action of the GPU's last Xid 154 within APART_S, restart-app without one."""
    wanted = [
        RECOVERY_ACTIONS.get(other.values.get("to", 0), Action.INVESTIGATE)
        for other in timeline(context.events).beside(
            event, ("xid:154",), when="after", same_part=True
        )
        if _apart(other, event) <= APART_S and context.counts(other)
    ]
    return max([Action.RESTART_APP, *wanted[-1:]], key=lambda action: action.rank)


def _nvlink4(event: Event, context: Context) -> tuple[Action, str] | None:
    words = registers(event)
    if not words:
        return None
    kind = nvlink.classify_xid74(words)
    action, because = nvlink.MEANINGS[kind]
    times = _occurrences(event, context, APART_S, _link_and_kind)
    if kind == "ecc" and len(times) > 2:
        reason = "ECC or parity errors in the link's hardware, more than twice on one link"
        return Action.REPLACE, reason
    if kind in ("mechanical", "signal") and len(times) > 1:
        return Action.INSPECT, f"again on the same link: {because}"
    return action, because


def _link_and_kind(event: Event) -> tuple[int | None, str]:
    return _link(event), nvlink.classify_xid74(registers(event))


DECODERS: dict[str, Callable[[Event, Context], tuple[Action, str] | None]] = {
    "nvlink5": _nvlink5,
    "nvlink": _nvlink4,
}
