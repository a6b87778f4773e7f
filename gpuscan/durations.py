"""Durations and times as people write them: `90s`, `7d`, `2026-11-28 21:00 UTC`."""

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def parse_duration(words: str) -> float | None:
    """Return a duration in seconds, None where it is none.

    >>> [parse_duration(words) for words in ("90s", "15m", "1.5h", "7d", "120", "soon")]
    [90.0, 900.0, 5400.0, 604800.0, 120.0, None]
    """
    number, unit = (words[:-1], words[-1:]) if words[-1:] in UNITS_S else (words, "s")
    try:
        value = float(number) * UNITS_S[unit]
    except ValueError:
        return None
    return value if 0 <= value < 1e10 else None
