"""What a text was passed on in: one prefix on every line, by which tool it was collected, and JSON.

Each layer is a shape that nearly all lines share. Whether it is the text's own is not decided here:
a layer is taken off where more is understood without it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from gpuscan.kernellog.prefixes import ISO

SHARED = 0.8  # of the lines have a prefix that is of the whole text
SAMPLE_LINES = 2000  # in which prefixes are looked for
MOST_LAYERS = 3
MOST_TRIED = 12  # ways to unwrap a text from which others begin
FILE = re.compile(r"[A-Za-z].*\.")
IP = re.compile(r"[\d.]+|[0-9a-fA-F:]*:[0-9a-fA-F:]*")
UNNAMED = ("", "localhost", "(none)", "-")  # a node that has no name yet
ROTATED = re.compile(r"(?:[.-]\d+)?(?:\.(?:gz|xz|zst|bz2))?$")


class Shape(NamedTuple):
    """A prefix. *of_node* says that it names where a line is from, so that two are of two nodes,
    *said* that a program wrote the lines, so that what they say of the kernel is a quotation.
    """

    pattern: re.Pattern[str]
    of_node: bool = False
    said: bool = False


class Layer(NamedTuple):
    """A prefix as it was found: how to take it off a line (lines, if it held several; None if the
    line has none), and the nodes, files or tasks that it names.
    """

    take: Callable[[str], list[str] | None]
    names: tuple[str, ...] = ()
    said: bool = False


def _shapes(prefix: str, **what: bool) -> tuple[Shape, Shape]:
    """Return a prefix with the blank after it, which is first looked for, and without."""
    return Shape(re.compile(rf"{prefix}(?: |$)"), **what), Shape(re.compile(prefix), **what)


STAMPED = rf"(?:{ISO}|\S.{{2,24}}?\d\d:\d\d:\d\d\S*)"
SHAPES: tuple[Shape, ...] = (
    Shape(re.compile(r"(?:> ?)+")),  # a mail's quote
    Shape(re.compile(r"\+")),  # diff
    *_shapes(r"(?P<name>[\w.@/-]+):", of_node=True),  # pdsh, srun --label, talosctl, grep -H
    # kubectl --prefix, mpirun --tag-output
    *_shapes(r"\[(?P<name>[^\]\s]+)\](?:<\w+>)?:?", of_node=True),
    Shape(re.compile(r"(?P<name>[\w.-]+) +\| ?"), of_node=True),  # compose
    Shape(re.compile(rf"{ISO} (?:stdout|stderr) [FP](?: |$)")),  # CRI
    Shape(re.compile(rf"{ISO}(?: |$)")),  # kubectl --timestamps
    Shape(re.compile(rf"{STAMPED} (?:\S+ )?(?P<name>[\w.@-]+)\[\d+\]:(?: |$)"), said=True),
)
NUMBER = re.compile(r" *(\d+)(?: +\u2502 |[\t :-])")  # cat -n, less -N, grep -n, bat
STRING = re.compile(r'\s*("(?:[^"\\]|\\.)*"),?\s*$')
OBJECT = re.compile(r"\s*+(\{.*\})\s*+(?:,\s*+)?$")
EXPORTED = re.compile(r"([A-Z_][A-Z0-9_]*)=(.*)$", re.DOTALL)  # journalctl -o export
LINE_KEYS = ("MESSAGE", "log", "message", "@message", "msg", "textPayload", "line")
OUTPUT_KEYS = ("stdout_lines", "stdout", "output")
DOCUMENT = re.compile(
    r"^[ \t]*(?:(?P<node>\S+) \| [\w!]+(?: \| rc=\d+)? => )?(?=[\[{\"])", re.MULTILINE
)
MANY_NODES = "it holds lines of several nodes, files or tasks ({}): give those of one at a time"


def find_layers(lines: Sequence[str]) -> Iterator[Layer]:
    """Yield each prefix that nearly all of the lines have."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return
    yield from _numbers(filled)
    for shape in SHAPES:
        hits = [hit for line in filled if (hit := shape.pattern.match(line))]
        if _are_most(len(hits), len(filled)):
            named = "name" in shape.pattern.groupindex
            names = tuple(dict.fromkeys(hit["name"] for hit in hits)) if named else ()
            if not shape.said or len(names) == 1:
                kept = names if shape.of_node else ()
                yield Layer(_taker(shape.pattern), kept, shape.said)
    yield from _indent(filled)
    yield from _json_lines(filled)
    yield from _export(filled)


def _are_most(hits: int, lines: int) -> bool:
    """Return whether so many lines of a text are nearly all: all but one of a short one."""
    return hits >= SHARED * lines or hits == lines - 1 > 1


def take_off(layer: Layer, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines without a layer; a line that has none stays as it is."""
    for line in lines:
        taken = layer.take(line)
        yield from (line,) if taken is None else taken


def are_several(names: Sequence[str]) -> bool:
    """Return whether the names in a prefix are of several nodes, rather than one log's rotations.

    >>> are_several(["kern.log", "kern.log.1", "kern.log.2.gz"]), are_several(["node1", "node2"])
    (False, True)
    """
    return len({ROTATED.sub("", name) if FILE.search(name) else name for name in names}) > 1


def hosts_apart(hosts: Iterable[str]) -> tuple[str, ...]:
    """Return the first name of each node among hosts, by whatever of its names a line calls it.

    >>> hosts_apart(["localhost", "gpu1", "gpu1.example.org", "GPU1"]), hosts_apart(["a", "b"])
    (('gpu1',), ('a', 'b'))
    """
    apart: dict[str, str] = {}
    for host in hosts:
        name = host.lower() if IP.fullmatch(host) else host.lower().partition(".")[0]
        if name not in UNNAMED:
            apart.setdefault(name, host)
    return tuple(apart.values())


def _taker(pattern: re.Pattern[str]) -> Callable[[str], list[str] | None]:
    def take(line: str) -> list[str] | None:
        hit = pattern.match(line)
        return [line[hit.end() :]] if hit else None

    return take


def _numbers(lines: Sequence[str]) -> Iterator[Layer]:
    """Yield the numbers before lines, if they rise."""
    hits = [hit for line in lines if (hit := NUMBER.match(line))]
    numbers = [int(hit[1]) for hit in hits]
    rising = all(one < other for one, other in pairwise(numbers))
    if rising and _are_most(len(hits), len(lines)):
        yield Layer(_taker(NUMBER))


def _indent(lines: Sequence[str]) -> Iterator[Layer]:
    """Yield the blanks that nearly all lines begin with."""
    blanks = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    spare = int((1 - SHARED) * len(blanks)) or int(len(blanks) > 2)
    width = sorted(map(len, blanks))[spare]
    if width:
        yield Layer(_taker(re.compile(rf"[ \t]{{{width}}}")))


def _json_lines(lines: Sequence[str]) -> Iterator[Layer]:
    """Yield the lines of a list of JSON strings, and documents of which each holds a line."""
    for pattern, read in ((STRING, _string), (OBJECT, _object)):
        hits = sum(pattern.match(line) is not None for line in lines)
        if _are_most(hits, len(lines)) or (pattern is STRING and hits >= len(lines) - 8 > 0):
            yield Layer(_json_taker(pattern, read))
            if pattern is OBJECT and any('"MESSAGE"' in line for line in lines):
                yield Layer(_json_taker(pattern, _said), said=True)


def _json_taker(
    pattern: re.Pattern[str], read: Callable[[Any], list[str] | None]
) -> Callable[[str], list[str] | None]:
    def take(line: str) -> list[str] | None:
        hit = pattern.match(line)
        if hit is None:
            return None
        try:
            return read(json.loads(hit[1]))
        except (ValueError, RecursionError):
            return None

    return take


def _string(value: Any) -> list[str] | None:
    return value.split("\n") if isinstance(value, str) else None


def _object(value: Any) -> list[str] | None:
    """Return the lines in one document; None for a journal's, which says who wrote them."""
    if not isinstance(value, dict) or "_TRANSPORT" in value:
        return None
    return list(_of_entry(value)) or None


def _said(value: Any) -> list[str] | None:
    """Return what a program wrote to the journal."""
    if not isinstance(value, dict) or value.pop("_TRANSPORT", "kernel") == "kernel":
        return None
    return list(_of_entry(value)) or None


def _export(lines: Sequence[str]) -> Iterator[Layer]:
    """Yield the fields of `journalctl -o export`, of which the messages are kept."""
    hits = [hit for line in lines if (hit := EXPORTED.match(line))]
    if not _are_most(len(hits), len(lines)) or not any(hit[1] == "MESSAGE" for hit in hits):
        return
    kernel = any(hit[1] == "_TRANSPORT" and hit[2] == "kernel" for hit in hits)
    mark = "kernel: " if kernel else ""

    def take(line: str) -> list[str] | None:
        hit = EXPORTED.match(line)
        if hit is None:
            return None if line.strip() else []
        return [mark + hit[2]] if hit[1] == "MESSAGE" else []

    yield Layer(take, said=not kernel)


def document_lines(text: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the lines that JSON documents hold, and the nodes that they name; none without one.

    >>> document_lines('node1 | CHANGED => {"rc": 0, "stdout_lines": ["one", "two"]}')
    (['one', 'two'], ('node1',))
    """
    lines, names = list[str](), dict[str, None]()
    decoder, position = json.JSONDecoder(), 0
    while hit := DOCUMENT.search(text, position):
        try:
            value, position = decoder.raw_decode(text, hit.end())
        except (ValueError, RecursionError):
            following = text.find("\n", hit.end())
            if following < 0:
                break
            position = following + 1
            continue
        if hit["node"]:
            names[hit["node"]] = None
        lines += _of_document(value, names)
    return lines, tuple(names)


def _of_document(value: Any, names: dict[str, None]) -> Iterator[str]:
    """Yield the lines in a document: a text, a list of texts or entries, an object around these."""
    if isinstance(value, str):
        yield from value.split("\n")
    elif isinstance(value, list):
        if len(value) == 2 and isinstance(value[1], str) and str(value[0]).isdecimal():
            value = value[1:]  # Loki: [nanoseconds, line]
        for one in value:
            yield from _of_document(one, names)
    elif isinstance(value, dict):
        yield from _of_object(value, names)


def _of_object(value: dict[str, Any], names: dict[str, None]) -> Iterator[str]:
    own = list(_of_entry(value))
    if own or "_TRANSPORT" in value:
        yield from own
        return
    hosts = value.get("hosts")
    if isinstance(hosts, dict):  # a play of ansible's
        names |= dict.fromkeys(map(str, hosts))
    for one in value.values():
        if isinstance(one, (dict, list)):
            yield from _of_document(one, names)


def _of_entry(value: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of an object that holds some under a name that tools use."""
    payload = value.get("jsonPayload")
    if isinstance(payload, dict):
        value = payload
    mark = "kernel: " if value.get("_TRANSPORT") == "kernel" else ""
    if "_TRANSPORT" in value and not mark:
        return  # a program's line of the journal
    for key in (*OUTPUT_KEYS, *LINE_KEYS):
        held = value.get(key)
        if isinstance(held, list) and all(isinstance(one, str) for one in held):
            yield from held
            return
        if isinstance(held, str):
            yield from (f"{mark}{line}" for line in held.removesuffix("\n").split("\n"))
            return


def several_nodes(names: Sequence[str]) -> str:
    """Return the refusal of lines of several nodes."""
    listed = ", ".join(names[:4]) + (", \u2026" if len(names) > 4 else "")
    return MANY_NODES.format(listed)


def ways_to_unwrap(lines: Sequence[str]) -> Iterator[tuple[tuple[Layer, ...], Sequence[str]]]:
    """Yield layers and the lines without them, the fewest layers first, none at the very first."""
    open_ways: list[tuple[tuple[Layer, ...], Sequence[str]]] = [((), lines[:SAMPLE_LINES])]
    for tried, (layers, sample) in enumerate(open_ways):
        yield layers, sample
        if len(layers) == MOST_LAYERS or tried == MOST_TRIED:
            continue
        for layer in find_layers(sample):
            open_ways.append(((*layers, layer), list(take_off(layer, sample))))
