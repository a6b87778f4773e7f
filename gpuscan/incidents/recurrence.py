"""Recurrence: a fault that is back after its cure asks for the next step of its ladder."""

from collections.abc import Sequence
from typing import NamedTuple

from gpuscan import catalogue
from gpuscan.incidents.conditions import Choice
from gpuscan.incidents.groups import APART_S, WITHOUT_XID, EventGroup, time_of
from gpuscan.incidents.lives import Cures
from gpuscan.kernellog.event import Event
from gpuscan.model.outcome import TO_REPLACE, Action

DAY_S = 86400.0
WINDOW_DAYS = 30.0  # of codes that have no window of their own, as in the archive
# What some codes leave does no work until it is cured (`returns` in the catalogue): another one so
# much later proves a cure, of which the log need not tell.
UNSEEN_S = 600.0


class _Burst(NamedTuple):
    """The lines of one occurrence, and what their life of the part asks for."""

    group: EventGroup
    first: Event
    last: Event


def climb(groups: Sequence[EventGroup], choices: Sequence[Choice], cures: Cures) -> list[Choice]:
    """Return what each life of one fault asks for, as *choices* does without its past.

    *groups* are all lives of one code on one part, in order. A fault that is back after a cure as
    strong as the action that it asked for climbs its ladder by one step; after a weaker one it
    asks for no less than before.
    """
    known = catalogue.entry(groups[0].entry)
    ladder = TO_REPLACE if known.ladder is None else known.ladder
    own = {id(group): choice for group, choice in zip(groups, choices, strict=True)}
    climbed = dict(own)  # a choice that is not climbed stays the same object
    if not ladder or max(choice.action.rank for choice in choices) < Action.RESET_GPU.rank:
        return list(choices)
    asked, before, count = Action.NONE, None, 0
    for burst in _bursts(groups):
        mine = own[id(burst.group)]
        count += 1
        if before is None or _is_old(before, burst, known.window_days or WINDOW_DAYS):
            asked, count = mine.action, 1
        else:
            between = cures.between(before.last, burst.first)
            healed = _healed(before, burst, between, returns=known.returns)
            if healed is not None and asked.rank <= healed.rank:
                asked = _next(ladder, asked)
            asked = max(asked, mine.action, key=lambda action: action.rank)
        before = burst
        if asked.rank > mine.action.rank:
            because = f"it has occurred {count} times, each time after it had been cured"
            climbed[id(burst.group)] = Choice(asked, _also(mine.because, because), "now")
    return [climbed[id(group)] for group in groups]


def _also(because: str, more: str) -> str:
    return f"{because}; {more}" if because else more


def _next(ladder: Sequence[Action], action: Action) -> Action:
    """Return the step above an action on its ladder; whoever is not on it, or at its end, stays."""
    higher = (step for step in ladder if step.rank > action.rank)
    return next(higher, action) if action in ladder else action


def _is_old(before: _Burst, burst: _Burst, days: float) -> bool:
    times = (before.last.wall_s, burst.first.wall_s)
    return None not in times and (times[1] or 0) - (times[0] or 0) > days * DAY_S


def _healed(
    before: _Burst, burst: _Burst, between: Sequence[Action], *, returns: bool
) -> Action | None:
    """Return the strongest cure between two occurrences, None if there was none."""
    heals = list(between)
    if returns and not burst.first.values.get(WITHOUT_XID):
        first, last = time_of(before.last), time_of(burst.first)
        if between or (first is not None and last is not None and last - first >= UNSEEN_S):
            heals.append(Action.POWER_CYCLE)
    return max(heals, key=lambda action: action.rank, default=None)


def _bursts(groups: Sequence[EventGroup]) -> list[_Burst]:
    bursts: list[_Burst] = []
    for group in groups:
        start = len(bursts)
        for event in group.events:
            if len(bursts) > start and not _is_another(bursts[-1].last, event):
                bursts[-1] = bursts[-1]._replace(last=event)
            else:
                bursts.append(_Burst(group, event, event))
    return bursts


def _is_another(last: Event, event: Event) -> bool:
    before, now = time_of(last), time_of(event)
    return before is not None and now is not None and now - before > APART_S
