"""Versions compared part by part: drivers, firmware, VBIOS; a part is a decimal or a hexadecimal number or a word."""

import re

_TERM = re.compile(r"(==|!=|>=|<=|>|<)(.+)")


def parts(version: str) -> tuple[tuple[int, str], ...]:
    """Return a key that orders versions: `535.104.05` before `535.104.12`.

    >>> parts("535.104.05") < parts("535.104.12") < parts("580")
    True
    """
    return tuple((int(part), "") if part.isdigit() else (-1, part.lower()) for part in re.split(r"[.\-_]", version))


def satisfies(version: str, wanted: str) -> bool:
    """Tell whether *version* lies within `>=535.104.05,<590`; raises ValueError for a limit that is none."""
    return all(_holds(parts(version), term.strip()) for term in wanted.split(","))


def _holds(version: tuple[tuple[int, str], ...], term: str) -> bool:
    hit = _TERM.fullmatch(term)
    if not hit:
        raise ValueError(f"'{term}' is no limit: write one as >=535.104.05")
    sign, limit = hit[1], parts(hit[2])
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
