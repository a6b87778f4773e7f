"""Merge what belongs together: lines of one notice, lines of one SXid, copies of one line."""

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any

from gpuscan.kernellog.event import Event
from gpuscan.kernellog.record import Record

Pair = tuple[Event, str]  # an event and the transport of its record
EventKey = tuple[str, str, str, str, int, Any]
OPENS = re.compile(
    r"NVRM: (?:The NVIDIA GPU \S+$|API mismatch: |This PCI I/O region"
    r"|The NVIDIA probe routine was not called|This can occur"
    r"|installed in this system is not supported|.* installed in this system is$"
    r"|The NVIDIA GPU \S+ \(PCI ID)"
)
OTHER = re.compile(
    r"NVRM: *(?:Xid\b|GPU\b|loading |Rate |RmInit|rm_|The NVIDIA|API mismatch|This PCI|None of"
    r"|No NVIDIA|\w+: )"
)
APART = 12  # other lines that may stand between the lines of a notice
FURTHER = 5  # further lines of a notice
WINDOW_S, WINDOW_LINES = 1.0, 16  # within which the lines of one SXid come
MOST_WAITING = 4096  # events held back for further lines of an SXid
SAME_S = 2.0  # wall clocks of copies of one line differ by at most this
STAMP_S = 0.01  # and the kernel's own timestamps by at most this
MOST_COPIES = 20_000  # events remembered to recognise copies
MARK_LINES = 200  # between journalctl's boot mark and the kernel's banner
CLOCK_RESET = Event("boot", 0, "boot:time", text="time began anew")


def join_notices(records: Iterable[Record]) -> Iterator[Record]:
    """Join the lines of each driver notice that were logged as records of their own.

    All other records pass in their order; those between the lines of a notice follow it.
    """
    waiting: list[Record] = []  # the notice, then the records that stand between its lines
    joined = 0
    for record in records:
        if waiting and (record.line - waiting[0].line > APART or joined == FURTHER):
            yield from waiting
            waiting, joined = [], 0
        if waiting and _continues(waiting[0], record):
            first = waiting[0]
            waiting[0] = first._replace(message=f"{first.message}\n{record.message}")
            joined += 1
        elif record.kernel and OPENS.match(record.message) and "\n" not in record.message:
            yield from waiting
            waiting, joined = [record], 0
        elif waiting:
            waiting.append(record)
        else:
            yield record
    yield from waiting


def _continues(first: Record, record: Record) -> bool:
    return (
        record.message.startswith("NVRM: ")
        and not OTHER.match(record.message)
        and record.kernel
        and record.transport == first.transport
        and _within(first, record, SAME_S)
    )


def _within(first: Record, second: Record, seconds: float) -> bool:
    """Return whether two records are at most *seconds* apart, True where no clock can tell."""
    for earlier, later in ((first.at_s, second.at_s), (first.wall_s, second.wall_s)):
        if earlier is not None and later is not None:
            return abs(earlier - later) <= seconds
    return True


def merge_sxid_lines(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Merge the lines of one SXid: its report with the `Severity` and `Data` lines around it."""
    waiting: deque[list[Pair]] = deque()  # a list of one pair each, so that it can be replaced
    for event, transport in pairs:
        while waiting and _is_complete(waiting[0][0][0], event, len(waiting)):
            yield waiting.popleft()[0]
        same = []
        if event.kind == "sxid":
            same = [slot for slot in waiting if _is_same_sxid(slot[0], event, transport)]
        if same:
            same[-1][0] = (_merge(same[-1][0][0], event), transport)
        else:
            waiting.append([(event, transport)])
    yield from (slot[0] for slot in waiting)


def _is_complete(oldest: Event, now: Event, waiting: int) -> bool:
    return oldest.kind != "sxid" or waiting > MOST_WAITING or _is_past(oldest, now)


def _is_past(earlier: Event, now: Event) -> bool:
    """Return whether *now* is too late to belong to the SXid of an earlier event."""
    for before, after in ((earlier.at_s, now.at_s), (earlier.wall_s, now.wall_s)):
        if before is not None and after is not None:
            return abs(after - before) > WINDOW_S
    return now.line - earlier.line > WINDOW_LINES


def _is_same_sxid(slot: Pair, event: Event, transport: str) -> bool:
    earlier, way = slot
    before = (earlier.kind, earlier.code, earlier.address, way)
    if before != (event.kind, event.code, event.address, transport) or _is_past(earlier, event):
        return False
    continues = "continues" in earlier.values or "continues" in event.values
    return continues or earlier.values.get("link") == event.values.get("link")


def _merge(earlier: Event, event: Event) -> Event:
    """Return both as one event: the report's text, the values of both, the earlier's place."""
    report = event if "continues" in earlier.values and "continues" not in event.values else earlier
    values = {**event.values, **earlier.values, **report.values}
    data = [*earlier.values.get("data", ()), *event.values.get("data", ())]
    if data:
        values["data"] = data
    if "continues" not in report.values:
        values.pop("continues", None)
    return report._replace(
        severity=report.severity or earlier.severity or event.severity,
        values=values,
        line=earlier.line,
        at_s=earlier.at_s,
        wall_s=earlier.wall_s,
        zone_s=earlier.zone_s,
    )


class RecentEvents:
    """The events seen so far, by their text and by the transports through which they came.

    At most MOST_COPIES are remembered; the oldest are dropped first.
    """

    def __init__(self) -> None:
        self.by_key: OrderedDict[EventKey, dict[frozenset[str], deque[Event]]] = OrderedDict()
        self.count = 0

    def claim_copy(self, key: EventKey, event: Event, transport: str) -> bool:
        """Return whether an event is a copy of one that came through another transport.

        An event stands for one copy from each transport, so a match is used up for this one.
        """
        by_transports = self.by_key.get(key, {})
        for transports, events in by_transports.items():
            if transport in transports:
                continue
            copy = next((earlier for earlier in events if _is_copy(earlier, event)), None)
            if copy is not None:
                events.remove(copy)
                by_transports.setdefault(transports | {transport}, deque()).append(copy)
                return True
        return False

    def add(self, key: EventKey, event: Event, transport: str) -> None:
        """Remember an event that is not a copy."""
        by_transports = self.by_key.setdefault(key, {})
        by_transports.setdefault(frozenset((transport,)), deque()).append(event)
        self.count += 1
        while self.count > MOST_COPIES:
            _, oldest = self.by_key.popitem(last=False)
            self.count -= sum(map(len, oldest.values()))


def _event_key(event: Event) -> EventKey:
    link = event.values.get("link")
    return event.entry, event.address, event.part, event.text, event.pid, link


def drop_copies(pairs: Iterable[Pair]) -> Iterator[Event]:
    """Drop copies of one line that came through another transport.

    Where the seconds since boot start again without a boot in the log, a boot event is added.
    """
    recent, latest_s = RecentEvents(), dict[str, float]()
    boot: Event | None = None  # the last boot, until another event follows it
    for event, transport in pairs:
        key = _event_key(event)
        if recent.claim_copy(key, event, transport):
            continue
        if event.kind == "boot":
            is_same_boot = boot is not None and _is_banner_of(boot, event)
            boot, recent, latest_s = event, RecentEvents(), {}
            recent.add(key, event, transport)
            if not is_same_boot:
                yield event
            continue
        boot = None
        if event.at_s is not None:
            if event.at_s + SAME_S < latest_s.get(transport, 0.0):
                recent, latest_s = RecentEvents(), {}
                yield CLOCK_RESET._replace(wall_s=event.wall_s, line=event.line)
            latest_s[transport] = max(event.at_s, latest_s.get(transport, 0.0))
        recent.add(key, event, transport)
        yield event


def _is_banner_of(boot: Event, event: Event) -> bool:
    """Return whether two boots in a row are one: journalctl's mark precedes the kernel's banner."""
    return boot.entry != "boot:kernel" and event.line - boot.line <= MARK_LINES


def _is_copy(earlier: Event, event: Event) -> bool:
    """Return whether two events with the same text are one.

    The kernel's timestamps decide, else the wall clock, else the text alone; every boot of one
    kernel prints the same banner, so boots need a timestamp.
    """
    if earlier.kind != "boot" and earlier.at_s is not None and event.at_s is not None:
        return abs(earlier.at_s - event.at_s) <= STAMP_S
    if earlier.wall_s is not None and event.wall_s is not None:
        return abs(earlier.wall_s - event.wall_s) <= SAME_S
    return earlier.kind != "boot"
