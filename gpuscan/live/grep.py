"""grep as a child process finds the lines of a log that matter, several times as fast as Python."""

import errno
import fcntl
import os
import re
import resource
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import IO

from gpuscan.kernellog.needles import PATTERN, is_needed
from gpuscan.live.command import collect_outputs
from gpuscan.live.process import DEVNULL, PIPE, Child, start_program
from gpuscan.live.watch import TimedFile
from gpuscan.recording.packed import BLOCK

GREP = ("grep", "-a", "-n", "-B1", "-E", "-e", PATTERN)
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
LONGEST_BYTES = 64 * 1024  # of a line that are looked at
# what no line beyond that may name unseen: it would be a fault that nobody judged
MARKS = (
    b"NVRM",
    b"nvidia",
    b"Xid",
    b"rror",
    b"EDAC",
    b"mlx5_",
    b"BUG",
    b"panic",
    b"LOCKUP",
    b"AER",
)
LONGEST_MARK = max(map(len, MARKS))
MOST_MEMORY_BYTES = 64 * 1024 * 1024  # a line without end would cost as much as it is long
MOST_PARTS = 4  # of a file that are searched at once
ENDS_S = 10.0  # for a grep to end once its output has: it reads from a pipe, and cannot hang
PIPE_BYTES = 1024 * 1024
LINE_START = re.compile(rb"\n[^ \t\n]")
# a line of ours behind each part: its number says how many lines the part has
LAST = b"NVRM: gpuscan has read all"
Row = tuple[int, bytes]  # line number, from 1, and the line without its end


class PartIncompleteError(Exception):
    """A grep did not reach the end of its part: a line was too long for its memory."""


def may_matter(text: bytes) -> bool:
    """Return whether the rest of a long line names the driver or a fault."""
    return any(mark in text for mark in MARKS)


def search_file(file: TimedFile, size: int, moved: list[int]) -> list[Child]:
    """Start a grep per CPU, each on its part of a file; return none where grep cannot be used.

    *moved* gets the number of bytes that each has been given so far.
    """
    searches: list[Child] = []
    descriptor = file.file.fileno()
    try:
        cpus = len(os.sched_getaffinity(0))
        for begin, end in _parts(descriptor, size, min(cpus, MOST_PARTS)):
            grep = _start_grep()
            searches.append(grep)
            resource.prlimit(grep.pid, resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
            moved.append(0)
            pour = (file, begin, end, grep.take_stdin(), moved, len(moved) - 1)
            threading.Thread(target=_pour, args=pour, daemon=True).start()
        if has_grep():
            return searches
    except OSError:
        pass  # a part that is not searched would be lost: all or none
    for grep in searches:
        grep.end()
    return []


def part_rows(grep: Child, note_cut: Callable[[], None]) -> Iterator[Row]:
    """Yield the rows of one part, and last its number of lines with `LAST`; raises
    PartIncompleteError. *note_cut* is called where what matters of a long line was dropped.
    """
    row = (0, b"")
    for row in _found_rows(grep, note_cut):
        yield row
    if grep.reap(ENDS_S) not in (0, 1) or row[1] != LAST:
        raise PartIncompleteError


def search_blocks(blocks: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows that one grep finds in these blocks, which a thread feeds to it.

    Raises what the blocks raise, and PartIncompleteError where grep failed.
    """
    grep = _start_grep()
    errors: list[Exception] = []
    feed = (blocks, grep.take_stdin(), grep, errors)
    feeder = threading.Thread(target=_feed, args=feed, daemon=True)
    feeder.start()
    try:
        yield from _found_rows(grep)
        feeder.join()
        code = grep.reap(ENDS_S)
    finally:
        grep.end()
    if errors:
        raise errors[0]
    if code not in (0, 1):
        raise PartIncompleteError


def search_lines(lines: Iterable[bytes]) -> Iterator[Row]:
    """Yield the same rows as grep would: each line that matters, and the line before it."""
    previous, given = b"", 0
    for number, line in enumerate(lines, 1):
        if is_needed(line):
            if number > 1 and given < number - 1:
                yield number - 1, previous
            yield number, line
            given = number
        previous = line


def has_grep() -> bool:
    """Return whether a grep is installed that reads binary files as text: busybox's does not."""
    try:
        grep = _start_grep()
        try:
            with open(grep.take_stdin(), "wb", buffering=0) as into:
                into.write(b"a\nNVRM \0\n")
            stdout, _ = collect_outputs(grep, ENDS_S, (BLOCK, 0))
        finally:
            grep.end()
    except OSError:
        return False
    return stdout == b"1-a\n2:NVRM \0\n"


def _start_grep() -> Child:
    """Start a grep that searches its standard input; raises OSError."""
    return start_program(GREP, ENVIRONMENT, stdin=PIPE, stderr=DEVNULL, own_group=False)


def _found_rows(grep: Child, note_cut: Callable[[], None] | None = None) -> Iterator[Row]:
    with open(grep.stdout, "rb", closefd=False) as lines:
        while line := lines.readline(LONGEST_BYTES):
            if len(line) == LONGEST_BYTES and not line.endswith(b"\n"):
                matters = _drop_rest(lines)
                if matters and note_cut is not None:
                    note_cut()
            row = _parse_row(line)
            if row is not None:
                yield row


def _drop_rest(lines: IO[bytes]) -> bool:
    """Read to the end of a line, and return whether it may matter."""
    matters, end = False, b""
    while piece := lines.readline(LONGEST_BYTES):
        matters = matters or may_matter(end + piece)
        end = piece[-LONGEST_MARK:]
        if piece.endswith(b"\n"):
            break
    return matters


def _parse_row(line: bytes) -> Row | None:
    """Take grep's number off a line: `12:` before a line that matters, `11-` before its neighbour;
    return None for the `--` between groups.
    """
    end = 0
    while line[end : end + 1].isdigit():
        end += 1
    return (int(line[:end]), line[end + 1 :].removesuffix(b"\n")) if end else None


def _parts(descriptor: int, size: int, most: int) -> Iterator[tuple[int, int]]:
    """Split a file where a line begins that does not continue the one before it."""
    begin = 0
    for part in range(1, most + 1):
        end = size
        if part < most:
            end = max(begin, _line_start_after(descriptor, size * part // most, size))
        if end > begin:
            yield begin, end
        begin = end


def _line_start_after(descriptor: int, position: int, size: int) -> int:
    hit = LINE_START.search(os.pread(descriptor, BLOCK, position))
    return position + hit.end() - 1 if hit else size


def _pour(file: TimedFile, begin: int, end: int, pipe: int, given: list[int], part: int) -> None:
    """Write a part of a file to grep, and our own line behind it; the kernel moves the bytes where
    it can.
    """
    descriptor = file.file.fileno()
    with open(pipe, "wb", buffering=0) as into, suppress(OSError):
        # OSError: grep has ended, and without our line the part counts as incomplete
        _enlarge(pipe)
        while begin < end and not file.is_over():
            moved = _move(descriptor, pipe, min(end - begin, PIPE_BYTES), begin)
            if not moved:
                break
            begin += moved
            given[part] += moved
        if file.late:
            return
        ends_line = begin > 0 and os.pread(descriptor, 1, begin - 1) == b"\n"
        into.write((b"" if ends_line else b"\n") + LAST + b"\n")


def _enlarge(pipe: int) -> None:
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _move(descriptor: int, pipe: int, most: int, position: int) -> int:
    try:
        return os.splice(descriptor, pipe, most, offset_src=position)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        data = os.pread(descriptor, most, position)  # the file system does not support splice
        return os.write(pipe, data) if data else 0


def _feed(blocks: Iterable[bytes], pipe: int, grep: Child, errors: list[Exception]) -> None:
    """Write the blocks to grep; an error is raised later, where the rows are read."""
    try:
        _enlarge(pipe)
        with suppress(BrokenPipeError), open(pipe, "wb") as into:  # grep has ended
            for block in blocks:
                into.write(block)
    except Exception as error:  # noqa: BLE001
        errors.append(error)
        grep.signal(signal.SIGKILL)
