"""The sweep: take a recording's readings away, or replace them, and list whatever looks healthier.

A report with a reading missing may not be better than the one with it: no result may go from fail,
warn or unknown to pass, no exit code from 20 or more (or 3) to 0, and a check that passed on a
reading may not pass without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from faults import FAULTS
from nodes_recordings import base, judged_facts, profile_named

from gpuscan import collectors
from gpuscan.burnin.tools.programs import is_tool
from gpuscan.collectors.adapters import LINK
from gpuscan.collectors.fabric import ROOT
from gpuscan.collectors.log_text import JOURNAL, KMSG, NO_JOURNAL
from gpuscan.collectors.systemd import BOOTED, SHOW
from gpuscan.engine.report import Report
from gpuscan.model import READING_KINDS, Gpu, Node, Unread
from gpuscan.model.gpu import ALWAYS_READ
from gpuscan.model.outcome import Result, Status
from gpuscan.recording import Reading, Recording, patch

PORTS = f"dir:{ROOT}"
Change = Callable[[Reading], Reading | None]
Place = tuple[str, str]
GARBAGE: tuple[Any, ...] = (
    0.0,
    -1,
    "",
    "zzz",
    [],
    {},
    None,
    10**30,
    2**64,
    [0.0, 0.0, 0.0, 0.0],
    ["zzz"],
    {"total": "zzz"},
    float("nan"),
)
# Values that no check may take for an answer that its result can rest on.
NO_ANSWER: tuple[Any, ...] = (0.0, "", {}, None, float("nan"))


class How(NamedTuple):
    """How a node is judged beside the profile: `--set` changes, and whether jobs run."""

    settings: tuple[str, ...] = ()
    busy: bool = False


IDLE = How()


class Baseline(NamedTuple):
    """A node as it is: its facts and report by one profile, and for each reading the passing
    results that rest on it.
    """

    recording: Recording
    profile: str
    how: How
    facts: Node
    report: Report
    booked: dict[str, set[Place]]


def baseline(recording: Recording, profile: str = "", how: How = IDLE) -> Baseline:
    """Judge a node as it is."""
    facts = collectors.node(recording)
    profile = profile or recording.meta.profile or "h100-8x"
    report = judged_facts(facts, profile, how.settings, busy=how.busy)
    booked: dict[str, set[Place]] = {}
    for result in report.results:
        for key in keys_of(result) if result.status is Status.PASS else ():
            booked.setdefault(key, set()).add(place_of(result))
    return Baseline(recording, profile, how, facts, report, booked)


def keys_of(result: Result) -> set[str]:
    """The readings that a result rests on; the profile's expectations are not among them."""
    seen = {
        key
        for evidence in result.evidence
        for key in evidence.keys
        if not key.startswith("profile:")
    }
    return seen | {unread.key for _, unread in result.unread}


def place_of(result: Result) -> Place:
    """A result's check and subject, by address: a GPU's name changes with what can be read of
    it.
    """
    kind, _, name = result.subject.partition(":")
    if kind == "incident":
        return result.check, f"{name.split(' on ')[0]} {result.address}"
    return result.check, f"gpu:{result.address}" if kind == "gpu" else result.subject


def fail_with(kind: str) -> Change:
    """Replace a reading by an error of this kind."""
    return lambda reading: reading._replace(value=None, error=Unread(reading.key, kind, "planted"))


def replace_by(value: Any) -> Change:
    """Replace a reading's value."""
    return lambda reading: reading._replace(value=value, error=None)


def remove(_: Reading) -> Reading | None:
    """Remove a reading."""
    return None


def after(node: Baseline, keys: Collection[str], change: Change) -> Report:
    """The report on the node with all samples of these readings changed.

    Where that changes no fact the report is the baseline's own, and nothing is judged again.
    """
    readings = (change(reading) if reading.key in keys else reading for reading in node.recording)
    changed = Recording(
        node.recording.meta,
        node.recording.scope,
        [reading for reading in readings if reading is not None],
    )
    facts = collectors.node(changed)
    return (
        node.report
        if facts == node.facts
        else judged_facts(facts, node.profile, node.how.settings, busy=node.how.busy)
    )


def find_improvements(node: Baseline, now: Report, optional: Collection[str] = ()) -> Iterator[str]:
    """Yield what got better; checks that lack only *optional* facts of a GPU may be skipped."""
    yield from (
        f"{result.check} crashed: {result.traceback}" for result in now.results if result.traceback
    )
    places = {place_of(result): result for result in now.results}
    for was in node.report.results:
        if was.status in (Status.FAIL, Status.UNKNOWN, Status.WARN):
            heirs = (
                [places[place_of(was)]]
                if place_of(was) in places
                else [r for r in now.results if r.check == was.check]
            )
            if all(heir.status is Status.PASS for heir in heirs):
                yield f"{was.check} on {was.subject}: {was.status.value} became pass"
    if (
        now.exit_code in (0, 10)
        and node.report.exit_code not in (0, 10)
        and not _only_optional_lost(node, now, optional)
    ):
        yield f"exit {node.report.exit_code} became {now.exit_code}"


def find_blind_passes(
    node: Baseline, now: Report, keys: Iterable[str], optional: Collection[str] = ()
) -> Iterator[str]:
    """Yield the checks that pass without a reading that they rested on, and an exit code that
    hides it.
    """
    needed = set().union(*(node.booked.get(key, set()) for key in keys))
    passing = {place_of(result) for result in now.results if result.status is Status.PASS}
    yield from (f"{check} on {where} still passes" for check, where in sorted(needed & passing))
    if needed and now.exit_code in (0, 10) and not _only_optional_lost(node, now, optional):
        yield f"exit {now.exit_code} though {len(needed)} results lost a reading"


def _only_optional_lost(node: Baseline, now: Report, optional: Collection[str]) -> bool:
    """Tell whether all results that became a skip lack optional facts only."""
    was = {place_of(result) for result in node.report.results if result.status is Status.SKIP}
    lost = [
        result
        for result in now.results
        if result.status is Status.SKIP and place_of(result) not in was
    ]
    facts = [re.sub(r"^gpus\[[^]]*\]\.", "", path) for result in lost for path, _ in result.unread]
    return bool(facts) and all(re.split(r"[.\[]", fact)[0] in optional for fact in facts)


def optional_facts(profile: str, kind: str) -> Collection[str]:
    """The facts of a GPU that may be `not-supported` under a profile."""
    asked = profile_named(profile).data["capabilities"]
    return (
        [f for f in Gpu._fields if f not in asked and f not in ALWAYS_READ]
        if kind == "not-supported"
        else ()
    )


def is_permitted(node: Baseline, keys: Collection[str], kind: str) -> bool:
    """Tell whether the design lets a check pass without these readings.

    A kernel may count no PCIe errors, only some drivers tell unrepairable memory, no other
    program has to be installed for a burn-in, a machine may have no journal, and what is outside a
    recording's scope is not recorded.
    """
    if all("/aer_dev_" in key for key in keys):
        return kind == "not-found"
    if set(keys) == {PORTS} and node.recording.get(PORTS) == []:
        return kind == "not-found"  # no folder and an empty one mean the same
    files = {key.rpartition("/")[2] for key in keys}
    alike = {key for key in node.recording.keys() if key.rpartition("/")[2] in files}
    if files <= set(LINK) and alike == set(keys):
        return kind == "not-found"  # a kernel, or a guest, that shows no such file of any device
    if BOOTED in keys and set(keys) <= {BOOTED, SHOW}:
        return kind == "not-found"  # a machine without systemd
    if set(keys) == {SHOW}:
        return kind == "not-supported"  # --root
    if all("UnrepairableMemoryFlag" in key for key in keys):
        return kind in ("not-found", "not-supported")  # R590; some drivers of R580 have it
    if all(is_tool(key) for key in keys):
        return kind == "not-found"
    if kind == "gone":
        return not all(node.recording.covers(key) for key in keys)
    return JOURNAL in keys and kind in NO_JOURNAL


def find_holes(
    node: Baseline, keys: Collection[str], kind: str, change: Change, *, rested_on: bool = True
) -> list[str]:
    """List what one change makes look healthier; *rested_on* looks for blind passes as well."""
    if is_permitted(node, keys, kind):
        return []
    optional = optional_facts(node.report.run.profile.name, kind)
    now = after(node, keys, change)
    found = list(find_improvements(node, now, optional))
    if rested_on:
        # The whole journal stands in for the ring buffer.
        needed = [key for key in keys if key != KMSG or JOURNAL not in node.recording]
        found += find_blind_passes(node, now, needed, optional)
    return [f"{kind} at {', '.join(sorted(keys)[:3])}: {hole}" for hole in found]


def sweep(node: Baseline, groups: Iterable[Collection[str]], kinds: Iterable[str]) -> list[str]:
    """Replace each group of readings by each kind of error; list what looks healthier."""
    kinds = list(kinds)
    return [
        hole
        for keys in groups
        for kind in kinds
        for hole in find_holes(node, keys, kind, fail_with(kind))
    ]


def litter(node: Baseline, groups: Iterable[Collection[str]], values: Iterable[Any]) -> list[str]:
    """Replace each group of readings by nonsense, and remove it; list what looks healthier."""
    found, values = [], list(values)
    for keys in groups:
        for value in values:
            if type(value) is list and all(
                key.startswith(("dir:", "tail:")) or "RunningProcesses" in key for key in keys
            ):
                continue  # another listing may be a valid one
            no_answer = any(value is one for one in NO_ANSWER)
            found += find_holes(
                node, keys, f"{value!r:.40}", replace_by(value), rested_on=no_answer
            )
        found += find_holes(node, keys, "gone", remove)
    return found


def single_readings(recording: Recording) -> list[set[str]]:
    """Each reading in a group of its own."""
    return [{key} for key in list(recording.keys())]


def readings_by_area(recording: Recording) -> list[set[str]]:
    """The readings of each GPU as one group, the others grouped by what they belong to."""
    groups: dict[str, set[str]] = {}
    for key in list(recording.keys()):
        gpu = re.match(r"nvml:\w+\(([0-9a-f:.]{12})", key)
        name = gpu[1] if gpu else re.sub(r"/mlx5[^/]*|/[0-9a-f]{4}:[^/]*|/\d+(?=/)|\(.*", "", key)
        groups.setdefault(name, set()).add(key)
    return list(groups.values())


def planted_fault(name: str) -> Baseline:
    """Judge a node with one of the faults."""
    fault = FAULTS[name]
    recording = patch(base(fault["base"]), fault.get("set", {}), fault.get("log", ()))
    how = How(tuple(fault.get("settings", ())), fault.get("context") == "busy")
    return baseline(recording, fault.get("profile", ""), how)


def accusing_readings(node: Baseline, most: int = 6) -> list[set[str]]:
    """The first readings that failures, warnings and unknowns rest on, each by itself."""
    wrong = [
        result
        for result in node.report.results
        if result.status in (Status.FAIL, Status.UNKNOWN, Status.WARN)
    ]
    keys = set().union(*(keys_of(result) for result in wrong))
    return [{key} for key in sorted(keys) if key in node.recording][:most]


# Readings of which there are many: of the other GPUs, links, devices and ports.
ALIKE = re.compile(r",16[1-5],[1-9]|/mlx5_[1-7]/|slots/|0000:(?!1b|00:0[67])[0-9a-f:.]{7}")


def sampled_readings(recording: Recording) -> Iterator[tuple[set[str], list[str]]]:
    """Yield every reading with every kind of error; those with many like them take one kind each,
    in turn.
    """
    for number, keys in enumerate(single_readings(recording)):
        kinds = list(READING_KINDS)
        yield keys, [kinds[number % len(kinds)]] if ALIKE.search("".join(keys)) else kinds
