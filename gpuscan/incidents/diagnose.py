"""From events to incidents: one fault a finding, its echoes folded under it, its action from code,
text, company and state.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from gpuscan import catalogue
from gpuscan.incidents.conditions import Choice, Context, choose_action
from gpuscan.incidents.patterns import pattern
from gpuscan.kernellog.event import Event
from gpuscan.model import Echo, Gpu, Incident, Unread, is_unread, read_or
from gpuscan.model.outcome import Action

# how long after its root an echo may still be printed: a GSP gives up after 45 s, and twice
ECHO_S = 120.0
START_S = 30.0  # the start of a driver on a full board
EARLIER_S = 2.0  # and before it: GPUs of one board do not print in order
APART_S = 60.0  # two occurrences of one burst are one
MOST_TEXTS = (
    50  # of one incident that are read for conditions; a storm says the same again and again
)
REPEATED = 2
RECOVERY, CLEANUP, LOST = "xid:154", "xid:45", "xid:79"
AS_LOST = ("nvrm:fallen-off",)  # the driver's words for the Xid that they stand for
CURES = {
    "reset": ("xid", "sxid", "nvrm"),
    "boot": None,
}  # what ends the life of earlier events; None: of all
PEERS = (
    "xid:74",
    "xid:137",
    *(f"xid:{code}" for code in range(144, 151)),
)  # NVLink's: the far end prints them, too
ARCHITECTURES = {
    "volta": ("V100",),
    "turing": ("T4", "RTX 20"),
    "ampere": ("A100", "A800", "A10", "A30", "A40", "A2", "A16", "RTX A", "RTX 30"),
    "ada": ("L40", "L4", "L20", "RTX 40", "Ada"),
    "hopper": ("H100", "H200", "H800", "H20", "GH200"),
    "blackwell": ("B100", "B200", "B300", "GB10", "GB200", "GB300", "RTX 50", "Blackwell"),
}
NAMES = {"xid": "Xid", "sxid": "SXid"}
OF_THE_DRIVER = ("nvrm", "driver")


class Situation(NamedTuple):
    """What is known beside the log: the GPUs (or Unread), the driver's branch and the time of
    boot (Unix); 0 where unknown.
    """

    gpus: Any
    branch: int = 0
    booted_s: float = 0.0


class _Group(NamedTuple):
    """All events of one code on one part."""

    entry: str
    address: str
    part: str
    events: list[Event]

    @property
    def first(self) -> Event:
        return self.events[0]


def incidents(events: Iterable[Event], situation: Situation) -> tuple[Incident, ...]:
    """Return the incidents in the order of their first line; echoes are named in their root's."""
    listed = [_renamed(event) for event in events]
    groups = _grouped(listed)
    gpus = {} if is_unread(situation.gpus) else {gpu.address: gpu for gpu in situation.gpus}
    judged = {
        id(group): _judged(group, listed, gpus.get(group.address), situation) for group in groups
    }
    roots = _roots(groups, judged)
    return tuple(
        _incident(group, roots[id(group)], judged, gpus, situation)
        for group in groups
        if id(group) in roots
    )


def _renamed(event: Event) -> Event:
    """Return an event under the Xid that its words stand for."""
    return event._replace(kind="xid", code=79, entry=LOST) if event.entry in AS_LOST else event


def _grouped(events: Sequence[Event]) -> list[_Group]:
    groups: dict[tuple[str, str, str], _Group] = {}
    for event in events:
        if event.kind in CURES:
            continue
        entry = f"{event.entry}" if not event.cause else f"{event.entry} of {event.cause}"
        key = (entry, event.address, event.part)
        groups.setdefault(key, _Group(event.entry, event.address, event.part, [])).events.append(
            event
        )
    return list(groups.values())


class _Judged(NamedTuple):
    """What a group comes to by itself: what it asks for, and what has ended it since."""

    choice: Choice
    ended: str

    @property
    def rank(self) -> int:
        return self.choice.action.rank


def _judged(
    group: _Group, events: Sequence[Event], gpu: Gpu | None, situation: Situation
) -> _Judged:
    context = Context(events, situation.branch or _branch(events), _architecture(gpu), _state(gpu))
    last = group.events[-1]
    texts = list({event.text: event for event in group.events}.values())[:MOST_TEXTS]
    chosen = (
        [last] if group.entry == RECOVERY else texts
    )  # of recovery actions the last wins, and `to 0` clears it
    choices = [choose_action(catalogue.entry(event.entry), event, context) for event in chosen]
    if last.cause and group.entry == CLEANUP:  # the driver names what it cleans up after
        cause = catalogue.entry(f"xid:{last.cause}")
        choices.append(
            Choice(cause.action, f"the driver names Xid {last.cause} as its cause", cause.urgency)
        )
    best = max(choices, key=lambda one: one.action.rank)
    if group.entry == RECOVERY and best.action is Action.INVESTIGATE:
        best = best._replace(because="no such recovery action is known to this gpuscan")
    if best.action.rank <= Action.RESTART_APP.rank and (told := pattern(group.events)):
        best = Choice(Action.INVESTIGATE, told, "now")
    return _Judged(best, _ended(group, events))


def _ended(group: _Group, events: Sequence[Event]) -> str:
    """Return what has ended an incident since its last line: a reset of its part, or a boot."""
    last = group.events[-1]
    for event in events:
        if event.kind in CURES and _order(event) > _order(last):
            kinds = CURES[event.kind]
            here = not event.address or event.address == group.address
            if here and (kinds is None or (last.kind in kinds and _cures(event, last))):
                return "a boot" if event.kind == "boot" else "a reset"
    return ""


def _cures(reset: Event, event: Event) -> bool:
    """Tell whether a start of the switches ends their SXids, or one of the driver the GPUs'
    faults.

    The driver names itself when it has looked at all GPUs: what it found wrong on the way is of
    this very start.
    """
    if ("nvswitch" in reset.entry) != (event.kind == "sxid"):
        return False
    stamps = [(getattr(reset, clock), getattr(event, clock)) for clock in ("at_s", "wall_s")]
    apart = [
        later - earlier for later, earlier in stamps if later is not None and earlier is not None
    ]
    return bool(reset.address) or any(seconds > START_S for seconds in apart)


def _order(event: Event) -> int:
    return event.line


def _state(gpu: Gpu | None) -> Mapping[str, Any]:
    """Return the GPU's state as conditions ask for it; what was not read is left out, and
    satisfies none.
    """
    if gpu is None:
        return {}
    rows, sram, wanted, access = gpu.remapped_rows, gpu.sram, gpu.recovery_action, gpu.access
    found = {
        "remap_failed": None if is_unread(rows) else rows.failed,
        "remap_pending": None if is_unread(rows) else rows.pending,
        "sram_threshold": None
        if is_unread(sram) or is_unread(sram.threshold_exceeded)
        else sram.threshold_exceeded,
        "lost": read_or(access, None) == "lost",
        "needs_reset": read_or(access, None) == "reset-required",
        "recovery_action": read_or(wanted, None),
    }
    return {
        name: value for name, value in found.items() if value is not None and not is_unread(value)
    }


def _branch(events: Sequence[Event]) -> int:
    """Return the driver's branch that the log itself tells: `NVRM: loading NVIDIA UNIX …
    580.95.05`.
    """
    versions = [str(event.values["driver"]) for event in events if event.values.get("driver")]
    return (
        int(versions[-1].split(".")[0]) if versions and versions[-1].split(".")[0].isdigit() else 0
    )


def _architecture(gpu: Gpu | None) -> str:
    name = "" if gpu is None or is_unread(gpu.name) else gpu.name
    words = sorted(
        ((word, arch) for arch, known in ARCHITECTURES.items() for word in known),
        key=lambda pair: -len(pair[0]),
    )
    return next((arch for word, arch in words if word in name), "")


def _roots(groups: Sequence[_Group], judged: Mapping[int, _Judged]) -> dict[int, list[_Group]]:
    """Return each root's echoes. The heaviest fault is looked at first, of equals the one that was
    printed first.
    """
    order = sorted(groups, key=lambda group: (-judged[id(group)].rank, _order(group.first)))
    roots: dict[int, list[_Group]] = {}
    folded: set[int] = set()
    for root in order:
        if id(root) in folded or root.entry == RECOVERY:
            continue
        echoes = [
            g
            for g in groups
            if id(g) not in folded
            and id(g) not in roots
            and g is not root
            and _echoes(g, root, judged)
        ]
        folded |= {id(echo) for echo in echoes}
        roots[id(root)] = echoes
    for group in groups:  # what no fault explains stands for itself
        if group.entry == RECOVERY and id(group) not in folded:
            roots[id(group)] = []
    return roots


def _echoes(group: _Group, root: _Group, judged: Mapping[int, _Judged]) -> bool:
    """Tell whether a group is what another one leaves behind: a known companion, in time, no
    heavier than it.
    """
    if not _near(group, root) or group.entry == LOST:  # a lost GPU is nobody's echo
        return False
    here = group.address == root.address and bool(group.address)
    if group.entry in (
        RECOVERY,
        CLEANUP,
    ):  # the last words on a GPU: they belong to whatever came before them
        return here and root.first.kind in ("xid", "nvrm") and _follows(group, root)
    if group.first.cause and f"xid:{group.first.cause}" == root.entry:
        return True
    if judged[id(group)].rank > judged[id(root)].rank or _of_others(group, root, judged):
        return False
    companions = catalogue.entry(root.entry).companions
    known = group.entry in companions or group.first.kind in companions
    known = known or (
        here and group.first.kind in OF_THE_DRIVER and root.first.kind == "xid"
    )  # its own words on that GPU
    elsewhere = root.first.kind == "xid" and (group.first.kind == "sxid" or group.entry in PEERS)
    return known and (here or elsewhere or not group.address or group.first.kind in ("aer", "apei"))


def _of_others(group: _Group, root: _Group, judged: Mapping[int, _Judged]) -> bool:
    """Tell whether two programs' faults are of two programs: each is told. What a GPU's fault
    ends is no fault of its own.
    """
    both = [{event.pid for event in one.events if event.pid} for one in (group, root)]
    return judged[id(root)].rank <= Action.RESTART_APP.rank and all(both) and not both[0] & both[1]


def _follows(group: _Group, root: _Group) -> bool:
    return _order(group.first) >= _order(root.first)


def _near(group: _Group, root: _Group) -> bool:
    """Tell whether some line of a group was printed while its root went on, or shortly after;
    without stamps order decides.
    """
    starts, ends = root.first, root.events[-1]
    for clock in ("at_s", "wall_s"):
        times = [getattr(event, clock) for event in (starts, ends, group.first, group.events[-1])]
        if all(stamp is not None for stamp in times):
            return bool(times[3] >= times[0] - EARLIER_S and times[2] <= times[1] + ECHO_S)
    return True


def _incident(
    group: _Group,
    echoes: Sequence[_Group],
    judged: Mapping[int, _Judged],
    gpus: Mapping[str, Gpu],
    situation: Situation,
) -> Incident:
    gpu = gpus.get(group.address)
    mine = judged[id(group)]
    known = catalogue.entry(group.entry)
    words = [
        judged[id(echo)].choice for echo in echoes if echo.entry == RECOVERY
    ]  # the driver's own on reset or reboot
    best = max(
        [mine.choice, *(one for one in words if one.action is not Action.INVESTIGATE)],
        key=lambda one: one.action.rank,
    )
    lack = "not-recorded" if is_unread(situation.gpus) else "not-found"
    unknown: Any = Unread("", lack, "no such GPU is here to ask")
    first, last = group.first, group.events[-1]
    return Incident(
        label=_label(group, gpu),
        address=group.address,
        part=group.part,
        kind=_kind(first.kind),
        code=first.code,
        entry=group.entry,
        name=known.name,
        action=best.action.value,
        because=best.because,
        impact=known.impact,
        urgency=best.urgency,
        state=known.state,
        ended=mine.ended,
        clean=_clean(_state(gpu)),
        listed=bool(known.sources),
        events=len(group.events),
        times=_occurrences(group.events),
        when=_when(first, last, len(group.events), situation.booted_s),
        first_s=_stamp(first, situation.booted_s),
        last_s=_stamp(last, situation.booted_s),
        text=first.text,
        processes=tuple(
            dict.fromkeys(_process(event) for event in group.events if event.pid or event.process)
        ),
        echoes=tuple(_echo(echo, gpus) for echo in echoes),
        values=dict(last.values),
        recovery_action=gpu.recovery_action if gpu else unknown,
    )


def _kind(kind: str) -> str:
    """Return which check an incident belongs to: the driver's and the switches' codes and words,
    or the host's.
    """
    return kind if kind in NAMES else "nvrm" if kind in OF_THE_DRIVER else "host"


def _clean(state: Mapping[str, Any]) -> str:
    """Tell whether a GPU shows no fault now: its recovery action says so where it can be read,
    and no flag speaks against it.
    """
    if any(state.values()):
        return (
            "no"
            if any(value for name, value in state.items() if name != "remap_pending")
            else "yes"
        )
    return "yes" if state.get("recovery_action") == 0 else "unknown"


def _label(group: _Group, gpu: Gpu | None) -> str:
    first = group.first
    where = gpu.label if gpu else group.address or group.part
    if first.kind in NAMES:
        what = f"{NAMES[first.kind]} {first.code}"
        what += f" after {first.cause}" if first.cause else ""
    else:
        what = group.entry.replace(":", " ", 1)
    return f"{what} on {where}" if where else what


def _process(event: Event) -> str:
    return f"{event.process or '?'} (pid {event.pid})" if event.pid else event.process


def _occurrences(events: Sequence[Event]) -> int:
    """Count the times at which something happened: lines within a minute are one burst; without
    stamps it was once.
    """
    stamps = sorted(
        stamp
        for event in events
        if (stamp := event.at_s if event.at_s is not None else event.wall_s) is not None
    )
    return 1 + sum(later - earlier > APART_S for earlier, later in pairwise(stamps))


def _stamp(event: Event, booted_s: float) -> Any:
    """Return seconds since boot, Unread where the line bears no stamp that tells them."""
    if event.at_s is not None:
        return event.at_s
    if event.wall_s is not None and booted_s:
        return event.wall_s - booted_s
    return Unread("", "not-found", "its line bears no time since boot")


def _when(first: Event, last: Event, lines: int, booted_s: float) -> str:
    """Return when it happened, in words."""
    ends = [_moment(event) for event in (first, last)]
    if not ends[0]:
        return f"{lines} lines without a time" if lines > 1 else "at an unknown time"
    if lines == 1:
        return f"at {ends[0]}"
    return (
        f"{lines} lines at {ends[0]}"
        if ends[0] == ends[1]
        else f"{lines} lines from {ends[0]} to {ends[1]}"
    )


def _moment(event: Event) -> str:
    if event.at_s is not None:
        return f"{event.at_s:.0f} s after boot"
    return (
        time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(event.wall_s))
        if event.wall_s is not None
        else ""
    )


def _echo(group: _Group, gpus: Mapping[str, Gpu]) -> Echo:
    first, label = group.first, _label(group, gpus.get(group.address))
    return Echo(
        label, first.kind, first.code, group.entry, group.address, group.part, len(group.events)
    )
