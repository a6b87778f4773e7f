"""Labels, times and programs of an incident as people read them."""

import time
from collections.abc import Mapping

from gpuscan.incidents.groups import EventGroup
from gpuscan.kernellog.event import Event
from gpuscan.model import Gpu

NAMES = {"xid": "Xid", "sxid": "SXid"}


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


def programs(events: list[Event]) -> tuple[str, ...]:
    """Return the programs that the lines name, each once."""
    return tuple(dict.fromkeys(_program(event) for event in events if event.pid or event.process))


def _program(event: Event) -> str:
    return f"{event.process or '?'} (pid {event.pid})" if event.pid else event.process


def when(group: EventGroup) -> str:
    """Return the time or times of an incident."""
    lines = len(group.events)
    begins, ends = _moment(group.first), _moment(group.last)
    if not begins:
        return f"{lines} lines without a time" if lines > 1 else "at an unknown time"
    if lines == 1:
        return f"at {begins}"
    if begins == ends:
        return f"{lines} lines at {begins}"
    return f"{lines} lines from {begins} to {ends}"


def _moment(event: Event) -> str:
    if event.at_s is not None:
        return f"{event.at_s:.0f} s after boot"
    if event.wall_s is not None:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(event.wall_s))
    return ""
