"""A log file or pipe, packed or not: grep finds the lines that matter, so that a gigabyte streams
at grep's pace.
"""

import errno
import fcntl
import os
import re
import resource
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO

from gpuscan.errors import RecordingError
from gpuscan.kernellog.needles import PATTERN, is_needed
from gpuscan.live.process import DEVNULL, PIPE, Child, collect_outputs, end_all, start_program
from gpuscan.recording.packed import BLOCK, Damaged, unpack_file

LONGEST = 64 * 1024  # of a line without end the rest is passed over, by the block
SAMPLE = (
    64 * 1024
)  # bytes of the beginning and of the end that tell what kind of log it is, and from when to when
GREP_BYTES = 512 * 1024 * 1024  # of memory: a line without end would cost as much
MOST_PARTS = 4  # of a file that are searched at once
BEGINNING = re.compile(rb"\n[^ \t\n]")
PROBES = 64  # places in a large file where lines of the kernel are looked for
KERNEL_BYTES = 64 * 1024 * 1024  # of a log that tell whether the kernel has its say in it
PIPE_BYTES = 1024 * 1024
OF_KERNEL = (b" kernel:", b'"_TRANSPORT":"kernel"', b'"_TRANSPORT" : "kernel"')
PLACES = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
GREP = ("grep", "-a", "-n", "-B1", "-E", "-e", PATTERN)
# a line of ours behind each part: grep's number of it tells how many lines there were
LAST = b"NVRM: gpuscan has read all"
GREP_ENDS_S = 10.0  # for a grep to end once its output has: it reads from a pipe, and cannot hang
Row = tuple[int, bytes]


class LogFile:
    """One reading of a log: a file's is under way when this is made, so that others may do
    something meanwhile.

    *total*, *head*, *tail*, *kernel*, *cut* and *size* are complete once `rows` has come to its
    end.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = self.size = 0
        self.head = self.tail = b""
        self.kernel = False
        self.cut = ""
        self.file = _opened(name)
        self.searches: list[Child] = []  # a grep for each part of the file
        try:
            self.blocks, plain = unpack_file(self.file, name)
            status = os.fstat(self.file.fileno())
            if plain and stat.S_ISREG(status.st_mode) and status.st_size >= BLOCK:
                self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "LogFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what is under way."""
        self._end_searches()
        self.file.close()

    def _end_searches(self) -> None:
        end_all(self.searches, 0.0)
        for grep in self.searches:
            grep.close()
        self.searches = []

    def rows(self) -> Iterator[Row]:
        """Yield number and bytes of each line that matters, with the line before it; raises
        RecordingError.
        """
        last = 0
        if self.searches:
            try:
                for row in self._of_a_file():
                    last = row[0]
                    yield row
                return
            except TooLong:  # once more, by a way on which no line is too long for grep's memory
                self.file.seek(0)
                self.blocks, _ = unpack_file(self.file, self.name)
                self.total = self.size = 0
        blocks = self._counted(_capped(self.blocks))
        begun = b"".join(_while(blocks, lambda: self.size < BLOCK))
        if self.size < BLOCK or not _has_grep():
            rows = _searched(_lines(_chained(begun, blocks)))
        else:
            rows = self._of_blocks(_chained(begun, blocks))
        yield from (row for row in rows if row[0] > last)

    def _begin(self) -> None:
        """Let a grep on each processor search its part of the file: nothing passes through here
        but what was found.
        """
        number = self.file.fileno()
        self.size = os.fstat(number).st_size
        for start, end in _parts(number, self.size, min(len(os.sched_getaffinity(0)), MOST_PARTS)):
            with suppress(OSError):
                grep = _start_grep()
                self.searches.append(grep)
                resource.prlimit(grep.pid, resource.RLIMIT_AS, (GREP_BYTES, GREP_BYTES))
                pour = (number, start, end, grep.take_stdin())
                threading.Thread(target=_pour, args=pour, daemon=True).start()
        if not self.searches or not _has_grep():
            self._end_searches()

    def _of_a_file(self) -> Iterator[Row]:
        for grep in self.searches:
            last = 0
            for number, line in _found_rows(grep):
                last = number if line == LAST else 0
                if not last:
                    yield self.total + number, line
            if grep.reap(GREP_ENDS_S) not in (0, 1) or not last:
                raise TooLong
            self.total += last - 1
        number, size = self.file.fileno(), self.size
        self.head, self.tail = (
            os.pread(number, SAMPLE, 0),
            os.pread(number, SAMPLE, max(size - SAMPLE, 0)),
        )
        places = range(0, size, max(size // PROBES, BLOCK))
        self.kernel = any(
            word in os.pread(number, BLOCK, place) for place in places for word in OF_KERNEL
        )

    def _counted(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass blocks on, and note what is to be known of the whole; a damaged end is no reason to
        forget the rest.
        """
        end = b"\n"
        try:
            for block in blocks:
                if len(self.head) < SAMPLE:
                    self.head += block[: SAMPLE - len(self.head)]
                self.tail = (
                    block[-SAMPLE:] if len(block) >= SAMPLE else (self.tail + block)[-SAMPLE:]
                )
                if not self.kernel and self.size < KERNEL_BYTES:
                    self.kernel = any(word in block for word in OF_KERNEL)
                self.total += block.count(b"\n")
                self.size += len(block)
                end = block[-1:]
                yield block
        except Damaged as error:
            if not self.size:
                raise RecordingError(f"{self.name}: {error}; copy or record it again") from None
            self.cut = str(error)
        self.total += end != b"\n"

    def _of_blocks(self, blocks: Iterable[bytes]) -> Iterator[Row]:
        """Let grep search what a thread gives it."""
        grep = _start_grep()
        errors: list[Exception] = []
        feeder = threading.Thread(
            target=_feed, args=(blocks, grep.take_stdin(), grep, errors), daemon=True
        )
        feeder.start()
        try:
            yield from _found_rows(grep)
            feeder.join()
            code = grep.reap(GREP_ENDS_S)
        finally:
            grep.end()
        if errors:
            raise errors[0]
        if code not in (0, 1):
            raise RecordingError(
                f"{self.name}: the search in it ended with {code}: read it in smaller pieces"
            )


class TooLong(Exception):
    """A line that would cost grep too much memory."""


def _parts(number: int, size: int, most: int) -> Iterator[tuple[int, int]]:
    """Split a file at beginnings of lines that no line before them needs."""
    start = 0
    for part in range(1, most + 1):
        end = size if part == most else max(start, _line_after(number, size * part // most, size))
        if end > start:
            yield start, end
        start = end


def _line_after(number: int, place: int, size: int) -> int:
    block = os.pread(number, BLOCK, place)
    hit = BEGINNING.search(block)
    return place + hit.end() - 1 if hit else size


def _start_grep() -> Child:
    """Start a grep that searches its standard input; raises OSError."""
    return start_program(GREP, PLACES, stdin=PIPE, stderr=DEVNULL, own_group=False)


def _found_rows(grep: Child) -> Iterator[Row]:
    with open(grep.stdout, "rb", closefd=False) as lines:
        yield from filter(None, map(_row, lines))


def _pour(number: int, start: int, end: int, pipe: int) -> None:
    """Write a part of a file to grep, and our own line behind it; the kernel moves the bytes where
    it can.
    """
    with open(pipe, "wb", buffering=0) as into, suppress(OSError):
        # OSError: grep has ended, and without our line the part counts as incomplete
        _enlarge(pipe)
        while start < end and (moved := _move(number, pipe, min(end - start, PIPE_BYTES), start)):
            start += moved
        ends = start > 0 and os.pread(number, 1, start - 1) == b"\n"
        into.write((b"" if ends else b"\n") + LAST + b"\n")


def _enlarge(pipe: int) -> None:
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _move(number: int, into: int, most: int, start: int) -> int:
    try:
        return os.splice(number, into, most, offset_src=start)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        data = os.pread(number, most, start)  # a file system that cannot do it
        return os.write(into, data) if data else 0


def _feed(blocks: Iterable[bytes], pipe: int, grep: Child, errors: list[Exception]) -> None:
    """Write the blocks to grep."""
    try:
        _enlarge(pipe)
        with suppress(BrokenPipeError), open(pipe, "wb") as into:  # grep has ended
            for block in blocks:
                into.write(block)
    except Exception as error:  # it is raised where the lines are read  # noqa: BLE001
        errors.append(error)
        grep.signal(signal.SIGKILL)


def _row(line: bytes) -> Row | None:
    """Take grep's number off a line: `12:` before one that was found, `11-` before its neighbour."""
    end = 0
    while line[end : end + 1].isdigit():
        end += 1
    return (
        (int(line[:end]), line[end + 1 :].removesuffix(b"\n")) if end else None
    )  # `--` stands between


def _has_grep() -> bool:
    """Return whether a grep is installed that reads binary files as text: busybox's does not."""
    try:
        grep = _start_grep()
        try:
            with open(grep.take_stdin(), "wb", buffering=0) as into:
                into.write(b"a\nNVRM \0\n")
            stdout, _ = collect_outputs(grep, GREP_ENDS_S, (BLOCK, 0))
        finally:
            grep.end()
    except OSError:
        return False
    return stdout == b"1-a\n2:NVRM \0\n"


def _searched(lines: Iterable[bytes]) -> Iterator[Row]:
    """Do as grep does."""
    before, given = b"", 0
    for number, line in enumerate(lines, 1):
        if is_needed(line):
            if number > 1 and given < number - 1:
                yield number - 1, before
            yield number, line
            given = number
        before = line


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _while(blocks: Iterator[bytes], wanted: Callable[[], bool]) -> Iterator[bytes]:
    for block in blocks:
        yield block
        if not wanted():
            return


def _chained(first: bytes, blocks: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from blocks


def _capped(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Pass blocks on without the rest of lines that are longer than any log's: a line costs
    memory.
    """
    run = 0
    for block in blocks:
        end = block.rfind(b"\n")
        if run <= LONGEST:
            yield block
        elif end >= 0:
            yield block[block.find(b"\n") :]
        run = len(block) - end - 1 if end >= 0 else run + len(block)


def _opened(name: str) -> BinaryIO:
    try:
        if name == "-":
            return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        return open(name, "rb", buffering=0)
    except (OSError, AttributeError, ValueError) as error:
        raise RecordingError(
            f"{name}: {getattr(error, 'strerror', None) or 'standard input is closed'}"
        ) from None
