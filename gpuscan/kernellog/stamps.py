"""Timestamps of log lines as Unix time; one without a zone is taken as UTC.

Parsed by hand rather than with dateutil: a log's timestamps come in a few fixed shapes, and a
parser that guesses at any other text (`12 May` in a message, a day that does not exist) would move
an event to another time, or to another boot, and so change the verdict. What fits no shape is None.
"""

import math
import re
from calendar import timegm
from datetime import UTC, datetime

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAY_S = 86400.0
YEARS_BACK = 9  # the last 29 February may be eight years ago
ZONED = re.compile(
    r"\d\d:\d\d:\d\d(?:[.,]\d+)?(?P<zone>Z| UTC|[+-](?P<hours>\d\d):?(?P<minutes>\d\d))?"
)
CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?")


def parse_iso(text: str) -> float | None:
    """Return the Unix time of an ISO 8601 timestamp, None if it is not one.

    >>> parse_iso("2025-06-01T14:15:35,250000+00:00"), parse_iso("2025-99-01T00:00:00Z")
    (1748787335.25, None)
    """
    text = text.replace(",", ".").replace(" UTC", "+00:00").strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    stamp_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return stamp_s if stamp_s >= 0 else None  # no log is older than Unix


def zone_of(line: str) -> float | None:
    """Return how many seconds ahead of UTC the first clock of a line is, None without a zone.

    >>> zone_of("2025-06-01T14:15:35,25+02:00 host kernel: x"), zone_of("Jun  1 14:15:35 host")
    (7200.0, None)
    """
    hit = ZONED.search(line, 0, 96)
    if hit is None or not hit["zone"]:
        return None
    if hit["hours"] is None:
        return 0.0
    seconds = int(hit["hours"]) * 3600.0 + int(hit["minutes"]) * 60.0
    return -seconds if hit["zone"][0] == "-" else seconds


def parse_date(month: str, day: str, clock: str, year: int) -> float | None:
    """Return the Unix time of a date in words, None if there is no such day.

    >>> parse_date("Feb", "23", "16:24:18", 2025), parse_date("Feb", "30", "16:24:18", 2025)
    (1740327858.0, None)
    """
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
    stamp_s = timegm(moment.timetuple()) + float(f"0.{hit[4] or 0}")
    return stamp_s if stamp_s >= 0 else None


def parse_yearless_date(month: str, day: str, clock: str, until_s: float) -> float | None:
    """Return the latest Unix time of a date without a year that is not after *until_s*.

    The zone of the timestamp is unknown, so it may be up to one day later.
    """
    last = min(max(until_s, 0.0), 4e9) + DAY_S
    this_year = datetime.fromtimestamp(last, UTC).year
    for year in range(this_year, this_year - YEARS_BACK, -1):
        moment = parse_date(month, day, clock, year)
        if moment is not None and moment <= last:
            return moment
    return None


def parse_number(text: object) -> float | None:
    """Return a number of seconds or microseconds, None if *text* is not one."""
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < 1e17 else None
