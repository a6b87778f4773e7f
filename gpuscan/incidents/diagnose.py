"""From events to incidents: one fault is one incident, with its echoes and the action it asks for.

The action follows from the code, the text, the events around it and the GPU's state.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan import catalogue
from gpuscan.incidents import ageing, wording
from gpuscan.incidents.echoes import Scene, find_roots, order
from gpuscan.incidents.groups import (
    RECOVERY,
    WITHOUT_XID,
    EventGroup,
    Key,
    count_occurrences,
    group_events,
    normalise,
)
from gpuscan.incidents.lives import OF_THE_DRIVER, Work, find_cures
from gpuscan.incidents.standing import Known, Standing, assess, is_clean, state_of
from gpuscan.incidents.timeline import Timeline
from gpuscan.kernellog.event import NOTHING, Event
from gpuscan.model import Echo, Gpu, Incident, Unread, is_unread
from gpuscan.model.outcome import ACTIONS, Action

# of different codes and parts that are told one by one: a node of eight GPUs and all that is
# catalogued of them stay far below, and a user who floods the kernel log cannot flood the report
MOST_INCIDENTS = 500


class Situation(NamedTuple):
    """What is known beside the log.

    *gpus* are the node's GPUs, or `Unread`; *branch* is the driver's and *booted_s* the Unix time
    of the boot, both 0 if unknown. *works* is the work that was declared; *above* has the addresses
    of the ports above each GPU, by the GPU's, where they were read. *present* is what else is known
    of the node now, *zone_s* how far its clock is ahead of UTC (None: unknown). *repeats* counts
    the lines that were left out because there were too many alike, by `Event.alike`.
    """

    gpus: Any
    branch: int = 0
    booted_s: float = 0.0
    works: Sequence[Work] = ()
    above: Mapping[str, Sequence[str]] = NOTHING
    present: ageing.Present = ageing.Present()
    zone_s: float | None = None
    repeats: Mapping[str, int] = NOTHING


class _Root(NamedTuple):
    """One life of a fault that is no echo, how it stands with its echoes, and these."""

    group: EventGroup
    standing: Standing
    echoes: Sequence[EventGroup]


def find_incidents(events: Iterable[Event], situation: Situation) -> tuple[Incident, ...]:
    """Return the incidents in the order of their first line, each with its echoes.

    All lives of one code on one part are one incident, which stands as the worst of them. Of more
    than MOST_INCIDENTS codes and parts, the most serious are told one by one; the others of each
    kind are one more incident, which stands as the worst of those and is nobody's echo. So folding
    never lowers the exit code.
    """
    listed = [normalise(event) for event in events]
    gpus = {} if is_unread(situation.gpus) else {gpu.address: gpu for gpu in situation.gpus}
    cures = find_cures(listed, situation.works, situation.booted_s)
    groups = group_events(listed, cures)
    branch = situation.branch or _branch(listed)
    known = Known(Timeline(listed), cures, gpus, branch, situation.above, situation.present)
    standings = assess(groups, known)
    scene = Scene(standings, cures, situation.above)
    kept, rest = _divide(groups, scene)
    found = find_roots(kept, scene)
    counts: dict[Key, list[Event]] = {}
    roots: dict[Key, list[_Root]] = {}
    for group in kept:
        counts.setdefault(group.key, []).extend(group.events)
        if id(group) in found:
            echoes = found[id(group)]
            root = _Root(group, _with_recovery(group, echoes, standings), echoes)
            roots.setdefault(group.key, []).append(root)
    return (
        *(
            _incident(lives, count_occurrences(counts[key]), gpus, situation)
            for key, lives in roots.items()
        ),
        *(_folded(lives, standings, gpus, situation) for lives in rest),
    )


def _divide(
    groups: Sequence[EventGroup], scene: Scene
) -> tuple[Sequence[EventGroup], list[list[EventGroup]]]:
    """Return the groups of the MOST_INCIDENTS most serious codes and parts, and the others of each
    kind, the most serious first.
    """
    if len(groups) <= MOST_INCIDENTS:
        return groups, []
    kept: dict[Key, None] = {}
    rest: dict[str, list[EventGroup]] = {}
    for group in sorted(groups, key=lambda group: order(group, scene)):
        if group.key in kept or len(kept) < MOST_INCIDENTS:
            kept[group.key] = None
        else:
            rest.setdefault(_kind(group.first.kind), []).append(group)
    return [group for group in groups if group.key in kept], list(rest.values())


def _folded(
    groups: Sequence[EventGroup],
    standings: Mapping[int, Standing],
    gpus: Mapping[str, Gpu],
    situation: Situation,
) -> Incident:
    """Return groups of one kind as one incident: the first, which is the most serious."""
    worst = groups[0]
    times = count_occurrences(worst.events)
    told = _incident([_Root(worst, standings[id(worst)], ())], times, gpus, situation)
    others = len({group.key for group in groups}) - 1
    if not others:
        return told
    what = f"{others} other incident{'s' if others > 1 else ''} no more serious"
    why = f"{what} of this kind are left out: the log has more than {MOST_INCIDENTS}"
    return told._replace(because=f"{told.because}; {why}" if told.because else why)


def exit_code(incidents: Iterable[Incident]) -> int:
    """Return the exit code of the worst incident, 0 if none asks for work."""
    return max((ACTIONS[Action(incident.asks)].exit_code for incident in incidents), default=0)


def _branch(events: Sequence[Event]) -> int:
    """Return the driver's branch that the log names (`NVRM: loading NVIDIA UNIX … 580.95.05`)."""
    versions = [str(event.values["driver"]) for event in events if event.values.get("driver")]
    branch = versions[-1].split(".")[0] if versions else ""
    return int(branch) if branch.isdigit() else 0


def _weight(standing: Standing) -> tuple[int, int]:
    return standing.exit_code, standing.choice.action.rank


def _with_recovery(
    group: EventGroup, echoes: Sequence[EventGroup], standings: Mapping[int, Standing]
) -> Standing:
    """Return how a root stands: as the driver's recovery action does, if that is more serious."""
    recovery = [standings[id(echo)] for echo in echoes if echo.entry == RECOVERY]
    return max([standings[id(group)], *recovery], key=_weight)


def _incident(
    lives: Sequence[_Root], times: int, gpus: Mapping[str, Gpu], situation: Situation
) -> Incident:
    worst = max(lives, key=lambda root: _weight(root.standing))
    group, standing = worst.group, worst.standing
    whole = group._replace(events=[event for root in lives for event in root.group.events])
    gpu, known = gpus.get(group.address), catalogue.entry(group.entry)
    first, last = whole.first, whole.last
    repeats = sum(situation.repeats.get(name, 0) for name in {one.alike for one in whole.events})
    lines = len(whole.events) + repeats
    clock = wording.Clock(situation.booted_s, situation.zone_s)
    return Incident(
        label=wording.label(whole, gpus),
        address=group.address,
        part=group.part,
        kind=_kind(first.kind),
        code=first.code,
        entry=group.entry,
        name=known.name,
        action=standing.choice.action.value,
        asks=standing.asks.value,
        because=standing.choice.because,
        impact=known.impact,
        urgency=standing.choice.urgency,
        state=known.state,
        ended=standing.ended,
        clean=is_clean(state_of(gpu)),
        listed=bool(known.sources),
        events=lines,
        times=times,
        when=wording.when(whole, lines, clock),
        first_s=_seconds_since_boot(first, situation.booted_s),
        last_s=_seconds_since_boot(last, situation.booted_s),
        meaning=known.summary if known.sources else "",
        text=first.text,
        programs=wording.programs(whole.events, whole=not repeats),
        processes=wording.listed_programs(whole.events),
        echoes=tuple(_echo(echo, gpus) for root in lives for echo in root.echoes),
        values={name: value for name, value in last.values.items() if name != WITHOUT_XID},
        recovery_action=gpu.recovery_action if gpu else _no_gpu(situation),
    )


def _no_gpu(situation: Situation) -> Any:
    kind = "not-recorded" if is_unread(situation.gpus) else "not-found"
    return Unread("", kind, "no such GPU is here to ask")


def _kind(kind: str) -> str:
    """Return which check an incident belongs to: xid, sxid, nvrm (the driver) or host."""
    if kind in wording.NAMES:
        return kind
    return "nvrm" if kind in OF_THE_DRIVER else "host"


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
