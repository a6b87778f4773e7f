"""Lines of a kernel log, whatever wrote them, made into records: message, times, and whether the
kernel itself said it.
"""

import re
import time
from collections.abc import Iterable, Iterator

from gpuscan.kernellog import prefixes
from gpuscan.kernellog.prefixes import Head
from gpuscan.kernellog.record import Record

LONGEST = (
    32 * 1024
)  # characters of a line that are read: the kernel's own are shorter than a thousand
MOST_LINES = 64  # of one message
DICTIONARY = re.compile(r" [A-Z][A-Z0-9_]*=")
GAP = re.compile(r"ntk:? [\d ]*messages dropped|callbacks suppressed|Missed \d+ kernel messages")


def records(lines: Iterable[bytes | str], until_s: float | None = None) -> Iterator[Record]:
    """Yield the records of a log in their order, in bounded memory.

    A stamp without a year is of the newest year in which it is not later than *until_s* (Unix time;
    now, if not given).
    """
    return numbered(enumerate(lines, 1), until_s)


def numbered(
    rows: Iterable[tuple[int, bytes | str]], until_s: float | None = None
) -> Iterator[Record]:
    """Do as `records` for lines that bear their numbers, where others between them were left out."""
    until_s = time.time() if until_s is None else until_s
    human_s: float | None = (
        None  # the last full stamp of `dmesg --human`, which holds until the next
    )
    head, first, last, pieces = Head(""), 0, 0, [""]
    for number, raw in rows:
        text = _text(raw)
        found = prefixes.head(text.lstrip(" \t"), until_s) if text else None
        if (
            found is None
            and first
            and number == last + 1
            and text[:1] in (" ", "\t")
            and len(pieces) < MOST_LINES
        ):
            last = number
            if head.transport != "kmsg" or not DICTIONARY.match(text):
                pieces.append(text.strip())
            continue
        if first:
            yield _record(head, first, last, pieces)
        first = 0
        if not text.strip():
            continue
        head = prefixes.bare(text.strip()) if found is None else found
        human_s = head.wall_s if head.transport == "human" else human_s
        head = head._replace(wall_s=human_s) if head.transport == "delta" else head
        first, last, pieces = number, number, [head.message]
    if first:
        yield _record(head, first, last, pieces)


def _record(head: Head, first: int, last: int, pieces: list[str]) -> Record:
    message = "\n".join(piece for piece in pieces if piece).rstrip()
    return Record(message, head.at_s, head.wall_s, head.kernel, first, head.transport, last)


def _text(raw: bytes | str) -> str:
    """Return a line as text; bytes that are no UTF-8 survive as surrogates, those of a crash's
    empty blocks go.
    """
    text = (
        raw[:LONGEST].decode("utf-8", "surrogateescape")
        if isinstance(raw, bytes)
        else raw[:LONGEST]
    )
    text = text.rstrip("\r\n\0").lstrip("\0\ufeff")
    return prefixes.COLOUR.sub("", text) if "\x1b" in text else text


def is_gap(record: Record) -> bool:
    """Tell whether a record says that others are missing: dropped by the kernel, missed or
    suppressed by a logger.
    """
    return GAP.search(record.message) is not None
