"""Where this boot's kernel log is read from: the ring buffer, else the journal, else dmesg, else
log files; each parsed into records.
"""

import json
import re
from collections.abc import Sized
from functools import partial
from typing import Any, NamedTuple

from gpuscan.collectors.reading import make_all, names, take, text
from gpuscan.kernellog.record import Record
from gpuscan.model import Fact, Unread, is_unread, read_or
from gpuscan.recording import Recording
from gpuscan.text import counted

KMSG = "kmsg:/dev/kmsg"
JOURNAL = (
    "run:journalctl -k -b -o json --no-pager "
    "--output-fields=MESSAGE,_SOURCE_MONOTONIC_TIMESTAMP,_TRANSPORT"
)
DMESG = "run:dmesg --raw"
FILES = ("log:/var/log/kern.log", "log:/var/log/messages", "log:/var/log/dmesg")  # the last resort
# a machine without a journal; any other error hides what was in it
NO_JOURNAL = ("not-found", "not-recorded", "not-supported")
BOOTING_S = 60.0  # a journal that starts later than this after boot has lost its beginning
KERNEL_PRIORITIES = 8  # priority is 8 x facility + level, and facility 0 is the kernel
LOG_NUMBERS = ("total_lines", "boots", "gaps", "left_out", "whole", "kernel")


class LogText(NamedTuple):
    """The records of this boot, oldest first; whether they reach back to its start; the reading
    keys that they are from.
    """

    records: Fact[list[Record]]
    whole: Fact[bool]
    keys: tuple[str, ...]


def read_log(recording: Recording) -> LogText:
    """Return this boot's kernel log from the best source that was read.

    Where a line that names an Xid was not understood, it is not known to be whole.
    """
    log = _read_log(recording)
    if is_unread(log.records) or is_unread(log.whole) or not any(map(_may_name_code, log.records)):
        return log
    from gpuscan.kernellog.coded import find_unread

    damaged = [record.message for record in find_unread(log.records)]
    return log._replace(whole=_damaged(log.keys[0], damaged, damaged[0])) if damaged else log


def _may_name_code(record: Record) -> bool:
    return "Xid" in record.message or "PCI:" in record.message


def _damaged(key: str, lines: Sized, first: str) -> Unread:
    one = "1 line that names an Xid is damaged"
    what = one if len(lines) == 1 else f"{len(lines)} lines that name an Xid are damaged"
    form = "or of a form that gpuscan does not know"
    return Unread(key, "garbled", f"{what}, {form}: {first!r:.160}")


def _read_log(recording: Recording) -> LogText:
    from_files = _from_files(recording)
    if from_files is not None:
        return from_files
    ring = take(recording, KMSG, _ring_records)
    if starts_at_boot(recording.get(KMSG)):
        return LogText(ring, True, (KMSG,))
    journal = take(recording, JOURNAL, _journal_records)
    if not is_unread(journal):
        return _from_journal(recording, journal, ring)
    if is_unread(ring) and DMESG in recording:
        records = take(recording, DMESG, _raw_records)
        return LogText(records, not is_unread(records) and records[0].at_s == 0.0, (DMESG,))
    if journal.kind in NO_JOURNAL:
        return LogText(ring, False, (KMSG,))
    return LogText(ring, journal, (KMSG, JOURNAL))


def starts_at_boot(value: Any) -> bool:
    """Return whether a ring buffer still holds this boot's first record (sequence number 0)."""
    first = value[0] if isinstance(value, list) and value else ""
    return isinstance(first, str) and first.split(",", 2)[1:2] == ["0"]


def _from_files(recording: Recording) -> LogText | None:
    """Return the log of the log files, None if another source is better."""
    keys = [key for key in recording.keys() if key.startswith("log:")]
    better = not is_unread(recording.get(KMSG)) or not is_unread(recording.get(DMESG))
    if better or not keys:
        return None
    logs = {key: take(recording, key, _file_records) for key in keys}
    readable = [key for key in keys if not is_unread(logs[key])]
    if not readable:
        return None if KMSG in recording else LogText(logs[keys[0]], False, (keys[0],))
    if recording.meta.imported is None:
        readable = readable[:1]  # a machine's own log files repeat each other
    return LogText(
        [record for key in readable for record in logs[key]],
        _whole(recording, keys, readable),
        tuple(readable),
    )


def _from_journal(recording: Recording, journal: list[Record], ring: Any) -> LogText:
    # a long answer was cut, and starts in mid-record
    uncut = str(recording.get(JOURNAL)).startswith("{")
    records = _merge(journal, read_or(ring, []))
    keys = (JOURNAL,) if is_unread(ring) else (KMSG, JOURNAL)
    return LogText(records, uncut and (records[0].at_s or 0.0) < BOOTING_S, keys)


def _merge(journal: list[Record], ring: list[Record]) -> list[Record]:
    """Join both logs of one boot: the journal up to where the ring begins, then the ring."""
    start = (ring[0].at_s or 0.0) if ring else float("inf")
    joined = [record for record in journal if (record.at_s or 0.0) < start] + ring
    return [record._replace(line=number, end=number) for number, record in enumerate(joined, 1)]


def _ring_records(value: Any) -> list[Record]:
    """Parse /dev/kmsg (`priority,sequence,microseconds,flags;message`); only the kernel's own
    records count.
    """
    records = []
    if not value:
        raise ValueError("empty")  # no kernel is silent at boot: this one's log is hidden
    for number, line in enumerate(names(value), 1):
        head, _, message = line.partition(";")
        priority, _, stamp_us = head.split(",")[:3]
        if int(priority) < KERNEL_PRIORITIES:
            records.append(Record(message, int(stamp_us) / 1e6, None, True, number, "kmsg", number))
    if not records:
        raise ValueError("no record")
    return records


def _journal_records(value: Any) -> list[Record]:
    """Parse `journalctl -o json`; an incomplete last line is skipped, a message may be a list of
    bytes.

    The kernel's own time may be missing, then journald's is used; a record without either gets that
    of the record before it.
    """
    records: list[Record] = []
    for line in text(value).splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        message = entry.get("MESSAGE")
        if isinstance(message, list):
            message = bytes(message).decode("utf-8", "replace")
        if message and entry.get("_TRANSPORT", "kernel") == "kernel":
            at_s = _journal_time(entry, records)
            number = len(records) + 1
            records.append(Record(message, at_s, None, True, number, "json", number))
    if not records:
        raise ValueError("no record")  # a boot always leaves some
    return records


def _journal_time(entry: dict[str, Any], before: list[Record]) -> float | None:
    stamp_us = entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get("__MONOTONIC_TIMESTAMP")
    if stamp_us:
        return int(stamp_us) / 1e6
    return before[-1].at_s if before else 0.0


def _raw_records(value: Any) -> list[Record]:
    """Parse `dmesg --raw`: `<4>[   12.345678] message`."""
    shape = re.compile(r"<(\d+)>\[ *(\d+\.\d+)\] ?(.*)")
    matches = (
        (number, shape.match(line)) for number, line in enumerate(text(value).splitlines(), 1)
    )
    records = [
        Record(match[3], float(match[2]), None, True, number, "uptime", number)
        for number, match in matches
        if match and int(match[1]) < KERNEL_PRIORITIES
    ]
    if not records:
        raise ValueError("no record")
    return records


def _file_records(value: Any) -> Fact[list[Record]]:
    """Parse what was kept of a log file; Unread if none of its lines is the kernel's."""
    # only for log files: its patterns take long to compile
    from gpuscan.kernellog.lines import parse_numbered_lines

    if not is_log(value):
        raise ValueError("not a log")
    if not value["kernel"]:
        return Unread(
            "", "garbled", f"no kernel line among {counted(value['total_lines'], 'line')}"
        )
    _, wall_s = value["last"]
    rows = [(int(number), str(line)) for number, line in value["lines"]]
    records = [
        record
        for record in make_all(partial(parse_numbered_lines, until_s=wall_s), rows)
        if record.kernel or record.transport == "fm"
    ]
    return records or [Record("", value["first"][0], None, True, 1)]


def _whole(recording: Recording, keys: list[str], readable: list[str]) -> Fact[bool]:
    """Return whether log files are whole; Unread where one is cut off or damaged, or names a code
    in a line that is not understood.
    """
    for key in keys:
        value: Any = recording.get(key)
        unread = value.get("unread") if is_log(value) else None
        if unread:
            return _damaged(key, unread, f"line {unread[0][0]}, {unread[0][1]}")
    for key in readable:
        if "cut" in recording.get(key):
            return Unread(key, "garbled", f"the file is {recording.get(key)['cut']}")
    return all(_is_whole(recording.get(key)) for key in readable)


def is_log(value: Any) -> bool:
    """Return whether the value of a reading has all that is kept of a log."""
    ends = [value.get(end) for end in ("first", "last")] if isinstance(value, dict) else [None]
    return (
        all(isinstance(end, list) and len(end) == 2 for end in ends)
        and isinstance(value.get("lines"), list)
        and set(LOG_NUMBERS) <= set(value)
    )


def booted_s(recording: Recording) -> float:
    """Return when the machine was booted (Unix time), 0 if that is not known."""
    made_at, uptime = recording.meta.made_at, recording.get("file:/proc/uptime")
    if not isinstance(made_at, (int, float)) or not isinstance(uptime, str) or not uptime.split():
        return 0.0
    try:
        return made_at - float(uptime.split()[0])
    except ValueError:
        return 0.0


def _is_whole(value: Any) -> bool:
    return (
        bool(value["whole"]) and not value["gaps"] and not value["left_out"] and "cut" not in value
    )
