"""Durations and times as people write them: `90s`, `7d`, `2026-11-28 21:00 UTC`."""

import re
import time

from gpuscan.errors import UsageError

_BARE_DATE = re.compile(r"(19|20)\d\d(\d{4})?")  # a year, or 20261128
MOST_S = 1e11  # a time beyond it is none
UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def parse_duration(words: str) -> float | None:
    """Return a duration in seconds, None where it is none. A bare number is seconds.

    >>> [parse_duration(words) for words in ("90s", "15m", "1.5h", "7d", "120", "soon")]
    [90.0, 900.0, 5400.0, 604800.0, 120.0, None]
    """
    number, unit = (words[:-1], words[-1:]) if words[-1:] in UNITS_S else (words, "s")
    try:
        value = float(number) * UNITS_S[unit]
    except ValueError:
        return None
    return value if 0 <= value < 1e10 else None


def read_duration(flag: str, value: str, examples: str) -> float:
    """Return an option's duration in seconds; raises UsageError for anything else."""
    seconds = parse_duration(value)
    if seconds is None:
        raise UsageError(f"{flag} {value}: not a duration; write it like {examples}")
    return seconds


def parse_moment(flag: str, text: str) -> float:
    """Return the Unix time of `2026-11-28`, `2026-11-28T03:00Z` or `30d` (ago); 0.0 for "".

    Raises UsageError, naming the option, for anything else.
    """
    if not text:
        return 0.0
    ago_s = None if _BARE_DATE.fullmatch(text) else parse_duration(text)
    if ago_s is not None:
        return time.time() - ago_s
    import datetime

    try:
        at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(
            f"{flag} {text}: write a date (2026-11-28), a time (2026-11-28T03:00Z) or how long ago"
            " (30d)"
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp()


def is_date(at_s: float) -> bool:
    """Return whether a Unix time can be told as a date: damaged input may name any number.

    >>> is_date(1_800_000_000.0), is_date(1e17), is_date(float("nan"))
    (True, False, False)
    """
    return 0 <= at_s < MOST_S


def format_span(seconds: float) -> str:
    """Return how long something took, for people.

    >>> [format_span(seconds) for seconds in (4.2, 95, 600, 7300)]
    ['4 s', '95 s', '10 min', '2.0 h']
    """
    if seconds < 180:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def format_moment(at_s: float) -> str:
    """Return a Unix time for people.

    >>> format_moment(1_800_000_000.0)
    '2027-01-15 08:00 UTC'
    """
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at_s))


def format_utc(at_s: float) -> str:
    """Return a Unix time as ISO 8601 in UTC, for programs.

    >>> format_utc(1_800_000_000.0)
    '2027-01-15T08:00:00Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
