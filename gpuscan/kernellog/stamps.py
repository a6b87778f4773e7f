"""The times that log lines carry, as Unix time; a stamp without zone is taken as UTC."""

import math
import re
from calendar import timegm
from datetime import UTC, datetime

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAY_S = 86400.0
YEARS_BACK = 9  # a 29 February may be that far
CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?")


def iso(text: str) -> float | None:
    """Return the Unix time of `2025-06-01T14:15:35,123456+00:00` and its like, None for what is no
    time.
    """
    text = text.replace(",", ".").replace(" UTC", "+00:00").strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def dated(month: str, day: str, clock: str, year: int) -> float | None:
    """Return the Unix time of a date in words; None where there is no such day."""
    hit = CLOCK.fullmatch(clock if clock.count(":") == 2 else f"{clock}:00")
    if hit is None or month not in MONTHS:
        return None
    try:
        moment = datetime(
            year,
            MONTHS.index(month) + 1,
            int(day),
            int(hit[1]),
            int(hit[2]),
            min(int(hit[3]), 59),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return timegm(moment.timetuple()) + float(f"0.{hit[4] or 0}")


def newest(month: str, day: str, clock: str, until_s: float) -> float | None:
    """Return the newest time of such a date that is not later than *until_s* (a day is granted for
    the zone).
    """
    last = min(max(until_s, 0.0), 4e9) + DAY_S
    this_year = datetime.fromtimestamp(last, UTC).year
    for year in range(this_year, this_year - YEARS_BACK, -1):
        moment = dated(month, day, clock, year)
        if moment is not None and moment <= last:
            return moment
    return None


def number(text: object) -> float | None:
    """Return a number of seconds or microseconds, None for what is none."""
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < 1e17 else None
