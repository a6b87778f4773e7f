"""From events to incidents: one fault is one incident, with its echoes and the action it asks for.

The action follows from the code, the text, the events around it and the GPU's state.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan import catalogue
from gpuscan.incidents import ageing, wording
from gpuscan.incidents.conditions import Choice, Context, choose_action
from gpuscan.incidents.echoes import find_roots
from gpuscan.incidents.groups import (
    CLEANUP,
    OF_THE_DRIVER,
    RECOVERY,
    EventGroup,
    count_occurrences,
    find_cure,
    group_events,
    normalise,
)
from gpuscan.incidents.patterns import find_pattern
from gpuscan.kernellog.event import Event
from gpuscan.model import Echo, Gpu, Incident, Unread, is_unread
from gpuscan.model.outcome import Action

MOST_TEXTS = 50  # of one incident that are read for conditions; a storm repeats itself
ARCHITECTURES = {
    "volta": ("V100",),
    "turing": ("T4", "RTX 20"),
    "ampere": ("A100", "A800", "A10", "A30", "A40", "A2", "A16", "RTX A", "RTX 30"),
    "ada": ("L40", "L4", "L20", "RTX 40", "Ada"),
    "hopper": ("H100", "H200", "H800", "H20", "GH200"),
    "blackwell": ("B100", "B200", "B300", "GB10", "GB200", "GB300", "RTX 50", "Blackwell"),
}


class Situation(NamedTuple):
    """What is known beside the log.

    *gpus* are the node's GPUs, or `Unread`; *branch* is the driver's and *booted_s* the Unix time
    of the boot, both 0 if unknown. *present* is what else is known of the node now.
    """

    gpus: Any
    branch: int = 0
    booted_s: float = 0.0
    present: ageing.Present = ageing.Present()


class Assessment(NamedTuple):
    """What a group of events asks for by itself, and what has ended its fault since."""

    choice: Choice
    ended: str


def find_incidents(events: Iterable[Event], situation: Situation) -> tuple[Incident, ...]:
    """Return the incidents in the order of their first line, each with its echoes."""
    listed = [normalise(event) for event in events]
    groups = group_events(listed)
    gpus = {} if is_unread(situation.gpus) else {gpu.address: gpu for gpu in situation.gpus}
    assessed = {
        id(group): _assess(group, listed, gpus.get(group.address), situation) for group in groups
    }
    ranks = {key: assessment.choice.action.rank for key, assessment in assessed.items()}
    roots = find_roots(groups, ranks)
    return tuple(
        _incident(group, roots[id(group)], assessed, gpus, situation)
        for group in groups
        if id(group) in roots
    )


def _assess(
    group: EventGroup, events: Sequence[Event], gpu: Gpu | None, situation: Situation
) -> Assessment:
    branch = situation.branch or _branch(events)
    context = Context(events, branch, _architecture(gpu), _state(gpu))
    best = max(_choices(group, context), key=lambda choice: choice.action.rank)
    if group.entry == RECOVERY and best.action is Action.INVESTIGATE:
        best = best._replace(because="this gpuscan does not know this recovery action")
    if best.action.rank <= Action.RESTART_APP.rank and (pattern := find_pattern(group.events)):
        best = Choice(Action.INVESTIGATE, pattern, "now")
    ended = find_cure(group, events)
    return Assessment(best, ended or ageing.find_end(group.events, best.action, situation.present))


def _choices(group: EventGroup, context: Context) -> list[Choice]:
    """Return what each different line of a group asks for.

    Of recovery actions only the last counts: `to 0` clears those before.
    """
    by_text = {event.text: event for event in group.events}
    events = [group.last] if group.entry == RECOVERY else list(by_text.values())[:MOST_TEXTS]
    choices = [choose_action(catalogue.entry(event.entry), event, context) for event in events]
    if group.last.cause and group.entry == CLEANUP:
        cause = catalogue.entry(f"xid:{group.last.cause}")
        because = f"the driver names Xid {group.last.cause} as its cause"
        choices.append(Choice(cause.action, because, cause.urgency))
    return choices


def _state(gpu: Gpu | None) -> Mapping[str, Any]:
    """Return the GPU's state for conditions; what was not read is left out and meets none."""
    if gpu is None:
        return {}
    rows, sram, recovery, access = gpu.remapped_rows, gpu.sram, gpu.recovery_action, gpu.access
    state = {
        "remap_failed": None if is_unread(rows) else rows.failed,
        "remap_pending": None if is_unread(rows) else rows.pending,
        "sram_threshold": None if is_unread(sram) else sram.threshold_exceeded,
        "lost": None if is_unread(access) else access == "lost",
        "needs_reset": None if is_unread(access) else access == "reset-required",
        "recovery_action": recovery,
    }
    return {
        name: value for name, value in state.items() if not is_unread(value) and value is not None
    }


def _branch(events: Sequence[Event]) -> int:
    """Return the driver's branch that the log names (`NVRM: loading NVIDIA UNIX … 580.95.05`)."""
    versions = [str(event.values["driver"]) for event in events if event.values.get("driver")]
    branch = versions[-1].split(".")[0] if versions else ""
    return int(branch) if branch.isdigit() else 0


def _architecture(gpu: Gpu | None) -> str:
    name = "" if gpu is None or is_unread(gpu.name) else gpu.name
    products = [
        (product, architecture)
        for architecture, known in ARCHITECTURES.items()
        for product in known
        if product in name
    ]
    return max(products, key=lambda pair: len(pair[0]), default=("", ""))[1]


def _incident(
    group: EventGroup,
    echoes: Sequence[EventGroup],
    assessed: Mapping[int, Assessment],
    gpus: Mapping[str, Gpu],
    situation: Situation,
) -> Incident:
    gpu, known = gpus.get(group.address), catalogue.entry(group.entry)
    own, choice = assessed[id(group)], _choose(group, echoes, assessed)
    first, last = group.first, group.last
    return Incident(
        label=wording.label(group, gpus),
        address=group.address,
        part=group.part,
        kind=_kind(first.kind),
        code=first.code,
        entry=group.entry,
        name=known.name,
        action=choice.action.value,
        because=choice.because,
        impact=known.impact,
        urgency=choice.urgency,
        state=known.state,
        ended=own.ended,
        clean=_clean(_state(gpu)),
        listed=bool(known.sources),
        events=len(group.events),
        times=count_occurrences(group.events),
        when=wording.when(group),
        first_s=_seconds_since_boot(first, situation.booted_s),
        last_s=_seconds_since_boot(last, situation.booted_s),
        text=first.text,
        processes=wording.programs(group.events),
        echoes=tuple(_echo(echo, gpus) for echo in echoes),
        values=dict(last.values),
        recovery_action=gpu.recovery_action if gpu else _no_gpu(situation),
    )


def _choose(
    group: EventGroup, echoes: Sequence[EventGroup], assessed: Mapping[int, Assessment]
) -> Choice:
    """Return the group's own choice, or the driver's recovery action if that is more serious."""
    recovery = [assessed[id(echo)].choice for echo in echoes if echo.entry == RECOVERY]
    known = [choice for choice in recovery if choice.action is not Action.INVESTIGATE]
    return max([assessed[id(group)].choice, *known], key=lambda choice: choice.action.rank)


def _no_gpu(situation: Situation) -> Any:
    kind = "not-recorded" if is_unread(situation.gpus) else "not-found"
    return Unread("", kind, "no such GPU is here to ask")


def _kind(kind: str) -> str:
    """Return which check an incident belongs to: xid, sxid, nvrm (the driver) or host."""
    if kind in wording.NAMES:
        return kind
    return "nvrm" if kind in OF_THE_DRIVER else "host"


def _clean(state: Mapping[str, Any]) -> str:
    """Return whether a GPU shows no fault now: yes, no or unknown.

    Its recovery action says so if it can be read; a pending row remap is no fault of its own.
    """
    flags = {name for name, value in state.items() if value}
    if flags:
        return "yes" if flags == {"remap_pending"} else "no"
    return "yes" if state.get("recovery_action") == 0 else "unknown"


def _seconds_since_boot(event: Event, booted_s: float) -> Any:
    """Return seconds since boot, `Unread` if the line has no time that says so."""
    if event.at_s is not None:
        return event.at_s
    if event.wall_s is not None and booted_s:
        return event.wall_s - booted_s
    return Unread("", "not-found", "its line has no time since boot")


def _echo(group: EventGroup, gpus: Mapping[str, Gpu]) -> Echo:
    return Echo(
        label=wording.label(group, gpus),
        kind=group.first.kind,
        code=group.first.code,
        entry=group.entry,
        address=group.address,
        part=group.part,
        events=len(group.events),
    )
