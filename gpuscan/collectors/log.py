"""What the kernel logged in this boot: from its ring buffer, else the journal, else dmesg; and how much of it."""

import json
import re
from typing import Any, NamedTuple

from gpuscan.collectors import named
from gpuscan.collectors.incidents import Record, address_in, incidents
from gpuscan.collectors.reading import Sources, names, take, text
from gpuscan.facts import KernelLog, is_unread
from gpuscan.recording import Recording

KMSG = "kmsg:/dev/kmsg"
JOURNAL = "run:journalctl -k -b -o json --no-pager --output-fields=MESSAGE,_SOURCE_MONOTONIC_TIMESTAMP,_TRANSPORT"
DMESG = "run:dmesg --raw"
NO_JOURNAL = ("not-found", "not-recorded")  # a machine without a journal; any other lack hides what was in it
BOOTING_S = 60.0  # a log that begins later than this after boot has lost its beginning
SUSPECT = (62, 79, 119)  # Xids after which a card may hang whoever asks it


def plan(known: Recording) -> list[str]:
    """Return the ring buffer, then what else has the log where that fell short."""
    keys = [KMSG]
    if KMSG in known and not _from_start(known.get(KMSG)):
        keys.append(JOURNAL)
        if is_unread(known.get(KMSG)) and is_unread(known.get(JOURNAL)) and JOURNAL in known:
            keys.append(DMESG)
    return keys


def scope() -> list[str]:
    """Return patterns of what `plan` can want."""
    return [KMSG, JOURNAL, DMESG]


def _from_start(value: Any) -> bool:
    """Tell whether a ring buffer still holds this boot's first record (sequence number 0)."""
    first = value[0] if isinstance(value, list) and value else ""
    return isinstance(first, str) and first.split(",", 2)[1:2] == ["0"]


class Found(NamedTuple):
    """The records of this boot, or Unread; whether they reach back to its start, Unread where nobody can tell; their keys."""

    records: Any
    whole: Any
    keys: tuple[str, ...]


def facts(recording: Recording, gpus: Any, sources: Sources) -> tuple[Any, Any, Any]:
    """Make the kernel log's record, the cards with what it tells of who they are, and the incidents in it.

    The first and the last are Unread where no source could be read.

    Where the ring buffer has wrapped and the journal should have the rest and cannot be read, what was found counts,
    and having found nothing means nothing.
    """
    found = _found(recording)
    sources["kernel_log"] = sources["incidents"] = found.keys
    records = found.records
    if is_unread(records):
        if records.kind == "no-permission":
            records = records._replace(text=f"{records.text}; it needs root or CAP_SYSLOG")
        return records, named.cards(records, gpus, sources), records
    gpus = named.cards(records, gpus, sources)
    listed = incidents(records, gpus, sources)
    covered = KernelLog(records[0][0], found.whole, len(records))
    return covered, gpus, found.whole if is_unread(found.whole) and not listed else listed


def _found(recording: Recording) -> Found:
    ring = take(recording, KMSG, _ring_records)
    if _from_start(recording.get(KMSG)):
        return Found(ring, True, (KMSG,))
    journal = take(recording, JOURNAL, _journal_records)
    if not is_unread(journal):
        uncut = str(recording.get(JOURNAL)).startswith("{")  # a long one was cut, and begins in mid-record
        records = _merge(journal, [] if is_unread(ring) else ring)
        return Found(records, uncut and records[0][0] < BOOTING_S, (JOURNAL,) if is_unread(ring) else (KMSG, JOURNAL))
    if is_unread(ring) and DMESG in recording:
        records = take(recording, DMESG, _raw_records)
        return Found(records, not is_unread(records) and records[0][0] == 0.0, (DMESG,))
    return Found(ring, False, (KMSG,)) if journal.kind in NO_JOURNAL else Found(ring, journal, (KMSG, JOURNAL))


def _ring_records(value: Any) -> list[Record]:
    """Parse /dev/kmsg: `priority,sequence,microseconds,flags;message`; only the kernel's own (facility 0) count."""
    records = []
    if not value:
        raise ValueError("empty")  # no kernel is silent at boot: this one's log is hidden
    for line in names(value):
        head, _, message = line.partition(";")
        priority, _, stamp_us = head.split(",")[:3]
        if int(priority) < 8:
            records.append((int(stamp_us) / 1e6, message))
    if not records:
        raise ValueError("no record")
    return records


def _journal_records(value: Any) -> list[Record]:
    """Parse `journalctl -o json`; a half-written last line is passed over, a message may be a list of bytes.

    The kernel's own stamp may be absent; journald's is always there, and a record without any keeps its place.
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
            stamp_us = entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get("__MONOTONIC_TIMESTAMP")
            records.append((int(stamp_us) / 1e6 if stamp_us else records[-1][0] if records else 0.0, message))
    if not records:
        raise ValueError("no record")  # a boot always leaves some
    return records


def _raw_records(value: Any) -> list[Record]:
    """Parse `dmesg --raw`: `<4>[   12.345678] message`."""
    shape = re.compile(r"<(\d+)>\[ *(\d+\.\d+)\] ?(.*)")
    hits = (shape.match(line) for line in text(value).splitlines())
    records = [(float(hit[2]), hit[3]) for hit in hits if hit and int(hit[1]) < 8]
    if not records:
        raise ValueError("no record")
    return records


def _merge(journal: list[Record], ring: list[Record]) -> list[Record]:
    """Join both logs of one boot: the journal up to where the ring begins, then the ring."""
    start = ring[0][0] if ring else float("inf")
    return [record for record in journal if record[0] < start] + ring


def suspects(recording: Recording) -> set[str]:
    """Return the addresses of cards whose log makes a hang likely."""
    records: Any = _found(recording).records
    if is_unread(records):
        return set()
    return {address for _, message in records for address in address_in(message, SUSPECT)}
