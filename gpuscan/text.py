"""Text for people: made safe to print, cut to what can be read, in the terminal's encoding; and
words compared.
"""

import codecs
import json
import math
import os
import re
from functools import partial
from itertools import takewhile
from typing import Any

IN_ASCII = {
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{DEGREE SIGN}": "",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{EN DASH}": "-",
    "\N{BULLET}": "*",
}


def printable(text: str) -> str:
    """Return *text* as one line without control characters: evidence must not steer the terminal or
    forge lines.

    >>> printable("GPU\\x1b[2J lost\\nVerdict: pass")
    'GPU\\\\x1b[2J lost Verdict: pass'
    """
    if text.isprintable():
        return text
    return "".join(
        " " if char.isspace() else char if char.isprintable() else _escaped(char) for char in text
    )


def shorten(text: str, most: int) -> str:
    """Return *text* cut to *most* characters, with `...` where something is missing.

    >>> shorten("one two three", 13), shorten("one two three", 10)
    ('one two three', 'one two...')
    """
    return text if len(text) <= most else f"{text[: most - 3].rstrip()}..."


def counted(number: float, one: str, many: str = "") -> str:
    """Return a number with what it counts; *many* is given where an `s` does not make the plural.

    >>> [counted(number, "GPU") for number in (0, 1, 2)]
    ['0 GPUs', '1 GPU', '2 GPUs']
    >>> counted(1, "row was", "rows were"), counted(1.0, "day"), counted(0.5, "day")
    ('1 row was', '1 day', '0.5 days')
    """
    told = f"{number:g}" if type(number) is float else str(number)
    return f"{told} {one}" if number == 1 else f"{told} {many or f'{one}s'}"


def harmless(text: str) -> str:
    """Return *text* with its lines and tabs, and everything else that is no text escaped.

    >>> harmless("one\\ttwo\\n\\x1b]0;title\\x07")
    'one\\ttwo\\n\\\\x1b]0;title\\\\x07'
    """
    return "\n".join(
        "\t".join(map(printable, line.split("\t"))) if not line.isprintable() else line
        for line in text.split("\n")
    )


def wrapped(text: str, width: int) -> str:
    """Return *text* with the lines that a terminal of *width* columns would break inside a word.

    They break between words, and what follows stands below the last column of the line, as far as
    one begins in its first half. A *width* of 0 is no terminal.

    >>> print(wrapped("todo    reseat the part and its cable", 24), end="")
    todo    reseat the part
            and its cable
    """
    if not width:
        return text
    from textwrap import TextWrapper

    def broken(line: str) -> str:
        begins = [gap.end() for gap in re.finditer("^ +|  +", line) if gap.end() <= width // 2]
        indent = " " * max(begins, default=0)
        wrap = TextWrapper(
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        )
        return "\n".join(wrap.wrap(line))

    return "\n".join(line if len(line) <= width else broken(line) for line in text.split("\n"))


def as_json(
    value: Any, indent: int | None = None, separators: tuple[str, str] | None = None
) -> str:
    """Return *value* as JSON: what is no number there (NaN, infinity) is null, and what JSON does
    not know is told in Python's words.

    >>> as_json({"uptime_s": float("nan")})
    '{"uptime_s": null}'
    """
    write = partial(json.dumps, default=str, allow_nan=False, indent=indent, separators=separators)
    try:
        return write(value)
    except ValueError:
        return write(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def text_bytes(text: str) -> bytes:
    """Return text in the locale's encoding; what that cannot hold is written in ASCII."""
    encoding = _locale_encoding()
    if encoding == "utf-8":
        return text.encode("utf-8", "backslashreplace")
    return "".join(_held(char, encoding) for char in text).encode(encoding, "backslashreplace")


def _held(char: str, encoding: str) -> str:
    if char.isascii():
        return char
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return IN_ASCII.get(char, char)
    return char


def _locale_encoding() -> str:
    """Return what the environment says: Python itself takes the C locale for UTF-8 (PEP 538, 540),
    and so does this where no locale is named at all.
    """
    get = os.environ.get
    coerced = get("LC_CTYPE") == "C.UTF-8" and get("LANG") in ("C", "POSIX")
    named = get("LC_ALL") or ("C" if coerced else get("LC_CTYPE")) or get("LANG") or ""
    codeset = named.partition(".")[2].partition("@")[0]
    if not codeset:
        return "ascii" if named in ("C", "POSIX") else "utf-8"
    try:
        return codecs.lookup(codeset).name
    except LookupError:
        return "ascii"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def is_one_edit_away(word: str, other: str) -> bool:
    """Return whether one character lost, added, changed or swapped with the next makes *other*.

    >>> [is_one_edit_away(word, "kernel") for word in ("krnel", "kernle", "kernel", "monitor")]
    [True, True, False, False]
    """
    if word == other or abs(len(word) - len(other)) > 1:
        return False
    pairs = zip(word, other, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    rest, wanted = word[same:], other[same:]
    swapped = rest[:2] == wanted[1::-1] and rest[2:] == wanted[2:]
    return rest[1:] == wanted[1:] or rest[1:] == wanted or rest == wanted[1:] or swapped


def format_bytes(number: float) -> str:
    """Return a number of bytes for people, in powers of 1000.

    >>> [format_bytes(number) for number in (0, 999, 52_000, 6_673_049_583_616, 4.2e18)]
    ['0 bytes', '999 bytes', '52 kB', '6.7 TB', '4,200 PB']
    """
    for size, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            share = number / size
            return f"{share:.1f} {unit}" if share < 10 else f"{share:,.0f} {unit}"
    return counted(round(number), "byte")
