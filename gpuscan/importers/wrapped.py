"""Take off what a text was passed on in, where that makes more of it readable."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from gpuscan.kernellog import wrapping
from gpuscan.kernellog.wrapping import Layer

MOST_TRIED = 40  # ways to unwrap a text, each of which is read
MOST_NESTED = 2  # documents of JSON within each other
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\n]*\x07")
ENTITY = re.compile(r"&(?:lt|gt|quot|amp|nbsp|#39|#x27);")
TAG = re.compile(
    r"</?(?:html|head|body|pre|code|tt|samp|p|div|span|br|blockquote)\b[^>\n]*>", re.IGNORECASE
)
PLAIN = str.maketrans(
    {
        "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\ufeff": None, "\u200b": None,
        "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'",
    }
)  # fmt: skip


class Unwrapped(NamedTuple):
    """A text without what it was passed on in.

    *said* is set where a program wrote it to the journal: what it says of the kernel is a
    quotation. *names* are the nodes, files or tasks that its lines are from, if several.
    """

    text: str
    said: bool = False
    names: tuple[str, ...] = ()


Weigh = Callable[[str, bool], int]  # how much is read in a text, which a program said or not


class _Way(NamedTuple):
    """One way to read a text: a sample of its lines without some layers, and how to make all."""

    sample: Sequence[str]
    whole: Callable[[], Sequence[str]]
    said: bool
    names: tuple[str, ...]


def tidy(text: str) -> str:
    """Return a text without colours, HTML and what word processors make of blanks and quotes."""
    text = ANSI.sub("", text).replace("\r\n", "\n")
    if "\n" not in text:
        text = text.replace("\r", "\n")
    text = text.translate(PLAIN)
    if "<pre" in text or "<code" in text:
        text = TAG.sub("", text)
    if ENTITY.search(text) and "<?xml" not in text:
        text = html.unescape(text).replace("\u00a0", " ")
    return text


def unwrap(text: str, weigh: Weigh) -> Unwrapped:
    """Return the text without the layers that hide most of it, as it is if none does.

    *weigh* tells how much is read in a text: a prefix that is the text's own hides nothing.
    """
    ways = list(islice(_ways(text.split("\n"), ()), MOST_TRIED))
    best, most = ways[0], -1
    for number, way in enumerate(ways if len(ways) > 1 else ()):
        weight = weigh(tidy("\n".join(way.sample)), way.said)
        if weight > most and (weight > 0 or number == 0):
            best, most = way, weight
    if best is ways[0]:
        return Unwrapped(text)
    names = best.names if wrapping.are_several(best.names) else ()
    return Unwrapped(tidy("\n".join(best.whole())), best.said, names)


def _ways(lines: Sequence[str], above: tuple[_Way, ...]) -> Iterator[_Way]:
    """Yield the ways to read lines, the text as it is first; JSON within JSON is opened, too."""
    said = any(way.said for way in above)
    names = tuple(name for way in above for name in way.names)
    for layers, sample in wrapping.ways_to_unwrap(lines):
        own = tuple(name for layer in layers for name in layer.names)
        whole = partial(_take_off, layers, lines)
        way = _Way(sample, whole, said or any(layer.said for layer in layers), (*names, *own))
        yield way
        if len(above) < MOST_NESTED:
            inner, hosts = _documents(sample, whole)
            if inner:
                yield from _ways(inner, (*above, way._replace(names=(*own, *hosts))))


def _documents(
    sample: Sequence[str], whole: Callable[[], Sequence[str]]
) -> tuple[list[str], tuple[str, ...]]:
    """Return the lines in a text's JSON, and the nodes that it names, if JSON is what it is."""
    first = next((line for line in sample if line.strip()), "").lstrip()
    if first[:1] not in ("[", "{", '"') and not any("=> {" in line for line in sample[:8]):
        return [], ()
    return wrapping.document_lines("\n".join(whole()))


def _take_off(layers: Sequence[Layer], lines: Sequence[str]) -> Sequence[str]:
    for layer in layers:
        lines = list(wrapping.take_off(layer, lines))
    return lines
