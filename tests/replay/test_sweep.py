"""What was not read is never healthy: each reading of each recording is taken away in every way,
and nothing gets better.

No result may go from fail, warn or unknown to pass, no exit code from 20 or more (or 3) to 0, and a
check that passed on a reading may not pass without it. Holes found here are the worst that this
program can have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import pytest
from faults import FAULTS
from nodes_recordings import FILES, base, judged_facts, profile_named, site_pins_a_profile
from nodes_synthetic import VARIANTS

from gpuscan import collectors
from gpuscan.burnin.tools.programs import is_tool
from gpuscan.collectors.fabric import ROOT
from gpuscan.collectors.log import JOURNAL, KMSG, NO_JOURNAL
from gpuscan.engine.report import Report
from gpuscan.engine.verdict import EVERY_GPU_GIVES
from gpuscan.model import READING_KINDS, Gpu, Node, Unread
from gpuscan.model.outcome import Result, Status
from gpuscan.recording import Reading, Recording, patch

pytestmark = pytest.mark.sweep
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
NEVER_MEANT: tuple[Any, ...] = (
    0.0,
    "",
    {},
    None,
    float("nan"),
)  # nothing that a check rests on may say so and be believed


class How(NamedTuple):
    """How a node is judged beside the profile: `--set` changes, and whether jobs run."""

    settings: tuple[str, ...] = ()
    busy: bool = False


IDLE = How()


class Before(NamedTuple):
    """A node as it is: facts and report by one profile, and which passing results booked which
    reading.
    """

    recording: Recording
    profile: str
    how: How
    facts: Node
    report: Report
    booked: dict[str, set[Place]]


def before(recording: Recording, profile: str = "", how: How = IDLE) -> Before:
    """Judge a node as it is."""
    facts, profile = (
        collectors.node(recording),
        profile or recording.meta.profile or "h100-8x",
    )
    report = judged_facts(facts, profile, how.settings, busy=how.busy)
    booked: dict[str, set[Place]] = {}
    for result in report.results:
        for key in keys_of(result) if result.status is Status.PASS else ():
            booked.setdefault(key, set()).add(place(result))
    return Before(recording, profile, how, facts, report, booked)


def keys_of(result: Result) -> set[str]:
    """The readings that a result rests on; what it took from the profile is no reading."""
    seen = {
        key
        for evidence in result.evidence
        for key in evidence.keys
        if not key.startswith("profile:")
    }
    return seen | {unread.key for _, unread in result.unread}


def place(result: Result) -> Place:
    """A result's check and subject, by address: a GPU's name changes with what can be read of it."""
    kind, _, name = result.subject.partition(":")
    if kind == "incident":
        return result.check, f"{name.split(' on ')[0]} {result.address}"
    return result.check, f"gpu:{result.address}" if kind == "gpu" else result.subject


def failing(kind: str) -> Change:
    """A reading that came to an error of this kind."""
    return lambda reading: reading._replace(value=None, error=Unread(reading.key, kind, "planted"))


def saying(value: Any) -> Change:
    """A reading that came to another value."""
    return lambda reading: reading._replace(value=value, error=None)


def gone(_: Reading) -> Reading | None:
    """A reading that was never taken."""
    return None


def after(node: Before, keys: Collection[str], change: Change) -> Report:
    """The report on the node with these readings changed, all samples of each; unchanged where no
    fact is.
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


def better(node: Before, now: Report, excused: Collection[str] = ()) -> Iterator[str]:
    """Tell what got better; *excused* facts of a GPU may be skipped, for this profile does not
    ask for them.
    """
    yield from (
        f"{result.check} crashed: {result.traceback}" for result in now.results if result.traceback
    )
    places = {place(result): result for result in now.results}
    for was in node.report.results:
        if was.status in (Status.FAIL, Status.UNKNOWN, Status.WARN):
            heirs = (
                [places[place(was)]]
                if place(was) in places
                else [r for r in now.results if r.check == was.check]
            )
            if all(heir.status is Status.PASS for heir in heirs):
                yield f"{was.check} on {was.subject}: {was.status.value} became pass"
    if (
        now.exit_code in (0, 10)
        and node.report.exit_code not in (0, 10)
        and not _excused(node, now, excused)
    ):
        yield f"exit {node.report.exit_code} became {now.exit_code}"


def blind(
    node: Before, now: Report, keys: Iterable[str], excused: Collection[str] = ()
) -> Iterator[str]:
    """Tell what passes without a reading that it rested on, and whether the exit code hides that."""
    needed = set().union(*(node.booked.get(key, set()) for key in keys))
    passing = {place(result) for result in now.results if result.status is Status.PASS}
    yield from (f"{check} on {where} still passes" for check, where in sorted(needed & passing))
    if needed and now.exit_code in (0, 10) and not _excused(node, now, excused):
        yield f"exit {now.exit_code} though {len(needed)} results lost a reading"


def _excused(node: Before, now: Report, excused: Collection[str]) -> bool:
    """Tell whether all that became a skip lacks only facts that are excused."""
    was = {place(result) for result in node.report.results if result.status is Status.SKIP}
    lost = [
        result
        for result in now.results
        if result.status is Status.SKIP and place(result) not in was
    ]
    facts = [re.sub(r"^gpus\[[^]]*\]\.", "", path) for result in lost for path, _ in result.unread]
    return bool(facts) and all(re.split(r"[.\[]", fact)[0] in excused for fact in facts)


def excused_by(profile: str, kind: str) -> Collection[str]:
    """The facts of a GPU that may be `not supported` under a profile."""
    asked = profile_named(profile).data["capabilities"]
    return (
        [f for f in Gpu._fields if f not in asked and f not in EVERY_GPU_GIVES]
        if kind == "not-supported"
        else ()
    )


def legitimate(node: Before, keys: Collection[str], kind: str) -> bool:
    """Tell whether a lack is one that the design lets pass.

    A machine may have no journal, and then a log that has wrapped is a warning; a kernel may count
    no PCIe errors; what is outside a recording's scope is not recorded; and the whole journal
    stands in for the ring buffer.
    """
    if all("/aer_dev_" in key for key in keys):
        return kind == "not-found"
    if (
        set(keys) == {PORTS} and node.recording.get(PORTS) == []
    ):  # no folder and an empty one are the same
        return kind == "not-found"
    if all(
        "UnrepairableMemoryFlag" in key for key in keys
    ):  # of R590; some drivers of R580 have it, others need not
        return kind in ("not-found", "not-supported")
    if all(
        is_tool(key) for key in keys
    ):  # another program that a burn-in would have run: none has to be installed
        return kind == "not-found"
    if kind == "gone":
        return not all(node.recording.covers(key) for key in keys)
    return JOURNAL in keys and kind in NO_JOURNAL


def opened(
    node: Before, keys: Collection[str], kind: str, change: Change, *, rested_on: bool = True
) -> list[str]:
    """Return the holes that one change opens."""
    if legitimate(node, keys, kind):
        return []
    excused, now = excused_by(str(node.report.run["profile"]), kind), after(node, keys, change)
    found = list(better(node, now, excused))
    if rested_on:
        found += blind(
            node,
            now,
            [key for key in keys if key != KMSG or JOURNAL not in node.recording],
            excused,
        )
    return [f"{kind} at {', '.join(sorted(keys)[:3])}: {hole}" for hole in found]


def swept(node: Before, groups: Iterable[Collection[str]], kinds: Iterable[str]) -> list[str]:
    """Take each group of readings away by each kind of error; return every hole."""
    kinds = list(kinds)
    return [
        hole
        for keys in groups
        for kind in kinds
        for hole in opened(node, keys, kind, failing(kind))
    ]


def littered(node: Before, groups: Iterable[Collection[str]], values: Iterable[Any]) -> list[str]:
    """Let each group of readings say nonsense, or remove it; return every hole."""
    found, values = [], list(values)
    for keys in groups:
        for value in values:
            if type(value) is list and all(
                key.startswith(("dir:", "tail:")) or "RunningProcesses" in key for key in keys
            ):
                continue  # a listing may well be another: then it is a fault of its own, or none
            never = any(value is one for one in NEVER_MEANT)
            found += opened(node, keys, f"{value!r:.40}", saying(value), rested_on=never)
        found += opened(node, keys, "gone", gone)
    return found


def each(recording: Recording) -> list[set[str]]:
    """Every reading by itself."""
    return [{key} for key in list(recording.keys())]


def areas(recording: Recording) -> list[set[str]]:
    """The readings of each GPU together, and the others by what they are of."""
    groups: dict[str, set[str]] = {}
    for key in list(recording.keys()):
        gpu = re.match(r"nvml:\w+\(([0-9a-f:.]{12})", key)
        name = gpu[1] if gpu else re.sub(r"/mlx5[^/]*|/[0-9a-f]{4}:[^/]*|/\d+(?=/)|\(.*", "", key)
        groups.setdefault(name, set()).add(key)
    return list(groups.values())


def planted(name: str) -> Before:
    """A node with one of the faults."""
    fault = FAULTS[name]
    recording = patch(base(fault["base"]), fault.get("set", {}), fault.get("log", ()))
    how = How(tuple(fault.get("settings", ())), fault.get("context") == "busy")
    return before(recording, fault.get("profile", ""), how)


def accusing(node: Before, most: int = 6) -> list[set[str]]:
    """The readings that what is wrong rests on, each by itself; of many alike the first."""
    wrong = [
        result
        for result in node.report.results
        if result.status in (Status.FAIL, Status.UNKNOWN, Status.WARN)
    ]
    keys = set().union(*(keys_of(result) for result in wrong))
    return [{key} for key in sorted(keys) if key in node.recording][:most]


# Readings that have many like them: other GPUs', other links', other devices' and other ports'.
ALIKE = re.compile(r",16[1-5],[1-9]|/mlx5_[1-7]/|slots/|0000:(?!1b|00:0[67])[0-9a-f:.]{7}")


def sampled(recording: Recording) -> Iterator[tuple[set[str], list[str]]]:
    """Every reading with every kind of error; of those that have many like them each with one
    kind, in turn.
    """
    for number, keys in enumerate(each(recording)):
        kinds = list(READING_KINDS)
        yield keys, [kinds[number % len(kinds)]] if ALIKE.search("".join(keys)) else kinds


@pytest.mark.parametrize("name", ["h100-8x-ib", "h200-1x", "demo"])
def test_no_reading_can_be_lost_unnoticed(name: str) -> None:
    """Every reading is lost at least once."""
    node = before(base(name))
    assert [
        hole for keys, kinds in sampled(base(name)) for hole in swept(node, [keys], kinds)
    ] == []


def test_nor_any_of_a_burn_in() -> None:
    """Each of its readings, by every kind of error and by nonsense."""
    node = before(base("h200-2x-quick"), "h200-4x", How(("gpu.count=2",)))
    assert node.report.exit_code == 0
    keys = [
        keys
        for keys in each(base("h200-2x-quick"))
        if str(keys).startswith(("{'burnin:", "{'tail:"))
    ]
    assert len(keys) > 40
    assert swept(node, keys, READING_KINDS) == []
    assert littered(node, keys[::3], GARBAGE) == []


@pytest.mark.parametrize("name", sorted({*FILES, *VARIANTS} - {"h100-8x-ib", "h200-1x"}))
def test_nor_in_other_recordings(name: str) -> None:
    """Every reading together with those of its area, two kinds; the profile is found by the
    machine where none is named.
    """
    if base(name).meta.profile is None and site_pins_a_profile():
        pytest.skip("this machine pins a profile in /etc/gpuscan/config.yaml")
    node = before(base(name), base(name).meta.profile or "auto")
    assert swept(node, areas(base(name)), ("no-permission", "not-found")) == []


def test_nor_the_names_that_choose_a_profile() -> None:
    if site_pins_a_profile():
        pytest.skip("this machine pins a profile in /etc/gpuscan/config.yaml")
    node = before(base("h100-8x-ib"), "auto")
    assert node.report.exit_code == 0
    dmi = [
        keys
        for keys in each(base("h100-8x-ib"))
        if str(keys).startswith(("{'file:/sys/class/dmi", "{'dir:"))
    ]
    assert swept(node, [*dmi, set().union(*dmi)], ("no-permission", "not-found", "garbled")) == []


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_is_healed_by_not_looking(name: str) -> None:
    """What accuses a part by every kind of error and by nonsense; an eighth of all else by areas,
    one kind each in turn.
    """
    node = planted(name)
    assert swept(node, accusing(node, 3), READING_KINDS) == []
    assert littered(node, accusing(node, 1), GARBAGE) == []
    turn = list(FAULTS).index(name)
    for number, keys in enumerate(areas(node.recording)[turn % 8 :: 8], turn):
        assert swept(node, [keys], [READING_KINDS[number % len(READING_KINDS)]]) == []


def test_nonsense_neither_crashes_nor_passes() -> None:
    """Every kind of reading says nonsense: those of one GPU and the machine's, and what only the
    eight-GPU node has.
    """
    few = [
        keys for keys in each(base("demo")) if not re.search(r"nvml:.*0000:00:0[789]", str(keys))
    ]
    assert littered(before(base("demo")), few, GARBAGE) == []
    other = [
        keys
        for keys in each(base("h100-8x-ib"))
        if not re.search(r"nvml:|uevent|mlx5_[1-7]|0000:(?!1b)", str(keys))
    ]
    assert littered(before(base("h100-8x-ib")), other, GARBAGE) == []


def test_a_plan_is_made_of_nonsense_too() -> None:
    """The scan plans on with what it has read, whatever that is."""
    node = before(base("h100-8x-ib"))
    for value in (*GARBAGE, Unread("", "garbled", "planted")):
        for keys in areas(node.recording):
            change = failing("garbled") if isinstance(value, Unread) else saying(value)
            readings = [
                change(reading) if reading.key in keys else reading for reading in node.recording
            ]
            wanted = collectors.plan(
                Recording({}, ["*"], [reading for reading in readings if reading])
            )
            assert all(type(key) is str for key in wanted)


def test_one_sample_of_two_is_not_enough() -> None:
    """A reading taken twice and lost once is unread."""
    for number in (0, 1):
        node = before(base("h100-8x-ib"))
        key = "nvml:nvmlDeviceGetCurrentClocksEventReasons(0000:52:00.0)"
        lost = base("h100-8x-ib").all(key)[number]
        readings = [
            failing("timed-out")(reading) if reading is lost else reading
            for reading in node.recording
        ]
        facts = collectors.node(
            Recording(node.recording.meta, ["*"], [reading for reading in readings if reading])
        )
        report = judged_facts(facts, "h100-8x")
        assert report.exit_code in (3, 30)
        assert list(blind(node, report, [key])) == []


def test_the_sweep_sees_a_hole() -> None:
    """The sweep's own judgement: a report that forgets what was wrong, or what it rested on, is
    told of.
    """
    node, healthy = planted("row-remap-failed"), before(base("h100-8x-ib"))
    assert [hole for hole in better(node, healthy.report) if "became pass" in hole]
    assert "exit 41 became 0" in list(better(node, healthy.report))
    key = "nvml:nvmlDeviceGetRemappedRows(0000:52:00.0)"
    assert len(list(blind(healthy, healthy.report, [key]))) == 4


GROWING = (
    "nvml:nvmlDeviceGetPcieReplayCounter(0000:52:00.0)",
    "nvml:nvmlDeviceGetFieldValues(0000:52:00.0,163,7)",
    "nvml:nvmlDeviceGetFieldValues(0000:52:00.0,75,0)",
    "file:/sys/bus/pci/devices/0000:52:00.0/aer_dev_fatal",
    "file:/sys/class/infiniband/mlx5_3/ports/1/counters/link_downed",
)


@pytest.mark.parametrize("key", GROWING)
def test_growth_needs_both_samples(key: str) -> None:
    """One that failed leaves no pass; one that was never meant to be taken is a skip."""
    node = before(base("h100-8x-ib"))
    (first, last), lost = base("h100-8x-ib").all(key), {"error": ["timed-out", "planted"]}
    for samples in ([lost, last.value], [first.value, lost]):
        report = judged_facts(
            collectors.node(patch(node.recording, {key: {"samples": samples}})), "h100-8x"
        )
        assert report.exit_code in (3, 30)
        assert list(blind(node, report, [key])) == []
    once = judged_facts(
        collectors.node(patch(node.recording, {key: {"samples": [last.value]}})), "h100-8x"
    )
    assert once.exit_code == 0
    hit = [result for result in once.results if place(result) in node.booked[key]]
    assert {result.status for result in hit if "not recorded" in result.reason} == {Status.SKIP}
    assert any("read once" in result.reason for result in hit)
