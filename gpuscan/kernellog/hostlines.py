"""Lines that bear no code: which entry of the catalogue a message is, and what it says."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count
from typing import Any, NamedTuple

# characters that are looked at: the kernel's own messages are shorter than 1024, the driver's
# notices, too
LONGEST = 4096
CODED = ("NVRM: Xid (", ": SXid (")  # these have a number, and a catalogue of their own
NUMBERS = frozenset(
    (
        *(
            "active",
            "bank",
            "count",
            "cpu",
            "limit",
            "members",
            "milliseconds",
            "minor",
            "module",
            "pid",
            "queue",
            "seconds",
        ),
        *("sxid", "watts", "width", "width_max"),
    )
)
HEXADECIMAL = frozenset(("init", "rm"))


class Line(NamedTuple):
    """How an entry is found: one of *needles* is in the message, *pattern* matches it, and
    *unless* (if any) does not.
    """

    entry: str
    needles: tuple[str, ...]
    pattern: str
    unless: str


@cache
def lines() -> tuple[Line, ...]:
    """Return how each entry of lines.json is found, in its order; read when first asked for."""
    from gpuscan.catalogue import document

    rows = document("lines")["entries"]
    return tuple(
        Line(row["id"], _several(row["needle"]), row["pattern"], row.get("unless", ""))
        for row in rows
    )


def _several(needle: str | list[str]) -> tuple[str, ...]:
    return (needle,) if isinstance(needle, str) else tuple(needle)


@cache
def needles() -> tuple[str, ...]:
    """Return the words of which a message must hold one to be any entry's."""
    return tuple(dict.fromkeys(needle for line in lines() for needle in line.needles))


@cache
def _any_needle() -> re.Pattern[str]:
    """Return one pattern for all needles, grouped by first letter: a plain list of them is tried
    at every place.
    """
    groups: dict[str, list[str]] = {}
    for needle in needles():
        groups.setdefault(needle[0], []).append(re.escape(needle[1:]))
    return re.compile(
        "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items())
    )


def match(message: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the entry's id and what the message says, or None; *message* is without stamp, its
    lines joined by a newline.

    Values, where the line has them: `address` (as sysfs writes it), `part`, `severity` (fatal,
    nonfatal, corrected), `process`, numbers as int (`count`, `seconds`, `pid`, and `init` and `rm`
    of RmInitAdapter), the rest as text. The first entry of lines.json that matches wins; lines with
    an Xid or SXid are none.

    >>> match("VFS: file-max limit 65536 reached")
    ('limits:file-max', {'limit': 65536})
    >>> match("EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode") is None
    True
    """
    head = message[:LONGEST]
    if any(word in head for word in CODED) or (_many() and not _any_needle().search(head)):
        return None
    return next(matches(head), None)


_asked = count(1)


def _many() -> bool:
    """Tell whether so many messages were looked at that one pattern for all needles is worth its
    making: as long as 300 of them.
    """
    return next(_asked) > 300


def matches(message: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every entry that a message fits, in the catalogue's order: more than one is a mistake
    of the catalogue.
    """
    for line in lines():
        if any(needle in message for needle in line.needles):
            hit = _compiled(line.pattern).search(message)
            if hit and not (line.unless and _compiled(line.unless).search(message)):
                yield line.entry, _values(hit)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _values(hit: re.Match[str]) -> dict[str, Any]:
    """Return the named groups; `part2` is another place for `part`, since a name may stand only
    once in a pattern.
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
    """Return fatal, nonfatal or corrected; the kernel's words differ by age: `Correctable`,
    `Uncorrected (Non-Fatal)`.
    """
    word = text.lower().replace("-", "")
    if word.startswith(("correct", "info")):
        return "corrected"
    return "nonfatal" if "nonfatal" in word or word == "recoverable" else "fatal"


def _address(text: str) -> str:
    """Return a PCI address as sysfs writes it; the IOMMU's drivers leave out domain 0, NVIDIA's
    the function.
    """
    *domain, bus, device = text.lower().split(":")
    return f"{int(domain[0], 16) if domain else 0:04x}:{bus}:{device if '.' in device else f'{device}.0'}"
