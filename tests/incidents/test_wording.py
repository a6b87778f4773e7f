"""Times and programs of an incident as people read them."""

from __future__ import annotations

import gzip

import pytest

from gpuscan import collectors
from gpuscan.incidents.groups import EventGroup
from gpuscan.incidents.wording import Clock, programs, when
from gpuscan.kernellog.event import Event
from gpuscan.kernellog.lines import parse_lines
from gpuscan.live.kernel_log import record_log
from gpuscan.live.logfile import LogFile
from gpuscan.model import read_or

XID = "NVRM: Xid (PCI:0000:9d:00): 119, pid={pid}, name=nvidia-smi, Timeout after 6s"
BOOTED_S = 1764341000.0  # 2025-11-28 14:43:20 UTC


def event(**facts: float | None) -> Event:
    return Event("xid", 79, "xid:79", **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("events", "clock", "said"),
    [
        ([event(at_s=11.4)], Clock(), "at 11 s after boot"),
        ([event(at_s=11.4)], Clock(BOOTED_S), "at 2025-11-28 14:43:31 UTC"),
        ([event(at_s=11.4)], Clock(BOOTED_S, 3600), "at 2025-11-28 15:43:31 +01:00"),
        ([event(at_s=11.4)], Clock(BOOTED_S, -12600), "at 2025-11-28 11:13:31 -03:30"),
        ([event(wall_s=BOOTED_S)], Clock(), "at 2025-11-28 14:43:20"),
        ([event(wall_s=BOOTED_S, zone_s=0.0)], Clock(), "at 2025-11-28 14:43:20 UTC"),
        ([event(wall_s=BOOTED_S, zone_s=7200.0)], Clock(), "at 2025-11-28 16:43:20 +02:00"),
        ([event(wall_s=BOOTED_S, at_s=3.0)], Clock(BOOTED_S), "at 2025-11-28 14:43:20"),
        ([event()], Clock(), "at an unknown time"),
        ([event(at_s=1e16)], Clock(BOOTED_S), "at 10000000000000000 s after boot"),
        ([event(wall_s=1e16)], Clock(BOOTED_S), "at an unknown time"),
        ([event(), event()], Clock(), "twice at unknown times"),
        ([event(at_s=1.0), event(at_s=1.2)], Clock(), "twice at 1 s after boot"),
        ([event(at_s=n) for n in range(3)], Clock(), "3 times from 0 to 2 s after boot"),
        (
            [event(at_s=1.0), event(at_s=5.0)],
            Clock(BOOTED_S),
            "twice from 2025-11-28 14:43:21 to 14:43:25 UTC",
        ),
        (
            [event(at_s=1.0), event(at_s=86401.0)],
            Clock(BOOTED_S),
            "twice from 2025-11-28 14:43:21 to 2025-11-29 14:43:21 UTC",
        ),
    ],
)
def test_a_time_is_told_by_the_best_clock_there_is(
    events: list[Event], clock: Clock, said: str
) -> None:
    assert when(EventGroup("xid:79", "", "", events), len(events), clock) == said


@pytest.mark.parametrize(
    ("line", "zone_s"),
    [
        ("[Fri Nov 28 14:02:11 2025] {}", None),
        ("Nov 28 14:02:11 gpu1 kernel: {}", None),
        ("2025-11-28T14:02:11 gpu1 kernel: {}", None),
        ("2025-11-28T14:02:11.250000+01:00 gpu1 kernel: {}", 3600.0),
        ("2025-11-28T14:02:11-0330 gpu1 kernel: {}", -12600.0),
        ("2025-11-28T14:02:11Z gpu1 kernel: {}", 0.0),
        ('{{"__REALTIME_TIMESTAMP":"1764338531000000","MESSAGE":"{}"}}', 0.0),
    ],
)
def test_a_date_has_the_zone_that_its_line_names(line: str, zone_s: float | None) -> None:
    (record,) = parse_lines([line.format(XID.format(pid=1))])
    assert record.wall_s is not None
    assert record.zone_s == zone_s


def process(name: str, pid: int) -> Event:
    return Event("xid", 119, "xid:119", process=name, pid=pid)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([event()], ""),
        ([process("python3", 7)], "python3 (pid 7)"),
        ([process("", 1234)], "pid 1234"),
        ([process("python3", 0)], "python3"),
        ([process("nvidia-smi", n) for n in range(1, 51)], "nvidia-smi (50 processes)"),
        (
            [process("sh", 9), *(process("nvidia-smi", n) for n in range(1, 3))],
            "nvidia-smi (2 processes) and sh (pid 9)",
        ),
        (
            [process(name, 1) for name in "abcde"],
            "a (pid 1), b (pid 1), c (pid 1) and 2 other programs",
        ),
        (
            [process(name, 1) for name in "abcd"],
            "a (pid 1), b (pid 1), c (pid 1) and 1 other program",
        ),
    ],
)
def test_programs_are_folded_by_name(events: list[Event], said: str) -> None:
    assert programs(events, whole=True) == said


def test_a_storm_is_one_incident_with_its_whole_count(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A log keeps the first and the last lines of a storm; what was left out still counts."""
    lines = (f"[{n / 1000:12.6f}] {XID.format(pid=1000 + n % 50)}\n" for n in range(100_000))
    file = tmp_path / "kern.log.gz"
    file.write_bytes(gzip.compress("".join(lines).encode(), 1))
    with LogFile(str(file)) as log:
        recording = record_log(log)
    (incident,) = read_or(collectors.node(recording).incidents, ())
    assert incident.events == 100_000
    assert incident.when == "100,000 times from 0 to 100 s after boot"
    assert incident.programs == "nvidia-smi (50 or more processes)"
    assert len(incident.processes) == 20
