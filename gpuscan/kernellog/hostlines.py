"""Kernel messages without a code: their entry in the catalogue (lines.json) and their values."""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from gpuscan import catalogue

LONGEST = 4096  # characters examined: no message of the kernel or the driver is longer
CODED = ("NVRM: Xid (", ": SXid (")  # these have catalogues of their own
# fmt: off
NUMBERS = frozenset((
    "active", "bank", "count", "cpu", "limit", "members", "milliseconds", "minor", "module", "pid",
    "queue", "seconds", "sxid", "watts", "width", "width_max",
))
# fmt: on
HEXADECIMAL = frozenset(("init", "rm"))


class LinePattern(NamedTuple):
    """How an entry is recognised.

    One of *needles* is in the message, *pattern* matches it, and *unless* (if any) does not.
    """

    entry: str
    needles: tuple[str, ...]
    pattern: str
    unless: str


@cache
def line_patterns() -> tuple[LinePattern, ...]:
    """Return how each entry of lines.json is recognised, in the order of the file."""
    return tuple(
        LinePattern(row["id"], _as_tuple(row["needle"]), row["pattern"], row.get("unless", ""))
        for row in catalogue.document("lines")["entries"]
    )


def _as_tuple(needle: str | list[str]) -> tuple[str, ...]:
    return (needle,) if isinstance(needle, str) else tuple(needle)


def match(message: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the id of the message's entry and the values in it, or None.

    *message* has no timestamp, and its lines are joined by newlines. The values, as far as the
    line has them, are `address` (as sysfs writes it), `part`, `severity` (fatal, nonfatal,
    corrected), `process`, integers (`count`, `seconds`, `pid`, `init` and `rm` of RmInitAdapter,
    …) and text. The first entry of lines.json that matches wins. A line with an Xid or SXid
    matches none.

    >>> match("VFS: file-max limit 65536 reached")
    ('limits:file-max', {'limit': 65536})
    >>> match("EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode") is None
    True
    """
    return _match(message[:LONGEST])


@lru_cache(maxsize=256)  # storms repeat their lines
def _match(head: str) -> tuple[str, Mapping[str, Any]] | None:
    if any(word in head for word in CODED):
        return None
    return next(find_matches(head), None)


def find_matches(message: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every entry that a message matches; more than one is an error in the catalogue."""
    for line in _candidates(message):
        hit = _compiled(line.pattern).search(message)
        if hit and not (line.unless and _compiled(line.unless).search(message)):
            yield line.entry, _values(hit)


def _candidates(message: str) -> list[LinePattern]:
    """Return the entries of which a message has a needle, in their order.

    Substring tests: one regular expression of all needles is twice as fast for each message, but
    takes as long to compile as a thousand of these.
    """
    found = [places for needle, places in _places().items() if needle in message]
    if not found:
        return []
    lines = line_patterns()
    return [lines[place] for place in sorted({place for places in found for place in places})]


@cache
def _places() -> dict[str, list[int]]:
    """Return the places in `line_patterns` of the entries that have a needle."""
    places: dict[str, list[int]] = {}
    for place, line in enumerate(line_patterns()):
        for needle in line.needles:
            places.setdefault(needle, []).append(place)
    return places


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _values(hit: re.Match[str]) -> dict[str, Any]:
    """Return the named groups as values.

    `part2` is a second place for `part`: a pattern cannot use one group name twice.
    """
    texts: dict[str, str] = {}
    for group, text in hit.groupdict().items():
        if text is not None:
            texts.setdefault(group.rstrip("0123456789"), text.strip())
    values = {name: _value(name, text) for name, text in texts.items()}
    return {"part": f"CPU {values['cpu']}", **values} if "cpu" in values else values


def _value(name: str, text: str) -> Any:
    if name in NUMBERS and text.isdecimal():
        return int(text)
    if name in HEXADECIMAL:
        return int(text, 16)
    if name == "severity":
        return _severity(text)
    return _address(text) if name == "address" else text


def _severity(text: str) -> str:
    """Return fatal, nonfatal or corrected for any kernel's `Correctable`, `Uncorrected (…)`, …."""
    word = text.lower().replace("-", "")
    if word.startswith(("correct", "info")):
        return "corrected"
    return "nonfatal" if "nonfatal" in word or word == "recoverable" else "fatal"


def _address(text: str) -> str:
    """Return a PCI address as sysfs writes it.

    IOMMU drivers leave out domain 0, and NVIDIA's driver leaves out the function.
    """
    *domain, bus, device = text.lower().split(":")
    number = int(domain[0], 16) if domain else 0
    return f"{number:04x}:{bus}:{device}" + ("" if "." in device else ".0")
