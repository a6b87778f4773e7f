"""Versions compared part by part: drivers, firmware, VBIOS; a part is a number or a word, in a
VBIOS hexadecimal.
"""

import re

_TERM = re.compile(r"(==|!=|>=|<=|>|<)([\w.-]+)")
_VBIOS = re.compile(r"[0-9a-fA-F]{2}(\.[0-9a-fA-F]{2}){4}")
Parts = tuple[tuple[int, str], ...]


def parts(version: str, *, hexadecimal: bool = False) -> Parts:
    """Return a key that orders versions: `535.104.05` before `535.104.12`.

    >>> parts("535.104.05") < parts("535.104.12") < parts("580")
    True
    >>> parts("96.00.9F", hexadecimal=True) < parts("96.00.A5", hexadecimal=True) < parts("96.00.B0", hexadecimal=True)
    True
    """
    digits = re.compile(r"[0-9a-fA-F]+" if hexadecimal else r"[0-9]+")
    base = 16 if hexadecimal else 10
    words = re.split(r"[.\-_]", version.strip())
    return tuple(
        (int(word, base), "") if digits.fullmatch(word) else (-1, word.lower()) for word in words
    )


def satisfies(version: str, wanted: str) -> bool:
    """Tell whether *version* lies within `>=535.104.05,<590`; raises ValueError for a limit that
    is none.
    """
    hexadecimal = _VBIOS.fullmatch(version.strip()) is not None
    have = parts(version, hexadecimal=hexadecimal)
    held = [
        _holds(have, term.strip(), hexadecimal) for term in wanted.split(",")
    ]  # each is looked at: one may be no limit
    return all(held)


def _holds(version: Parts, term: str, hexadecimal: bool) -> bool:
    hit = _TERM.fullmatch(term)
    if not hit:
        raise ValueError(f"'{term}' is no limit: write one as >=535.104.05")
    sign, limit = hit[1], parts(hit[2], hexadecimal=hexadecimal)
    width = max(len(version), len(limit))
    left, right = (value + ((0, ""),) * (width - len(value)) for value in (version, limit))
    return {
        "==": left == right,
        "!=": left != right,
        ">=": left >= right,
        "<=": left <= right,
        ">": left > right,
        "<": left < right,
    }[sign]
