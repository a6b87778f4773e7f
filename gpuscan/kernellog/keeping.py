"""What is kept of a kernel log in a recording: the raw lines that matter, so that a better parser
reads them again.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gpuscan.kernellog.events import events, told
from gpuscan.kernellog.lines import LONGEST, is_gap, numbered, records
from gpuscan.kernellog.needles import NEEDLE
from gpuscan.kernellog.record import Record

MOST_LINES = 200_000
MOST_ALIKE = (
    1000  # lines that tell the same of the same part: as many of the first and of the last are kept
)
BEGINS_S = 60.0  # a log that begins later than this after boot has lost its beginning
OTHER = "other"
Row = tuple[int, str]


class Kept(NamedTuple):
    """What a reading of a log came to: *rows* are (line, text); *gaps* and *left_out* count what
    they lack.
    """

    rows: list[Row]
    boots: int
    gaps: int
    left_out: int
    kernel: bool
    whole: bool


class Shelf:
    """Rows that tell the same: the first ones, the last ones, and how many between them were left
    out.
    """

    def __init__(self) -> None:
        self.first: list[Row] = []
        self.last: deque[Row] = deque(maxlen=MOST_ALIKE)
        self.left_out = 0

    def add(self, row: Row) -> int:
        """Put a row there; return by how many the rows have grown."""
        if len(self.first) < MOST_ALIKE:
            self.first.append(row)
            return 1
        full = len(self.last) == MOST_ALIKE
        self.left_out += full
        self.last.append(row)
        return int(not full)

    def since(self, line: int) -> None:
        """Forget what stands before a line."""
        self.first = [row for row in self.first if row[0] >= line]
        self.last = deque((row for row in self.last if row[0] >= line), MOST_ALIKE)
        self.left_out = 0 if not self.first else self.left_out


class Keeper:
    """Takes a log's records on their way to becoming events, and keeps the raw lines of those that
    matter.
    """

    def __init__(self, *, since_s: float = 0.0) -> None:
        self.since_s = since_s
        self.pending: deque[Row] = deque()
        self.shelves: dict[str, Shelf] = {}
        self.number = self.left_out = 0
        self.gaps: list[int] = []
        self.kernel = False

    def rows(self, rows: Iterable[tuple[int, bytes]]) -> Iterator[Row]:
        """Pass the lines on as text, and remember each until its record comes."""
        for number, raw in rows:
            row = (number, raw.decode("utf-8", "surrogateescape"))
            self.pending.append(row)
            yield row

    def records(self, records: Iterable[Record]) -> Iterator[Record]:
        """Pass the records on, and keep the lines of those that matter."""
        for record in records:
            while self.pending and self.pending[0][0] < record.line:
                self.pending.popleft()
            own = []
            while self.pending and self.pending[0][0] <= record.end:
                own.append(self.pending.popleft())
            if record.wall_s is not None and record.wall_s < self.since_s:
                continue
            self.kernel = self.kernel or (record.kernel and is_of_kernel(record))
            if record.kernel or record.transport == "fm":
                self._keep(record, own)
            yield record

    def _keep(self, record: Record, own: list[Row]) -> None:
        gap = is_gap(record)
        if not gap and not NEEDLE.search(record.message):
            return
        if gap and len(self.gaps) < MOST_ALIKE:
            self.gaps.append(record.line)
        found = told(record)
        names = [f"{one.entry} {one.address} {one.part}" for one in found] or [
            "gap" if gap else _family(record)
        ]
        if self.number >= MOST_LINES and names[0] not in self.shelves:
            self.left_out += len(own)
            return
        shelf = self.shelves.setdefault(names[0], Shelf())
        for row in own:
            self.number += shelf.add(row)

    def since(self, line: int) -> None:
        """Forget what stands before a boot."""
        for shelf in self.shelves.values():
            shelf.since(line)
        self.shelves = {
            name: shelf for name, shelf in self.shelves.items() if shelf.first or shelf.last
        }
        self.number = sum(len(shelf.first) + len(shelf.last) for shelf in self.shelves.values())
        self.gaps = [gap for gap in self.gaps if gap >= line]


def _family(record: Record) -> str:
    return "NVRM" if record.message.startswith("NVRM:") else OTHER


SUBSYSTEM = re.compile(
    r"(?:NVRM|nvidia[\w-]*|nouveau|mlx\d\w*|pcieport|pci|EDAC|mce|nvme\w*|EXT4-fs|XFS|BTRFS|md\d*|ACPI|DMAR|watchdog|rcu)\b"
    r"|INFO: task|BUG: |Linux version \d|\{\d+\}\[Hardware|\[Hardware Error\]"
)


def is_of_kernel(record: Record) -> bool:
    """Tell whether a record shows that the input is a kernel's log: by its transport, a line
    without prefix by its words.
    """
    return record.kernel and (
        record.transport != "bare" or SUBSYSTEM.match(record.message) is not None
    )


def kept(
    rows: Iterable[tuple[int, bytes]],
    *,
    current: bool = True,
    until_s: float | None = None,
    since_s: float = 0.0,
) -> Kept:
    """Read numbered lines to their end and return what is to be kept: of the current boot, or of
    all.
    """
    keeper = Keeper(since_s=since_s)
    boots, first_boot, before = 0, 0, False
    for event in events(keeper.records(numbered(keeper.rows(rows), until_s))):
        if event.kind != "boot":
            before = before or boots == 0
            continue
        boots += 1
        first_boot = first_boot or event.line
        if current:
            keeper.since(event.line)
    lines = sorted(row for shelf in keeper.shelves.values() for row in (*shelf.first, *shelf.last))
    left_out = keeper.left_out + sum(shelf.left_out for shelf in keeper.shelves.values())
    return Kept(
        lines,
        max(boots + before, 1),
        len(keeper.gaps),
        left_out,
        keeper.kernel,
        bool(boots) and (current or not before),
    )


def value_of(
    found: Kept,
    total: int,
    head: Iterable[bytes],
    tail: Iterable[bytes],
    *,
    until_s: float | None = None,
) -> dict[str, Any]:
    """Return what is kept as the value of a reading; *head* and *tail* are lines of the log's
    beginning and end.
    """
    first, last = _end(head, until_s, last=False), _end(tail, until_s, last=True)
    begins = first.at_s is not None and first.at_s < BEGINS_S
    return {
        "lines": [[number, text[:LONGEST].rstrip("\r\n")] for number, text in found.rows],
        "total_lines": total,
        "first": [first.at_s, first.wall_s],
        "last": [last.at_s, last.wall_s],
        "boots": found.boots,
        "gaps": found.gaps,
        "left_out": found.left_out,
        "whole": found.whole or (begins and found.boots == 1),
        "kernel": found.kernel or first.kernel or last.kernel,
    }


class End(NamedTuple):
    """The first or the last stamp of a log, and whether lines of the kernel are near it."""

    at_s: float | None = None
    wall_s: float | None = None
    kernel: bool = False


def _end(lines: Iterable[bytes], until_s: float | None, *, last: bool) -> End:
    end = End()
    for record in records(lines, until_s):
        end = end._replace(kernel=end.kernel or (record.kernel and is_of_kernel(record)))
        stamped = record.at_s is not None or record.wall_s is not None
        if stamped and (last or (end.at_s, end.wall_s) == (None, None)):
            end = end._replace(at_s=record.at_s, wall_s=record.wall_s)
    return end
