"""`ipmitool sel list` and `elist`: the events that the BMC kept, since the log was last cleared.

The log is lifelong, so age and end count. A state (a power supply that failed, a fan that is slow)
stands until the same sensor says "Deasserted". A moment (an ECC error, a bus error) never ends; it
stands if it is not much older than the newest entry, the only clock that the text has.
"""

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from gpuscan.importers.part import Importer, Part, begins_with
from gpuscan.importers.said import Line, reading
from gpuscan.recording import Reading
from gpuscan.recording.keys import BMC_EVENTS

ROW = re.compile(
    r"^\s*+(?P<id>[0-9a-fA-F]++)\s*+\|(?P<date>[^|]*+)\|[^|]*+\|(?P<sensor>[^|]*+)"
    r"\|(?P<event>[^|]*+)(?:\|\s*+(?P<way>Asserted|Deasserted)?.*)?$"
)
EMPTY = "SEL has no entries"
RECENT = timedelta(days=30)
STAMP = re.compile(r"(\d\d)/(\d\d)/(\d{2,4})$")
MOMENTS = (  # sensor and event; what it is; it never ends by itself
    (r"Uncorrectable (?:ECC|memory)|Uncorrectable other", "memory-uncorrected"),
    (r"(?:PCI SERR|PCI PERR|Bus Fatal Error|Bus Uncorrectable error|Fatal NMI)", "bus-fatal"),
    (r"\bIERR\b|Machine Check Exception|\bUncorrectable machine check", "cpu-error"),
    (r"Correctable ECC logging limit reached", "memory-flood"),
    (r"Bus Correctable|Bus Degraded|Correctable ECC|Correctable memory", "corrected"),
    (r"Watchdog.*(?:Hard reset|Power (?:down|cycle)|Timer (?:interrupt|expired))", "watchdog"),
)
STATES = (  # they stand until they are deasserted
    (r"Power Supply.*(?:Failure detected|Power Supply AC lost|AC lost|Config Error)", "psu-failed"),
    (r"Power Supply.*Predictive failure", "psu-failed"),
    (r"Power Unit.*(?:Failure detected|AC lost)|Redundancy Lost", "power-redundancy"),
    (r"Thermal Trip", "thermal-trip"),
    (
        r"^(?:Fan|Cooling)\b.*(?:Lower (?:Critical|Non-recoverable)|Failure|Transition to Crit)",
        "fan",
    ),
    (r"^Temperature\b.*Upper (?:Critical|Non-recoverable)", "too-hot"),
    (r"^Voltage\b.*(?:Lower|Upper) (?:Critical|Non-recoverable)", "voltage"),
    (r"Drive (?:Slot|Bay).*(?:Drive Fault|Failed)", "drive-failed"),
    (r"Transition to (?:Critical|Non-recoverable)", "critical"),
    (r"Upper Non-critical|Lower Non-critical|Redundancy Degraded", "near-limit"),
)


class SelRow(NamedTuple):
    """One entry; *at* is None where the BMC had no time."""

    sensor: str
    event: str
    over: bool
    at: datetime | None


def readings(part: Part) -> list[Reading]:
    """Return one reading, a row of each event; the last word on a sensor's state is the one.

    >>> row = " 1 | 03/05/2026 | 10:00:00 | Power Supply #0x51 | Failure detected | Asserted"
    >>> readings(Part("ipmitool sel", row))[0].value[0][:2]
    ['Power Supply #0x51', 'psu-failed']
    """
    if EMPTY in part.text:
        return reading(BMC_EVENTS, [Line("SEL", "empty", EMPTY)])
    rows = [_row(hit) for hit in map(ROW.match, part.text.splitlines()) if hit]
    newest = max((row.at for row in rows if row.at), default=None)
    last = {(row.sensor, _kind(row)): row for row in rows}
    return reading(BMC_EVENTS, [_line(row, newest) for row in last.values()])


def _row(hit: re.Match[str]) -> SelRow:
    return SelRow(
        hit["sensor"].strip(), hit["event"].strip(), hit["way"] == "Deasserted", _time(hit)
    )


def _time(hit: re.Match[str]) -> datetime | None:
    day = STAMP.match(hit["date"].strip())
    if not day:
        return None
    year = int(day[3]) + (2000 if len(day[3]) == 2 else 0)
    try:
        return datetime(year, int(day[1]), int(day[2]))
    except ValueError:
        return None


def _kind(row: SelRow) -> str:
    text = f"{row.sensor} {row.event}"
    for pattern, kind in (*MOMENTS, *STATES):
        if re.search(pattern, text, re.IGNORECASE):
            return kind
    return "harmless"


def _line(row: SelRow, newest: datetime | None) -> Line:
    kind = _kind(row)
    standing = not row.over
    if kind in {moment for _, moment in MOMENTS}:
        standing = not row.over and row.at is not None and newest is not None
        standing = standing and newest - row.at <= RECENT  # type: ignore[operator]
    day = f"{row.at:%Y-%m-%d}" if row.at else "no date"
    return Line(row.sensor, kind, f"{row.sensor}: {row.event} ({day})", standing=standing)


IMPORTER = Importer(
    name="ipmitool sel",
    reads="ipmitool sel list",
    readings=readings,
    commands=r"\bipmitool\b.*\bsel\b",
    begins=begins_with(
        r"^\s*[0-9a-fA-F]+ *\| *(?:\d\d/\d\d/\d{2,4}|Pre-Init)\b.*\|.*\|.*\||^SEL has no entries"
    ),
)
