"""Labels, times and programs of an incident as people read them."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuscan.durations import is_date
from gpuscan.incidents.groups import EventGroup
from gpuscan.kernellog.event import Event
from gpuscan.model import Gpu

NAMES = {"xid": "Xid", "sxid": "SXid"}
MOST_NAMES = 3  # of programs, in a sentence
MOST_LISTED = 20  # programs with their process IDs, in data


class Clock(NamedTuple):
    """When the node was booted (Unix time, 0.0 if unknown), and how many seconds its own clock is
    ahead of UTC, None if unknown.
    """

    booted_s: float = 0.0
    zone_s: float | None = None


class _Moment(NamedTuple):
    """A time as people read it: date and clock, or a number; what stands behind it."""

    date: str
    clock: str
    unit: str

    def __str__(self) -> str:
        return " ".join(filter(None, self))


def label(group: EventGroup, gpus: Mapping[str, Gpu]) -> str:
    """Return the name of an incident: `Xid 79 on SXM4`, `oom node`, ….

    It is for people only: code, entry and address are fields of the incident.
    """
    first, gpu = group.first, gpus.get(group.address)
    where = gpu.label if gpu else group.address or group.part
    if first.kind in NAMES:
        what = f"{NAMES[first.kind]} {first.code}"
        what += f" after {first.cause}" if first.cause else ""
    else:
        what = group.entry.replace(":", " ", 1)
    return f"{what} on {where}" if where else what


def listed_programs(events: Sequence[Event]) -> tuple[str, ...]:
    """Return the first programs that the lines name, each once, with their process IDs."""
    named = dict.fromkeys(_program(event) for event in events if event.pid or event.process)
    return tuple(named)[:MOST_LISTED]


def _program(event: Event) -> str:
    if event.pid and event.process:
        return f"{event.process} (pid {event.pid})"
    return event.process or f"pid {event.pid}"


def programs(events: Sequence[Event], *, whole: bool) -> str:
    """Return the programs in words, those with most processes first: `nvidia-smi (50 processes)`.

    Unless the lines are *whole*, others that were left out may name further processes.
    """
    ids: dict[str, set[int]] = {}
    for event in events:
        if event.pid or event.process:
            ids.setdefault(event.process, set()).add(event.pid)
    if not ids:
        return ""
    ranked = sorted(ids, key=lambda name: -len(ids[name]))
    told = [_processes(name, ids[name], whole=whole) for name in ranked[:MOST_NAMES]]
    if len(ranked) > MOST_NAMES:
        others = len(ranked) - MOST_NAMES
        told.append(f"{others} other program{'s' if others > 1 else ''}")
    *most, last = told
    return f"{', '.join(most)} and {last}" if most else last


def _processes(name: str, pids: set[int], *, whole: bool) -> str:
    if len(pids) == 1:
        pid = min(pids)
        if not name:
            return f"pid {pid}"
        return f"{name} (pid {pid})" if pid else name
    more = "" if whole else " or more"
    return f"{name or 'unnamed programs'} ({len(pids):,}{more} processes)"


def when(group: EventGroup, lines: int, clock: Clock) -> str:
    """Return the time or times of an incident, of which the log has so many *lines*."""
    first, last = _moment(group.first, clock), _moment(group.last, clock)
    if first is None or last is None:
        return f"{_times(lines)} at unknown times" if lines > 1 else "at an unknown time"
    if lines == 1:
        return f"at {first}"
    if first == last:
        return f"{_times(lines)} at {first}"
    if first.unit == last.unit:
        first = first._replace(unit="")
        last = last._replace(date="" if first.date == last.date else last.date)
    return f"{_times(lines)} from {first} to {last}"


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count:,} times"


def _moment(event: Event, clock: Clock) -> _Moment | None:
    """Return a time by the clock of the line, else of the node, else in seconds since boot.

    A line without a zone has its host's local time.
    """
    if event.wall_s is not None and is_date(event.wall_s):
        return _dated(event.wall_s, event.zone_s)
    if event.at_s is None:
        return None
    if clock.booted_s and is_date(clock.booted_s + event.at_s):
        return _dated(clock.booted_s + event.at_s, clock.zone_s or 0.0)
    return _Moment("", f"{event.at_s:.0f}", "s after boot")


def _dated(unix_s: float, zone_s: float | None) -> _Moment:
    local = time.gmtime(unix_s + (zone_s or 0.0))
    return _Moment(
        time.strftime("%Y-%m-%d", local), time.strftime("%H:%M:%S", local), _zone(zone_s)
    )


def _zone(zone_s: float | None) -> str:
    if not zone_s:
        return "" if zone_s is None else "UTC"
    hours, minutes = divmod(round(abs(zone_s) / 60), 60)
    return f"{'-' if zone_s < 0 else '+'}{hours:02d}:{minutes:02d}"
