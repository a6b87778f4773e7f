"""More evidence of harm never lowers the exit code, over ordered pairs of all that is catalogued.

The law holds of every code and line, alone and in pairs, on one GPU and on two, in every state of
the GPU and across every cure; `exceptions.may_explain` names the only exceptions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from building import was_read
from nodes_recordings import base

from gpuscan import catalogue, collectors
from gpuscan.incidents.diagnose import Situation, exit_code, find_incidents
from gpuscan.incidents.exceptions import companions, may_explain
from gpuscan.incidents.groups import RECOVERY
from gpuscan.kernellog.event import Event
from gpuscan.model import Gpu, Unread

ONE, TWO, SWITCH = "0000:1b:00.0", "0000:43:00.0", "0000:05:00.0"
CURES = {"reset:gpu", "reset:driver", "reset:nvswitch", "boot:kernel", "boot:mark"}
RECOVERED = {"nfs:ok", "nvme:removing", "sxid:10005", "xid:162"}  # ends, not faults
BETWEEN = ("nothing", "reset", "reload", "boot")
STATES = ("clean", "dirty", "unread")
SAMPLE, SEED = 6000, 20261129
KINDS = ("nvrm", "driver", "aer", "apei", "mce", "edac", "mlx5", "nvme", "md", "fs", "oom", "fm")
HOST = (*KINDS, "lockup", "hung", "peermem", "segfault", "limits", "nfs")
ON_A_GPU = ("xid", "nvrm", "driver", "aer")


class Trial(NamedTuple):
    """Two events in order, whether they are of two GPUs, the state, and the cure between them."""

    first: Event
    then: Event
    two: bool
    state: str
    between: str


def lines() -> list[Event]:
    """Every catalogued code and line as events, one for each word that a condition looks for."""
    entries = [entry for kind in ("xid", "sxid", *HOST) for entry in catalogue.entries(kind)]
    found: list[Event] = []
    for entry in entries:
        if entry.id in CURES | RECOVERED:
            continue
        kind = entry.id.partition(":")[0]
        plain = Event(kind, entry.code, entry.id, address=SWITCH if kind == "sxid" else "")
        found += [plain, *(_worded(plain, condition.when) for condition in entry.conditions)]
    caused = Event("xid", 45, "xid:45")
    for cause in (13, 79, 119, 149):
        found.append(caused._replace(cause=cause, text=f"caused by previous Xid {cause}"))
    harmful = [one for one in found if one.entry != RECOVERY or one.values.get("to")]
    return list({_key(one): one for one in harmful}.values())


def _key(event: Event) -> str:
    return repr(event._replace(values=dict(event.values)))


def _worded(plain: Event, when: Any) -> Event:
    words = when.get("text_contains", "")
    values: dict[str, Any] = {name: when[name] for name in ("rst", "d_rst") if name in when}
    values |= {"to": when["to"][0]} if "to" in when else {}
    values |= {name: options[0] for name, options in when.get("value", {}).items()}
    return plain._replace(
        text=words if isinstance(words, str) else words[0],
        severity=when.get("severity", [""])[0],
        values=values,
    )


def gpus(state: str) -> tuple[Gpu, ...]:
    """Both GPUs with one state: their recovery action."""
    (gpu, *_) = was_read(collectors.node(base("demo")).gpus)
    silent = Unread("", "not-supported", "an old driver")
    action: Any = {"clean": 0, "dirty": 1, "unread": silent}[state]
    return tuple(gpu._replace(address=one, recovery_action=action) for one in (ONE, TWO))


def at(event: Event, gpu: str, line: int, at_s: float) -> Event:
    """An event on a GPU, if it is one of a GPU's, in its place of the log."""
    on_gpu = event.kind in ON_A_GPU and not event.address
    return event._replace(address=gpu if on_gpu else event.address, line=line, at_s=at_s)


def cure(how: str) -> list[Event]:
    """The events of a cure of the first GPU, between two others."""
    if how == "nothing":
        return []
    kind, entry = ("boot", "boot:kernel") if how == "boot" else ("reset", "reset:driver")
    if how == "reset":
        return [Event(kind, 0, "reset:gpu", address=ONE, line=2, at_s=200.0)]
    return [Event(kind, 0, entry, line=2, at_s=0.0 if how == "boot" else 200.0)]


def code(events: list[Event], state: str, cache: dict[str, Any]) -> int:
    if state not in cache:
        cache[state] = Situation(gpus(state), 580)
    return exit_code(find_incidents(events, cache[state]))


def violation(trial: Trial, cache: dict[str, Any]) -> str:
    """Return how a pair breaks the law, "" if it does not."""
    then_s = 100.0 + 20.0 if trial.between == "nothing" else 250.0
    if trial.between == "boot":
        then_s = 20.0
    first = at(trial.first, ONE, 1, 100.0)
    then = at(trial.then, TWO if trial.two else ONE, 3, then_s)
    cured = cure(trial.between)
    together = code([first, *cured, then], trial.state, cache)
    alone = {
        one: code([*events], trial.state, cache)
        for one, events in (("first", [first, *cured]), ("then", [*cured, then]))
    }
    least = max(alone.values())
    if together >= least:
        return ""
    pairs = (("first", first, then), ("then", then, first))
    allowed = [alone[name] for name, cause, effect in pairs if may_explain(cause, effect)]
    if allowed and together >= min(allowed):
        return ""
    told = f"{_words(first)} | {trial.between} | {_words(then)}, two={trial.two}, {trial.state}"
    return f"{told}: {alone} -> {together}"


def _words(event: Event) -> str:
    return f"{event.entry} {event.severity} {event.text} {dict(event.values)}"


def grid(events: list[Event]) -> Iterator[Trial]:
    for first, then, two, state, between in product(events, events, (False, True), STATES, BETWEEN):
        yield Trial(first, then, two, state, between)


def classes(events: list[Event]) -> list[Event]:
    """One event of each kind that is judged alike: all that judging reads of its entry."""
    named = {
        name
        for kind in ("xid", "sxid", *HOST)
        for entry in catalogue.entries(kind)
        for name in (
            *entry.companions,
            *(name for one in entry.conditions for name in companions(one)),
        )
    }
    found: dict[str, Event] = {}
    for event in events:
        entry = catalogue.entry(event.entry)
        fields = (entry.action, entry.conditions, entry.companions, entry.state, entry.ladder)
        more = (entry.urgency, entry.decode, entry.window_days, entry.returns, entry.ages)
        who = event.entry if event.entry in named or event.entry.startswith("xid:74") else ""
        said = (event.kind, event.text, event.severity, sorted(event.values.items()), event.cause)
        found.setdefault(repr((fields, more, who, said)), event)
    return list(found.values())


def test_more_evidence_never_lowers_the_exit_code_in_a_sample() -> None:
    events = lines()
    cache: dict[str, Any] = {}
    chance = random.Random(SEED)
    trials = (
        Trial(
            chance.choice(events),
            chance.choice(events),
            chance.random() < 0.3,
            chance.choice(STATES),
            chance.choice(BETWEEN),
        )
        for _ in range(SAMPLE)
    )
    assert [found for trial in trials if (found := violation(trial, cache))] == []


@pytest.mark.laws
def test_more_evidence_never_lowers_the_exit_code_in_the_whole_grid() -> None:
    cache: dict[str, Any] = {}
    events = classes(lines())
    wrong, count = [], 0
    for trial in grid(events):
        count += 1
        if found := violation(trial, cache):
            wrong.append(found)
    print(f"{len(events)} kinds, {count} pairs, {len(wrong)} wrong")
    assert wrong == []
