"""Select the lines of a kernel log that a recording keeps.

They are kept raw, so that a better parser can read them again later.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gpuscan.kernellog import coded
from gpuscan.kernellog.event import Event
from gpuscan.kernellog.events import parse_events, read_events
from gpuscan.kernellog.lines import LONGEST, is_gap, parse_lines, parse_numbered_lines
from gpuscan.kernellog.needles import NEEDLE
from gpuscan.kernellog.prefixes import DATED
from gpuscan.kernellog.record import Record
from gpuscan.kernellog.reports import FRAME

MOST_LINES = 200_000
MOST_ALIKE = 1000  # lines of one event on one part: so many of the first and of the last are kept
BEGINS_S = 60.0  # a log that begins later than this after boot has lost its beginning
CODED_KINDS = ("xid", "sxid")
OTHER = "other"
Row = tuple[int, str]
SUBSYSTEM = re.compile(
    r"(?:NVRM|nvidia[\w-]*|nouveau|mlx\d\w*|pcieport|pci|EDAC|mce|nvme\w*|EXT4-fs|XFS|BTRFS|md\d*"
    r"|ACPI|DMAR|watchdog|rcu)\b(?=.{0,64}: )|INFO: task|BUG: |Linux version \d|\{\d+\}\[Hardware"
    r"|\[Hardware Error\]"
)


class SelectedLines(NamedTuple):
    """The lines that are kept of a log, as (number, text), and what is missing.

    *boots* is the number of boots in the log. *gaps* counts messages that say that others were
    lost, *left_out* lines that were not kept because there were too many alike, and *repeats* those
    of each event and part (`Event.alike`). *kernel* says
    whether the input is a kernel's log, *whole* whether it starts with a boot. *unread* are the
    first lines that name an Xid and were not understood. *hosts* are the nodes that the kernel's
    lines name, in all boots. *earlier* is the number of Xids and SXids in boots that are not kept.
    """

    rows: list[Row]
    boots: int
    gaps: int
    left_out: int
    repeats: list[tuple[str, int]]
    kernel: bool
    whole: bool
    unread: list[Row]
    hosts: tuple[str, ...]
    earlier: int


class KeptRow(NamedTuple):
    """A line that is kept, and the line with the timestamp that it counts from, if it has one.

    `dmesg --human` writes a full timestamp once a minute, and differences from it in between.
    """

    row: Row
    stamp: Row | None


class AlikeRows:
    """Lines of one event on one part: the first, the last, and the number left out in between."""

    def __init__(self) -> None:
        self.first: list[KeptRow] = []
        self.last: deque[KeptRow] = deque(maxlen=MOST_ALIKE)
        self.left_out = 0

    def add(self, row: KeptRow) -> int:
        """Add a line; return by how many the kept lines have grown (0 or 1)."""
        if len(self.first) < MOST_ALIKE:
            self.first.append(row)
            return 1
        full = len(self.last) == MOST_ALIKE
        self.left_out += full
        self.last.append(row)
        return int(not full)

    def drop_before(self, line: int) -> None:
        """Drop what comes before a line."""
        self.first = [kept for kept in self.first if kept.row[0] >= line]
        self.last = deque((kept for kept in self.last if kept.row[0] >= line), MOST_ALIKE)
        self.left_out = 0 if not self.first else self.left_out

    def rows(self) -> Iterator[Row]:
        """Yield the kept lines and their timestamps' lines, which may come more than once."""
        for kept in (*self.first, *self.last):
            yield kept.row
            if kept.stamp is not None:
                yield kept.stamp


class LineSelector:
    """Keeps the raw lines of relevant records while these pass through to become events."""

    def __init__(self, *, since_s: float = 0.0) -> None:
        self.since_s = since_s
        self.pending: deque[Row] = deque()
        self.alike: dict[str, AlikeRows] = {}
        self.count = self.left_out = 0
        self.gaps: list[int] = []
        self.kernel = False
        self.unread: list[Row] = []
        self.hosts: dict[str, None] = {}
        self.stamp: Row | None = None  # the last line with a full timestamp of `dmesg --human`

    def pass_rows(self, rows: Iterable[tuple[int, bytes]]) -> Iterator[Row]:
        """Yield the lines as text, and remember each until its record comes."""
        for number, raw in rows:
            row = (number, raw.decode("utf-8", "surrogateescape"))
            self.pending.append(row)
            yield row

    def pass_records(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records, and keep the lines of those that are relevant."""
        for record in records:
            while self.pending and self.pending[0][0] < record.line:
                self.pending.popleft()
            own = []
            while self.pending and self.pending[0][0] <= record.end:
                own.append(self.pending.popleft())
            if record.transport == "human" and own:
                self.stamp = own[0]
            if record.wall_s is not None and record.wall_s < self.since_s:
                continue
            self.kernel = self.kernel or is_of_kernel(record)
            events = parse_events(record)
            if events:
                self.kernel = True
            elif coded.names_code(record):
                self._note_unread(record, own)
            if record.kernel or record.transport == "fm":
                self._keep(record, own, events)
            yield record

    def _note_unread(self, record: Record, own: list[Row]) -> None:
        """Note a line that names a code and is no event: a program's quotation, or not understood.

        A log in which programs quote the kernel is understood, though none of it is the kernel's.
        """
        if coded.is_quotation(record):
            self.kernel = self.kernel or coded.is_by_program(record)
        elif len(self.unread) < MOST_ALIKE:
            self.unread += own[:1]

    def _keep(self, record: Record, own: list[Row], events: list[Event]) -> None:
        gap = is_gap(record)
        if not gap and not NEEDLE.search(record.message):
            return
        if record.kernel and len(self.hosts) < MOST_ALIKE:
            self.hosts[record.host] = None
        if gap and len(self.gaps) < MOST_ALIKE:
            self.gaps.append(record.line)
        name = _name(record, events, gap=gap)
        if self.count >= MOST_LINES and name not in self.alike:
            self.left_out += len(own)
            return
        alike = self.alike.setdefault(name, AlikeRows())
        stamp = self.stamp if record.transport == "delta" else None
        for row in own:
            self.count += alike.add(KeptRow(row, stamp))

    def drop_before(self, line: int) -> None:
        """Drop what comes before a boot."""
        for alike in self.alike.values():
            alike.drop_before(line)
        self.alike = {name: rows for name, rows in self.alike.items() if rows.first or rows.last}
        self.count = sum(len(rows.first) + len(rows.last) for rows in self.alike.values())
        self.gaps = [gap for gap in self.gaps if gap >= line]
        self.unread = [row for row in self.unread if row[0] >= line]


def _name(record: Record, events: list[Event], *, gap: bool) -> str:
    """Return what a record's lines are alike in: its event and part, or its kind."""
    if events:
        return events[0].alike
    if gap:
        return "gap"
    if FRAME.search(record.message):
        return "frame"
    if record.message.startswith(("sd ", "scsi ", "usb ")):
        return "media"
    return "NVRM" if record.message.startswith("NVRM:") else OTHER


def is_of_kernel(record: Record) -> bool:
    """Return whether a record shows that the input is a kernel's log, or a Fabric Manager's.

    Its transport shows it; a line that has no prefix or only a date must begin with a kernel
    subsystem.
    """
    if not record.kernel:
        return record.transport == "fm"
    return record.transport not in ("bare", DATED) or SUBSYSTEM.match(record.message) is not None


def count_kernel_lines(lines: Iterable[bytes | str]) -> int:
    """Return how many lines are the kernel's or the Fabric Manager's."""
    return sum(is_of_kernel(record) for record in parse_lines(lines))


def select_lines(
    rows: Iterable[tuple[int, bytes]],
    *,
    current: bool = True,
    until_s: float | None = None,
    since_s: float = 0.0,
) -> SelectedLines:
    """Read numbered lines to their end and select those to keep, of the *current* boot or of all.

    Records before *since_s* (Unix time) are ignored.
    """
    selector = LineSelector(since_s=since_s)
    numbered = selector.pass_rows(rows)
    records = selector.pass_records(parse_numbered_lines(numbered, until_s))
    seen = earlier = 0  # Xids and SXids in this boot, and in those that are not kept
    boots, before = 0, False  # *before*: there are events before the first boot
    for event in read_events(records):
        if event.kind != "boot":
            before = before or boots == 0
            seen += event.kind in CODED_KINDS
            continue
        boots += 1
        if current:
            earlier, seen = earlier + seen, 0
            selector.drop_before(event.line)
    groups = selector.alike.values()
    return SelectedLines(
        rows=sorted({row for rows in groups for row in rows.rows()}),
        boots=max(boots + before, 1),
        gaps=len(selector.gaps),
        left_out=selector.left_out + sum(rows.left_out for rows in groups),
        repeats=[
            (name, rows.left_out)
            for name, rows in selector.alike.items()
            if rows.left_out and " " in name
        ],
        kernel=selector.kernel,
        whole=bool(boots) and (current or not before),
        unread=selector.unread,
        hosts=tuple(filter(None, selector.hosts)),
        earlier=earlier,
    )


def reading_value(
    selected: SelectedLines,
    total: int,
    head: Iterable[bytes],
    tail: Iterable[bytes],
    *,
    until_s: float | None = None,
) -> dict[str, Any]:
    """Return the value of a `log:` reading: the selected lines and what is known of the log.

    *total* is the log's number of lines; *head* and *tail* are lines of its beginning and end.
    """
    first, last = _end(head, until_s, last=False), _end(tail, until_s, last=True)
    begins = first.at_s is not None and first.at_s < BEGINS_S
    unread = [[number, text[:LONGEST].strip()] for number, text in selected.unread]
    return {
        "lines": [[number, text[:LONGEST].rstrip("\r\n")] for number, text in selected.rows],
        "total_lines": total,
        "first": [first.at_s, first.wall_s],
        "last": [last.at_s, last.wall_s],
        "boots": selected.boots,
        "gaps": selected.gaps,
        "left_out": selected.left_out,
        "whole": selected.whole or (begins and selected.boots == 1),
        "kernel": selected.kernel or first.kernel or last.kernel,
        **({"repeats": [list(one) for one in selected.repeats]} if selected.repeats else {}),
        **({"unread": unread} if unread else {}),
        **({"earlier": selected.earlier} if selected.earlier else {}),
    }


class LogEnd(NamedTuple):
    """The first or last timestamp of a log, and whether the kernel's lines are near it."""

    at_s: float | None = None
    wall_s: float | None = None
    kernel: bool = False


def _end(lines: Iterable[bytes], until_s: float | None, *, last: bool) -> LogEnd:
    end = LogEnd()
    for record in parse_lines(lines, until_s):
        end = end._replace(kernel=end.kernel or is_of_kernel(record))
        stamped = record.at_s is not None or record.wall_s is not None
        if stamped and (last or (end.at_s, end.wall_s) == (None, None)):
            end = end._replace(at_s=record.at_s, wall_s=record.wall_s)
    return end
