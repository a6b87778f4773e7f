"""Text for people: made safe to print, cut to what can be read, in the terminal's encoding; and
words compared.
"""

import codecs
import json
import math
import os
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


def harmless(text: str) -> str:
    """Return *text* with its lines and tabs, and everything else that is no text escaped.

    >>> harmless("one\\ttwo\\n\\x1b]0;title\\x07")
    'one\\ttwo\\n\\\\x1b]0;title\\\\x07'
    """
    return "\n".join(
        "\t".join(map(printable, line.split("\t"))) if not line.isprintable() else line
        for line in text.split("\n")
    )


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

    >>> [is_one_edit_away(word, "kernel") for word in ("kenel", "kernle", "kernel", "monitor")]
    [True, True, False, False]
    """
    if word == other or abs(len(word) - len(other)) > 1:
        return False
    pairs = zip(word, other, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    rest, wanted = word[same:], other[same:]
    swapped = rest[:2] == wanted[1::-1] and rest[2:] == wanted[2:]
    return rest[1:] == wanted[1:] or rest[1:] == wanted or rest == wanted[1:] or swapped
