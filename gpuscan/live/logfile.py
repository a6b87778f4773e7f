"""A log file or pipe, packed or not: grep finds the lines that matter, so that a gigabyte streams
at grep's pace.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from gpuscan.errors import RecordingError
from gpuscan.files import open_input
from gpuscan.live import grep
from gpuscan.live.grep import PartIncompleteError, Row
from gpuscan.live.process import Child
from gpuscan.live.watch import TimedFile, shown
from gpuscan.recording.packed import BLOCK, DamagedArchive, unpack_file

LONGEST_BYTES = grep.LONGEST_BYTES  # the rest of a longer line is dropped, block by block
SAMPLE_BYTES = 64 * 1024  # of the beginning and the end: what kind of log, and from when to when
PROBES = 64  # places in a large file where lines of the kernel are looked for
KERNEL_BYTES = 64 * 1024 * 1024  # of a stream in which lines of the kernel are looked for
LONG_LINE = (
    "cut: a line of it is longer than 64 KiB, and what was dropped names the driver or a fault"
)
KERNEL_MARKS = (b" kernel:", b'"_TRANSPORT":"kernel"', b'"_TRANSPORT" : "kernel"')


class LogFile:
    """One reading of a log. The search of a large file begins at once, so that the caller can
    import or compute in the meantime.

    *total* (lines), *head* and *tail* (samples), *kernel* (whether it holds lines of the kernel),
    *cut* (why part of it is missing, or "") and *size* (bytes) are complete once `rows` is
    exhausted. Reading ends after *deadline_s* (None: never).
    """

    def __init__(self, name: str, deadline_s: float | None = None) -> None:
        self.name = name
        self.total = self.size = 0
        self.head = self.tail = b""
        self.kernel = False
        self.cut = ""
        self.file = _open(name)
        self.timed = TimedFile(self.file, deadline_s)
        self.searches: list[Child] = []  # a grep for each part of a large file
        self.moved: list[int] = []  # bytes that each of them was given
        try:
            self.blocks, plain = unpack_file(self.timed, name)
            status = os.fstat(self.file.fileno())
            is_file = stat.S_ISREG(status.st_mode)
            self.file_size = status.st_size if plain and is_file else 0  # 0: not known
            if self.file_size >= BLOCK and not _ends_with_cr(self._piece(0)):
                self.size = self.file_size
                self.searches = grep.search_file(self.timed, self.size, self.moved)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "LogFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the searches and close the file."""
        for search in self.searches:
            search.end()
        self.searches = []
        self.file.close()

    def rows(self) -> Iterator[Row]:
        """Yield each line that matters, with the line before it; raises RecordingError."""
        with shown(self.name, self._bytes_read, self.file_size):
            yield from self._all_rows()
        if self.timed.late:
            self.cut = f"not read to its end within {self.timed.deadline_s:g} s (--deadline)"

    def _bytes_read(self) -> int:
        return sum(self.moved) if self.searches else self.size

    def _all_rows(self) -> Iterator[Row]:
        last = 0
        if self.searches:
            self.head = self._piece(0)
            try:
                for row in self._rows_of_parts():
                    last = row[0]
                    yield row
                return
            except PartIncompleteError:
                if self.timed.late:
                    return
                # read it once more, with long lines cut
                self.searches = []
                self.file.seek(0)
                self.blocks, _ = unpack_file(self.timed, self.name)
        yield from (row for row in self._rows_of_stream() if row[0] > last)

    def _piece(self, position: int) -> bytes:
        return os.pread(self.file.fileno(), SAMPLE_BYTES, position)

    def _rows_of_parts(self) -> Iterator[Row]:
        for search in self.searches:
            lines_before = self.total
            for number, line in grep.part_rows(search, self._note_cut):
                if line == grep.LAST:
                    self.total = lines_before + number - 1
                else:
                    yield lines_before + number, line
        descriptor, size = self.file.fileno(), self.size
        self.tail = self._piece(max(size - SAMPLE_BYTES, 0))
        probes = range(0, size, max(size // PROBES, BLOCK))
        self.kernel = any(_has_kernel(os.pread(descriptor, BLOCK, probe)) for probe in probes)

    def _note_cut(self) -> None:
        self.cut = self.cut or LONG_LINE

    def _rows_of_stream(self) -> Iterator[Row]:
        self.total = self.size = 0
        blocks = self._measure(self._cut_long_lines(_end_lines(self.blocks)))
        first: list[bytes] = []
        while self.size < BLOCK and (block := next(blocks, b"")):
            first.append(block)
        if self.size < BLOCK or not grep.has_grep():
            yield from grep.search_lines(_lines(_chain(first, blocks)))
            return
        try:
            yield from grep.search_blocks(_chain(first, blocks))
        except PartIncompleteError:
            raise RecordingError(
                f"{self.name}: grep failed in it: read it in smaller pieces"
            ) from None

    def _measure(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass blocks on while counting and sampling them. What was read before a damaged end
        still counts.
        """
        end = b"\n"
        try:
            for block in blocks:
                self.head += block[: SAMPLE_BYTES - len(self.head)]
                self.tail = (self.tail + block[-SAMPLE_BYTES:])[-SAMPLE_BYTES:]
                if not self.kernel and self.size < KERNEL_BYTES:
                    self.kernel = _has_kernel(block)
                self.total += block.count(b"\n")
                self.size += len(block)
                end = block[-1:]
                yield block
        except DamagedArchive as error:
            if not self.size and not self.timed.late:
                raise RecordingError(f"{self.name}: {error}; copy or record it again") from None
            self.cut = str(error)
        self.total += end != b"\n"

    def _cut_long_lines(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass blocks on, without the rest of lines that are longer than any log's: a line costs
        memory. What is dropped may not name a fault.
        """
        run, dropped = 0, b""
        for block in blocks:
            end = block.rfind(b"\n")
            if run <= LONGEST_BYTES:
                yield block
            else:
                rest = block if end < 0 else block[: block.find(b"\n")]
                if not self.cut and grep.may_matter(dropped + rest):
                    self.cut = LONG_LINE
                dropped = rest[-grep.LONGEST_MARK :]
                if end >= 0:
                    yield block[block.find(b"\n") :]
            run = len(block) - end - 1 if end >= 0 else run + len(block)


def _has_kernel(block: bytes) -> bool:
    return any(mark in block for mark in KERNEL_MARKS)


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _chain(first: Iterable[bytes], blocks: Iterable[bytes]) -> Iterator[bytes]:
    yield from first
    yield from blocks


def _ends_with_cr(head: bytes) -> bool:
    """Return whether lines end as on old Macs and some consoles: with a carriage return alone."""
    return b"\r" in head and b"\n" not in head


def _end_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Pass blocks on, with lines that end as they should."""
    first = next(blocks, b"")
    if not _ends_with_cr(first[:SAMPLE_BYTES]):
        yield from _chain([first] if first else [], blocks)
        return
    for block in _chain([first], blocks):
        yield block.replace(b"\r", b"\n")


def _open(name: str) -> BinaryIO:
    try:
        if name == "-":
            return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        return open_input(name)
    except (OSError, AttributeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "standard input is closed"
        raise RecordingError(f"{name}: {reason}") from None
