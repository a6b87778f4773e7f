"""The past: what the archive had on this machine, kept in the recording so that a replay judges it
the same way.
"""

import calendar
import csv
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from gpuscan.collectors.log_text import booted_s
from gpuscan.collectors.reading import Sources, count, parsed, take
from gpuscan.model import Unread, is_unread, read_or
from gpuscan.model.past import Boot, Fault, Held, Measured, Past, PastTest, PortSeen, Seen, Tried
from gpuscan.recording import Recording

KEYS = {
    "runs": "history:runs",
    "faults": "history:faults",
    "tried": "history:tried",
    "boots": "history:boots",
    "parts": "history:parts",
    "held": "history:hold",
    "ports": "history:ports",
    "measured": "history:measured",
    "present": "history:present",
    "burnt": "history:burnt",
    "lifted": "history:lifted",
    "unread_holds": "history:hold.unread",
}
LATER = (
    "ports",
    "measured",
    "present",
    "burnt",
    "lifted",
    "unread_holds",
)  # lists that no recording made before they existed has
SCOPE = "history:*"
SEL = "run:ipmitool -c sel elist"  # slow: asked for only where the past makes it matter
POWER_WORDS = ("power off", "power cycle", "ac lost", "initiated by power up", "power-off")
LISTS: Mapping[str, Any] = {
    "faults": Fault,
    "tried": Tried,
    "boots": Boot,
    "parts": Seen,
    "held": Held,
    "ports": PortSeen,
    "measured": Measured,
    "present": Seen,
    "burnt": PastTest,
    "lifted": Held,
    "unread_holds": str,
}


def facts(recording: Recording, sources: Sources) -> Any:
    """Return the past, Unread if the recording was made without an archive."""
    sources["past"] = tuple(key for key in (*KEYS.values(), SEL) if key in recording)
    if (
        KEYS["runs"] not in recording
    ):  # whatever its scope: no scan reads the archive, the run that judges does
        return Unread(KEYS["runs"], "not-recorded", "no archive was asked")
    runs = take(recording, KEYS["runs"], count)
    if is_unread(runs):
        return runs
    lists = {
        name: take(recording, KEYS[name], partial(_rows, kind))
        for name, kind in LISTS.items()
        if name not in LATER or KEYS[name] in recording
    }
    lack = next((value for value in lists.values() if is_unread(value)), None)
    if lack is not None:
        return lack
    at_s = recording.meta.made_at or 0.0
    since_boot = {"booted_s": booted_s(recording)}
    return Past(at_s, runs, **{**lists, "tried": works(recording), **since_boot})


def works(recording: Recording) -> tuple[Tried, ...]:
    """Return the work on the node that was declared or that the BMC logged; none is known where
    no archive was asked.
    """
    declared: Any = ()
    if KEYS["tried"] in recording:
        declared = take(recording, KEYS["tried"], partial(_rows, Tried))
    return (*read_or(declared, ()), *_power_cycles(recording))


def _rows(kind: Any, value: Any) -> tuple[Any, ...]:
    """Parse a list of objects into records (or of texts); other keys or types are refused."""
    if not isinstance(value, list):
        raise ValueError(value)
    if kind is str:
        return tuple(str(text) for text in value)
    rows = tuple(kind(**row) for row in value)
    for row in rows:
        for name, kind_of in kind.__annotations__.items():
            if not isinstance(getattr(row, name), (int, float) if kind_of is float else kind_of):
                raise ValueError(row)
    return rows


def _power_cycles(recording: Recording) -> tuple[Tried, ...]:
    """Return when the machine was without power, by the BMC's event log if that was read."""
    if SEL not in recording:
        return ()
    rows = parsed(SEL, recording.get(SEL), lambda value: tuple(_sel_rows(value)))
    return read_or(rows, ())


def _sel_rows(value: Any) -> Iterator[Tried]:
    """Parse `ipmitool -c sel elist`: `1,11/28/2026,03:10:11,Power Unit #0x01,Power
    off/down,Asserted`; BMCs keep UTC.
    """
    if isinstance(value, Unread):
        return
    for fields in csv.reader(str(value).splitlines()):
        if len(fields) >= 5 and any(word in " ".join(fields[3:]).lower() for word in POWER_WORDS):
            try:
                stamp = time.strptime(f"{fields[1]} {fields[2].split()[0]}", "%m/%d/%Y %H:%M:%S")
            except (ValueError, IndexError):
                continue  # "Pre-Init": the BMC did not know the time
            at_s = float(calendar.timegm(stamp))
            yield Tried("power-cycle", at_s, "SEL", at_s)
