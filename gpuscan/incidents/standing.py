"""How groups of events stand: what each asks for, whether that has been ended, what is left now."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from gpuscan import catalogue
from gpuscan.catalogue import Entry
from gpuscan.incidents.ageing import Present, find_end
from gpuscan.incidents.conditions import Choice, Context, choose_action
from gpuscan.incidents.groups import CLEANUP, RECOVERY, EventGroup, Key, count_occurrences
from gpuscan.incidents.lives import OF_A_GPU, Cures
from gpuscan.incidents.patterns import find_pattern
from gpuscan.incidents.recurrence import climb
from gpuscan.incidents.timeline import Timeline
from gpuscan.model import Gpu, is_unread
from gpuscan.model.outcome import ACTIONS, Action

MOST_TEXTS = 50  # of one group that are read for conditions; a storm repeats itself
CLEAR = "a clear recovery action"
SUPERSEDED = "a later Xid 154"
ARCHITECTURES = {
    "pascal": ("P100", "P40", "P4"),
    "volta": ("V100",),
    "turing": ("T4", "RTX 20"),
    "ampere": ("A100", "A800", "A10", "A30", "A40", "A2", "A16", "RTX A", "RTX 30"),
    "ada": ("L40", "L4", "L20", "RTX 40", "Ada"),
    "hopper": ("H100", "H200", "H800", "H20", "GH200"),
    "blackwell": ("B100", "B200", "B300", "GB10", "GB200", "GB300", "RTX 50", "Blackwell"),
}


class Standing(NamedTuple):
    """What a group asks for by itself (*choice*), what has ended its fault since (*ended*, "" if
    nothing has), and what it asks for now (*asks*): of history, and of an undocumented code seen
    once, no more than to watch it.
    """

    choice: Choice
    ended: str
    asks: Action

    @property
    def exit_code(self) -> int:
        """The exit code of this fault alone."""
        return ACTIONS[self.asks].exit_code


class Known(NamedTuple):
    """What groups are judged against: all events, the cures among them, the GPUs by address, the
    driver's branch, the ports above each GPU, and what else is known of the node now.
    """

    events: Timeline
    cures: Cures
    gpus: Mapping[str, Gpu]
    branch: int
    above: Mapping[str, Sequence[str]]
    present: Present


def assess(groups: Sequence[EventGroup], known: Known) -> dict[int, Standing]:
    """Return how each group stands, by its id().

    History explains nothing away, and what is history is judged of each group alone.
    """
    alone = {id(group): _choose(group, known, None) for group in groups}
    dead = {
        id(event)
        for group in groups
        if _end(group, alone[id(group)], known)
        for event in group.events
    }
    standings: dict[int, Standing] = {}
    for lives in _lives(groups):
        choices = [_beside_others(group, alone[id(group)], known, dead) for group in lives]
        climbed = climb(lives, choices, known.cures)
        times = count_occurrences([event for group in lives for event in group.events])
        for group, before, choice in zip(lives, choices, climbed, strict=True):
            ended = _end(group, choice, known, returned=choice is not before)
            clean = is_clean(state_of(known.gpus.get(group.address)))
            rare = times == 1 and clean != "no" and is_undocumented(group, choice)
            standings[id(group)] = Standing(choice, ended, _asks(choice, ended, rare=rare))
    return standings


def _lives(groups: Sequence[EventGroup]) -> Iterator[list[EventGroup]]:
    """Yield the groups of each code and part together."""
    lives: dict[Key, list[EventGroup]] = {}
    for group in groups:
        lives.setdefault(group.key, []).append(group)
    yield from lives.values()


def _asks(choice: Choice, ended: str, *, rare: bool) -> Action:
    if choice.action.rank <= Action.RESTART_APP.rank:
        return choice.action
    if ended or rare:
        return Action.MONITOR
    return choice.action


def is_undocumented(group: EventGroup, choice: Choice) -> bool:
    """Return whether nobody says what a driver's code asks for: such a one drains if it recurs."""
    unknown = choice.action is Action.INVESTIGATE and not choice.because
    return unknown and group.first.kind in (*OF_A_GPU, "sxid")


def _end(group: EventGroup, choice: Choice, known: Known, *, returned: bool = False) -> str:
    """Return what has ended a fault since its last line, "" if nothing has.

    A cure ends what asks for its own work or less. The driver's recovery action, if it is none,
    ends what the driver maps to it, short of hardware; of a fault that has *returned* it tells
    only of the last time.
    """
    if choice.action is Action.NONE:
        return ""
    if cured := known.cures.what_ended(group.last, choice.action):
        return cured
    if aged := find_end(group.events, choice.action, known.present):
        return aged
    if group.entry == RECOVERY and _is_superseded(group, known):
        return SUPERSEDED
    mapped = _entry_that_decides(group).state == "mapped" and not is_undocumented(group, choice)
    if not mapped or returned or choice.action.rank > Action.POWER_CYCLE.rank:
        return ""
    return CLEAR if _recovery_action(group, known) == 0 else ""


def _entry_that_decides(group: EventGroup) -> Entry:
    """Return the group's entry, for a cleanup that of the Xid that it names as its cause."""
    cause = group.last.cause if group.entry == CLEANUP else 0
    return catalogue.entry(f"xid:{cause}" if cause else group.entry)


def _is_superseded(group: EventGroup, known: Known) -> bool:
    return known.events.last_recovery(group.address, group.last.line) is not None


def _recovery_action(group: EventGroup, known: Known) -> Any:
    """Return the recovery action of a group's GPU now; where it was not read, what the last Xid
    154 after the group says.
    """
    gpu = known.gpus.get(group.address)
    if gpu is not None and not is_unread(gpu.recovery_action):
        return gpu.recovery_action
    said = known.events.last_recovery(group.address, group.last.line)
    return said.values.get("to") if said else None


def _beside_others(group: EventGroup, alone: Choice, known: Known, dead: Set[int]) -> Choice:
    conditions = catalogue.entry(group.entry).conditions
    if not any("companion" in condition.when for condition in conditions):
        return alone
    return _choose(group, known, dead)


def _choose(group: EventGroup, known: Known, dead: Set[int] | None) -> Choice:
    gpu = known.gpus.get(group.address)
    context = Context(
        known.events,
        known.branch,
        _architecture(gpu),
        state_of(gpu),
        known.cures,
        known.above,
        dead,
    )
    best = max(_choices(group, context), key=lambda choice: choice.action.rank)
    if group.entry == RECOVERY and best.action is Action.INVESTIGATE:
        best = best._replace(because="this gpuscan does not know this recovery action")
    if best.action.rank <= Action.RESTART_APP.rank and (pattern := find_pattern(group.events)):
        best = Choice(Action.INVESTIGATE, pattern, "now")
    return best


def _choices(group: EventGroup, context: Context) -> list[Choice]:
    """Return what each different line of a group asks for.

    Of recovery actions only the last counts: `to 0` clears those before.
    """
    by_text = {(one.text, one.severity, str(one.values)): one for one in group.events}
    events = [group.last] if group.entry == RECOVERY else list(by_text.values())[:MOST_TEXTS]
    choices = [choose_action(catalogue.entry(event.entry), event, context) for event in events]
    if group.last.cause and group.entry == CLEANUP:
        cause = catalogue.entry(f"xid:{group.last.cause}")
        because = f"the driver names Xid {group.last.cause} as its cause"
        choices.append(Choice(cause.action, because, cause.urgency))
    return choices


def state_of(gpu: Gpu | None) -> Mapping[str, Any]:
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


def is_clean(state: Mapping[str, Any]) -> str:
    """Return whether a GPU shows no fault now: yes, no or unknown.

    Its recovery action says so if it can be read; a pending row remap is no fault of its own.
    """
    flags = {name for name, value in state.items() if value}
    if flags:
        return "yes" if flags == {"remap_pending"} else "no"
    return "yes" if state.get("recovery_action") == 0 else "unknown"


def _architecture(gpu: Gpu | None) -> str:
    name = "" if gpu is None or is_unread(gpu.name) else gpu.name
    products = [
        (product, architecture)
        for architecture, known in ARCHITECTURES.items()
        for product in known
        if product in name
    ]
    return max(products, key=lambda pair: len(pair[0]), default=("", ""))[1]
