"""What the kernel logged in this boot: from its ring buffer, else the journal, else dmesg; and how
much of it.
"""

import json
import re
from typing import Any, NamedTuple

from gpuscan.collectors import named
from gpuscan.collectors.reading import Sources, driver_branch, names, take, text
from gpuscan.kernellog.record import Record
from gpuscan.model import Incident, KernelLog, Unread, is_unread
from gpuscan.recording import Recording

KMSG = "kmsg:/dev/kmsg"
JOURNAL = "run:journalctl -k -b -o json --no-pager --output-fields=MESSAGE,_SOURCE_MONOTONIC_TIMESTAMP,_TRANSPORT"
DMESG = "run:dmesg --raw"
FILES = ("log:/var/log/kern.log", "log:/var/log/messages", "log:/var/log/dmesg")  # the last resort
NO_JOURNAL = (
    "not-found",
    "not-recorded",
)  # a machine without a journal; any other lack hides what was in it
BOOTING_S = 60.0  # a log that begins later than this after boot has lost its beginning
SUSPECT = (
    "xid:62",
    "xid:79",
    "xid:119",
    "nvrm:fallen-off",
)  # after these a GPU may hang whoever asks it


def plan(known: Recording) -> list[str]:
    """Return the ring buffer, then what else has the log where that fell short."""
    keys = [KMSG]
    if KMSG in known and not _from_start(known.get(KMSG)):
        keys.append(JOURNAL)
        if is_unread(known.get(KMSG)) and is_unread(known.get(JOURNAL)) and JOURNAL in known:
            keys.append(DMESG)
            if is_unread(known.get(DMESG)) and DMESG in known:
                keys += FILES
    return keys


def scope() -> list[str]:
    """Return patterns of what `plan` can want."""
    return [KMSG, JOURNAL, DMESG, *FILES]


def _from_start(value: Any) -> bool:
    """Tell whether a ring buffer still holds this boot's first record (sequence number 0)."""
    first = value[0] if isinstance(value, list) and value else ""
    return isinstance(first, str) and first.split(",", 2)[1:2] == ["0"]


class Found(NamedTuple):
    """The records of this boot, or Unread; whether they reach back to its start, Unread where
    nobody can tell; their keys.
    """

    records: Any
    whole: Any
    keys: tuple[str, ...]


def facts(recording: Recording, gpus: Any, sources: Sources) -> tuple[Any, Any, Any]:
    """Make the kernel log's record, the GPUs with what it tells of who they are, and the incidents
    in it.

    The first and the last are Unread where no source could be read.

    Where the ring buffer has wrapped and the journal should have the rest and cannot be read, what
    was found counts, and having found nothing means nothing.
    """
    found = _found(recording)
    sources["kernel_log"] = sources["incidents"] = found.keys
    records = found.records
    if is_unread(records):
        if records.kind == "no-permission":
            records = records._replace(text=f"{records.text}; it needs root or CAP_SYSLOG")
        return records, named.gpus(records, gpus, sources), records
    gpus = named.gpus(records, gpus, sources)
    listed = _incidents(recording, records, gpus, sources)
    untold = Unread(found.keys[0], "not-recorded", "its lines bear no time since boot")
    since_s: Any = untold if records[0].at_s is None else records[0].at_s
    covered = KernelLog(since_s, found.whole, len(records))
    return covered, gpus, found.whole if is_unread(found.whole) and not listed else listed


def _incidents(
    recording: Recording, records: list[Record], gpus: Any, sources: Sources
) -> tuple[Incident, ...]:
    """Make incidents of the records, and book where the state of each one's GPU is read."""
    # only where there is a log: its shapes take a while to compile
    from gpuscan.incidents.diagnose import (
        Situation,
        incidents,
    )
    from gpuscan.kernellog.events import read_events

    found = incidents(
        read_events(records), Situation(gpus, driver_branch(recording), _booted_s(recording))
    )
    by_address = {} if is_unread(gpus) else {gpu.address: gpu for gpu in gpus}
    for incident in found:
        found_gpu = by_address.get(incident.address)
        if found_gpu:
            sources[f"incidents[{incident.label}].recovery_action"] = sources.get(
                f"gpus[{found_gpu.label}].recovery_action", ()
            )
    return found


def _booted_s(recording: Recording) -> float:
    """Return when the machine was booted (Unix time), 0 where nothing tells."""
    made_at, uptime = recording.meta.made_at, recording.get("file:/proc/uptime")
    if not isinstance(made_at, (int, float)) or not isinstance(uptime, str) or not uptime.split():
        return 0.0
    try:
        return made_at - float(uptime.split()[0])
    except ValueError:
        return 0.0


def _found(recording: Recording) -> Found:
    files = [key for key in recording.keys() if key.startswith("log:")]
    if files and is_unread(recording.get(KMSG)) and is_unread(recording.get(DMESG)):
        read = [(key, take(recording, key, _file_records)) for key in files]
        told = [(key, found) for key, found in read if not is_unread(found)]
        if told or KMSG not in recording:
            if recording.meta.imported is None:
                told = told[:1]  # of a machine's own logs each tells the same
            if not told:
                return Found(read[0][1], False, (read[0][0],))
            records = [record for _, found in told for record in found]
            return Found(
                records,
                all(_reaches_back(recording.get(key)) for key, _ in told),
                tuple(key for key, _ in told),
            )
    ring = take(recording, KMSG, _ring_records)
    if _from_start(recording.get(KMSG)):
        return Found(ring, True, (KMSG,))
    journal = take(recording, JOURNAL, _journal_records)
    if not is_unread(journal):
        uncut = str(recording.get(JOURNAL)).startswith(
            "{"
        )  # a long one was cut, and begins in mid-record
        records = _merge(journal, [] if is_unread(ring) else ring)
        return Found(
            records,
            uncut and (records[0].at_s or 0.0) < BOOTING_S,
            (JOURNAL,) if is_unread(ring) else (KMSG, JOURNAL),
        )
    if is_unread(ring) and DMESG in recording:
        records = take(recording, DMESG, _raw_records)
        return Found(records, not is_unread(records) and records[0].at_s == 0.0, (DMESG,))
    return (
        Found(ring, False, (KMSG,))
        if journal.kind in NO_JOURNAL
        else Found(ring, journal, (KMSG, JOURNAL))
    )


def _ring_records(value: Any) -> list[Record]:
    """Parse /dev/kmsg: `priority,sequence,microseconds,flags;message`; only the kernel's own
    (facility 0) count.
    """
    records = []
    if not value:
        raise ValueError("empty")  # no kernel is silent at boot: this one's log is hidden
    for number, line in enumerate(names(value), 1):
        head, _, message = line.partition(";")
        priority, _, stamp_us = head.split(",")[:3]
        if int(priority) < 8:
            records.append(Record(message, int(stamp_us) / 1e6, None, True, number, "kmsg", number))
    if not records:
        raise ValueError("no record")
    return records


def _journal_records(value: Any) -> list[Record]:
    """Parse `journalctl -o json`; a half-written last line is passed over, a message may be a list
    of bytes.

    The kernel's own stamp may be absent; journald's is always there, and a record without any keeps
    its place.
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
            stamp_us = entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get(
                "__MONOTONIC_TIMESTAMP"
            )
            at_s = int(stamp_us) / 1e6 if stamp_us else records[-1].at_s if records else 0.0
            number = len(records) + 1
            records.append(Record(message, at_s, None, True, number, "json", number))
    if not records:
        raise ValueError("no record")  # a boot always leaves some
    return records


def _raw_records(value: Any) -> list[Record]:
    """Parse `dmesg --raw`: `<4>[   12.345678] message`."""
    shape = re.compile(r"<(\d+)>\[ *(\d+\.\d+)\] ?(.*)")
    hits = ((number, shape.match(line)) for number, line in enumerate(text(value).splitlines(), 1))
    records = [
        Record(hit[3], float(hit[2]), None, True, n, "uptime", n)
        for n, hit in hits
        if hit and int(hit[1]) < 8
    ]
    if not records:
        raise ValueError("no record")
    return records


def _file_records(value: Any) -> Any:
    """Parse what was kept of a log file; Unread where nothing in it is the kernel's."""
    from gpuscan.kernellog.lines import (
        parse_numbered_lines,  # only for logs read from a file: its patterns take long to compile
    )

    if not value["kernel"]:
        return Unread("", "garbled", f"no line of the kernel is among its {value['total_lines']}")
    _, wall_s = value["last"]
    rows = [(int(number), str(line)) for number, line in value["lines"]]
    found = [
        record
        for record in parse_numbered_lines(rows, wall_s)
        if record.kernel or record.transport == "fm"
    ]
    return found or [Record("", value["first"][0], None, True, 1)]


def _reaches_back(value: Any) -> bool:
    return (
        bool(value["whole"]) and not value["gaps"] and not value["left_out"] and "cut" not in value
    )


def notes(recording: Recording) -> list[str]:
    """Say of each log file what of it was judged, and what it lacks."""
    said = []
    for key in recording.keys():
        value = recording.get(key) if key.startswith("log:") else None
        if not isinstance(value, dict):
            continue
        said.append(
            f"{key[4:]}: {len(value['lines'])} of {value['total_lines']} lines matter, {value['boots']} boot(s) in it"
        )
        if value["gaps"]:
            said.append(
                f"{key[4:]} itself says {value['gaps']} times that lines were lost or held back"
            )
        if value["left_out"]:
            said.append(
                f"{key[4:]}: {value['left_out']} further lines that tell the same as others were not kept"
            )
        if "cut" in value:
            said.append(f"{key[4:]} is {value['cut']}: what came behind is not known")
    return said


def _merge(journal: list[Record], ring: list[Record]) -> list[Record]:
    """Join both logs of one boot: the journal up to where the ring begins, then the ring."""
    start = (ring[0].at_s or 0.0) if ring else float("inf")
    joined = [record for record in journal if (record.at_s or 0.0) < start] + ring
    return [record._replace(line=number, end=number) for number, record in enumerate(joined, 1)]


def suspects(recording: Recording) -> set[str]:
    """Return the addresses of GPUs whose log makes a hang likely."""
    records: Any = _found(recording).records
    if is_unread(records):
        return set()
    coded = [
        record for record in records if "Xid" in record.message or "fallen off" in record.message
    ]
    if not coded:
        return set()
    from gpuscan.kernellog.events import read_events

    return {event.address for event in read_events(coded) if event.entry in SUSPECT}
