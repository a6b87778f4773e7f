"""The kernel log of this boot: how much of it was read, and the incidents in it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpuscan.collectors import named
from gpuscan.collectors.bus import DEVICES
from gpuscan.collectors.log_beginning import find_substitute
from gpuscan.collectors.log_text import (
    DMESG,
    FILES,
    JOURNAL,
    KMSG,
    LogText,
    booted_s,
    is_log,
    read_log,
    starts_at_boot,
)
from gpuscan.collectors.past import works
from gpuscan.collectors.present import present
from gpuscan.collectors.reading import Sources, driver_branch, make_all
from gpuscan.model import Incident, KernelLog, Unread, is_unread, read_or
from gpuscan.recording import Recording
from gpuscan.text import counted

# after these a GPU may hang whatever reads it
SUSPECT = ("xid:62", "xid:79", "xid:119", "nvrm:fallen-off")


def plan(known: Recording) -> list[str]:
    """Return the ring buffer, then the next source for as long as what was read falls short."""
    keys = [KMSG]
    if KMSG not in known or starts_at_boot(known.get(KMSG)):
        return keys
    keys.append(JOURNAL)
    for key, fallback in ((JOURNAL, [DMESG]), (DMESG, [*FILES])):
        if key not in known or not is_unread(known.get(key)) or not is_unread(known.get(KMSG)):
            return keys
        keys += fallback
    return keys


def scope() -> list[str]:
    """Return patterns of all keys that `plan` can return."""
    return [KMSG, JOURNAL, DMESG, *FILES]


def facts(recording: Recording, gpus: Any, sources: Sources) -> tuple[Any, Any, Any]:
    """Return the kernel log's record, the GPUs with the serial and UUID that it names, and the
    incidents in it; the first and the last are Unread if no source could be read.

    If the ring buffer has wrapped and the journal, which should have the rest, was not read, then
    incidents count, but none found means nothing: the list of them is Unread.
    """
    log = read_log(recording)
    sources["kernel_log"] = sources["incidents"] = log.keys
    records = log.records
    if is_unread(records):
        if records.kind == "no-permission":
            records = records._replace(text=f"{records.text}; it needs root or CAP_SYSLOG")
        return records, named.gpus(records, gpus, sources), records
    gpus = named.gpus(records, gpus, sources)
    incidents = _incidents(recording, log, gpus, sources)
    at_s = records[0].at_s
    if at_s is None:
        since_s: Any = Unread(log.keys[0], "not-recorded", "its lines have no time since boot")
    else:
        since_s = at_s
    instead = find_substitute(recording, log, gpus)
    covered = KernelLog(since_s, log.whole, len(records), instead)
    return covered, gpus, log.whole if is_unread(log.whole) and not incidents else incidents


def _incidents(
    recording: Recording, log: LogText, gpus: Any, sources: Sources
) -> tuple[Incident, ...]:
    """Return the incidents; the state of each one's GPU becomes a source of it."""
    # only if there is a log: these take a while to compile their patterns
    from gpuscan.incidents.diagnose import Situation, find_incidents
    from gpuscan.incidents.lives import Work
    from gpuscan.kernellog.events import read_events

    events = make_all(read_events, read_or(log.records, []))
    if not events:
        return ()
    situation = Situation(
        gpus,
        driver_branch(recording),
        booted_s(recording),
        [Work(one.work, one.after_s) for one in works(recording)],
        _ports_above(recording, gpus),
        present(recording, gpus),
        recording.meta.zone_s,
        _repeats(recording, log.keys),
    )
    diagnosed = find_incidents(events, situation)
    labels = {gpu.address: gpu.label for gpu in read_or(gpus, ())}
    for incident in diagnosed:
        if incident.address in labels:
            state = sources.get(f"gpus[{labels[incident.address]}].recovery_action", ())
            sources[f"incidents[{incident.label}].recovery_action"] = state
            sources[f"incidents[{incident.label}].asks"] = state
    return diagnosed


def _repeats(recording: Recording, keys: Sequence[str]) -> Mapping[str, int]:
    """Return how many lines of each event and part were not kept of the log files of *keys*."""
    counts: Counter[str] = Counter()
    for key in keys:
        value = recording.get(key)
        for name, number in value.get("repeats", ()) if isinstance(value, dict) else ():
            counts[name] += number
    return counts


def _ports_above(recording: Recording, gpus: Any) -> dict[str, tuple[str, ...]]:
    """Return the addresses of the ports above each GPU, by the GPU's, where they were read."""
    links = {
        gpu.address: recording.get(f"link:{DEVICES}/{gpu.address}") for gpu in read_or(gpus, ())
    }
    return {address: _path(link) for address, link in links.items() if isinstance(link, str)}


def _path(link: str) -> tuple[str, ...]:
    """`../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0` hangs below 0000:15:01.0."""
    parts = link.split("/")
    bridges = [place for place, part in enumerate(parts) if part.startswith("pci")]
    return tuple(parts[bridges[0] + 1 : -1]) if bridges else ()


def notes(recording: Recording) -> list[str]:
    """Return for each log file how much of it was judged, and what is missing from it."""
    sentences = []
    for key in recording.keys():
        value = recording.get(key) if key.startswith("log:") else None
        if value is not None and is_log(value):
            sentences += _file_notes(key.removeprefix("log:"), value)
    return sentences


def _file_notes(file: str, value: dict[str, Any]) -> list[str]:
    kept, total = len(value["lines"]), value["total_lines"]
    boots = counted(value["boots"], "boot")
    sentences = [f"{file}: {kept} of {counted(total, 'line')} matter, {boots} in it"]
    if value["gaps"]:
        times = "once" if value["gaps"] == 1 else f"{value['gaps']} times"
        sentences.append(f"{file} says {times} that lines were lost or suppressed")
    if value["left_out"]:
        sentences.append(
            f"{file}: {value['left_out']} further lines that repeat others were left out"
        )
    if value.get("earlier"):
        sentences.append(
            f"{file}: {value['earlier']} of its faults are of earlier boots, and not judged: "
            "gpuscan log --boot all judges these, too"
        )
    if "cut" in value:
        sentences.append(f"{file} is {value['cut']}: the rest of it is not known")
    return sentences


def suspects(recording: Recording) -> set[str]:
    """Return the addresses of GPUs that, by the log, may hang a reader."""
    coded = [
        record
        for record in read_or(read_log(recording).records, [])
        if "Xid" in record.message or "fallen off" in record.message
    ]
    if not coded:
        return set()
    from gpuscan.kernellog.events import read_events

    return {event.address for event in read_events(coded) if event.entry in SUSPECT}
