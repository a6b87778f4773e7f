"""Parse the lines of a kernel log, in any format, into records."""

import re
import time
from collections.abc import Iterable, Iterator

from gpuscan.kernellog import prefixes, stamps
from gpuscan.kernellog.prefixes import ParsedLine
from gpuscan.kernellog.record import Record

LONGEST = 32 * 1024  # characters read of a line; the kernel's own are shorter than a thousand
MOST_LINES = 64  # of one message
DICTIONARY = re.compile(r" [A-Z][A-Z0-9_]*=")
GAP = re.compile(r"ntk:? [\d ]*messages dropped|callbacks suppressed|Missed \d+ kernel messages")


def parse_lines(lines: Iterable[bytes | str], until_s: float | None = None) -> Iterator[Record]:
    """Yield the records of a log in their order, in bounded memory.

    A timestamp without a year gets the latest year in which it is not after *until_s* (Unix time,
    by default now).
    """
    return parse_numbered_lines(enumerate(lines, 1), until_s)


def parse_numbered_lines(
    rows: Iterable[tuple[int, bytes | str]], until_s: float | None = None
) -> Iterator[Record]:
    """Do what `parse_lines` does for (number, line) pairs, between which lines may be missing."""
    until_s = time.time() if until_s is None else until_s
    human_s: float | None = None  # the last full timestamp of `dmesg --human`
    zone_s: float | None = None
    head, first, last, pieces = ParsedLine(""), 0, 0, [""]
    for number, raw in rows:
        text = _text(raw)
        parsed = prefixes.parse_line(text.lstrip(" \t"), until_s) if text else None
        indented = text[:1] in (" ", "\t")
        follows = first and number == last + 1 and len(pieces) < MOST_LINES
        if parsed is None and indented and follows:
            last = number
            if head.transport != "kmsg" or not DICTIONARY.match(text):
                pieces.append(text.strip())
            continue
        if first:
            yield _record(head, zone_s, first, last, pieces)
        first = 0
        if not text.strip():
            continue
        head = ParsedLine(text.strip()) if parsed is None else parsed
        zone_s = _zone(head, text)
        if head.transport == "human":
            human_s = head.wall_s
        elif head.transport == "delta":
            head = head._replace(wall_s=human_s)
        first, last, pieces = number, number, [head.message]
    if first:
        yield _record(head, zone_s, first, last, pieces)


def _record(
    head: ParsedLine, zone_s: float | None, first: int, last: int, pieces: list[str]
) -> Record:
    message = "\n".join(piece for piece in pieces if piece).rstrip()
    return Record(
        message,
        head.at_s,
        head.wall_s,
        head.kernel,
        first,
        head.transport,
        last,
        zone_s,
        head.host,
    )


def _zone(head: ParsedLine, text: str) -> float | None:
    """Return how far the clock of a line's date is ahead of UTC, None if it does not say so."""
    if head.wall_s is None:
        return None
    return 0.0 if head.transport == "json" else stamps.zone_of(text)


def _text(raw: bytes | str) -> str:
    """Return a line as text.

    Bytes that are not UTF-8 become surrogates; the zeros that a crash leaves in a file are removed.
    """
    start = raw[:LONGEST]
    text = start.decode("utf-8", "surrogateescape") if isinstance(start, bytes) else start
    text = text.rstrip("\r\n\0").lstrip("\0\ufeff")
    return prefixes.COLOUR.sub("", text) if "\x1b" in text else text


def is_gap(record: Record) -> bool:
    """Return whether a record says that others were dropped by the kernel or by a logger."""
    return GAP.search(record.message) is not None
