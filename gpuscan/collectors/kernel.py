"""The driver, and what the kernel logged in this boot."""

import re
from collections.abc import Sequence
from typing import Any

from gpuscan.collectors.reading import Sources, count, flag, names, take, text
from gpuscan.facts import Driver, Gpu, Incident, KernelLog, Unread, is_unread
from gpuscan.recording import Recording

KMSG = "kmsg:/dev/kmsg"
JOURNAL = "run:journalctl -k -b -o json --no-pager --output-fields=MESSAGE,_SOURCE_MONOTONIC_TIMESTAMP,_TRANSPORT"
DMESG = "run:dmesg --raw"
MODULE_BANNER = "file:/proc/driver/nvidia/version"
INIT = "nvml:nvmlInit()"
MODULES = "file:/proc/modules"
CONFIDENTIAL = "nvml:nvmlSystemGetConfComputeState()"
NVML_COUNT = "nvml:nvmlDeviceGetCount()"
LIBRARY_VERSION = "nvml:nvmlSystemGetDriverVersion()"
NVML_VERSION = "nvml:nvmlSystemGetNVMLVersion()"
CUDA_VERSION = "nvml:nvmlSystemGetCudaDriverVersion()"

# NVML's return code of nvmlInit, and what it means for everything behind it.
INIT_ACCESS = {9: "not-loaded", 12: "no-library", 15: "lost", 16: "reset-required", 18: "mismatch"}
KIND_ACCESS = ("timed-out", "lost", "reset-required")


def plan(known: Recording) -> list[str]:
    """Return the driver's keys and the kernel log: the ring buffer, then what else has it where that fell short."""
    keys = [
        MODULE_BANNER,
        MODULES,
        KMSG,
        INIT,
        LIBRARY_VERSION,
        NVML_VERSION,
        CUDA_VERSION,
        NVML_COUNT,
        CONFIDENTIAL,
    ]
    if KMSG in known and not _whole(known.get(KMSG)):
        keys.append(JOURNAL)
        if is_unread(known.get(KMSG)) and is_unread(known.get(JOURNAL)) and JOURNAL in known:
            keys.append(DMESG)
    return keys


def scope() -> list[str]:
    """Return patterns of what `plan` can want."""
    return [*plan(Recording({}, ())), JOURNAL, DMESG]


def _module_version(value: Any) -> str:
    """`NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build` is 580.159.04."""
    hit = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", text(value), re.MULTILINE)
    if not hit:
        raise ValueError(value)
    return hit[1]


def _flavour(value: Any) -> str:
    if "Kernel Module" not in text(value):
        raise ValueError(value)
    return "open" if "Open Kernel Module" in text(value) else "proprietary"


def _cuda(value: Any) -> str:
    return f"{count(value) // 1000}.{value % 1000 // 10}"


def driver(recording: Recording, sources: Sources) -> Driver:
    """Make the driver's record."""
    keys = {
        "access": INIT,
        "module_version": MODULE_BANNER,
        "flavour": MODULE_BANNER,
        "library_version": LIBRARY_VERSION,
        "nvml_version": NVML_VERSION,
        "cuda_version": CUDA_VERSION,
        "nvml_count": NVML_COUNT,
        "confidential_compute": CONFIDENTIAL,
    }
    sources.update({f"driver.{fact}": (key,) for fact, key in keys.items()})
    return Driver(
        access=access(recording.get(INIT)),
        module_version=take(recording, MODULE_BANNER, _module_version),
        flavour=take(recording, MODULE_BANNER, _flavour),
        library_version=take(recording, LIBRARY_VERSION, text),
        nvml_version=take(recording, NVML_VERSION, text),
        cuda_version=take(recording, CUDA_VERSION, _cuda),
        nvml_count=take(recording, NVML_COUNT, count),
        confidential_compute=take(recording, CONFIDENTIAL, lambda value: flag(value["ccFeature"]), since=535),
    )


def modules(recording: Recording, sources: Sources) -> Any:
    """Return the names of the loaded kernel modules."""
    sources["kernel_modules"] = (MODULES,)
    return take(recording, MODULES, lambda value: tuple(_module(line) for line in text(value).splitlines()))


def _module(line: str) -> str:
    """`nvidia_uvm 1830912 0 - Live 0x0000000000000000 (O)` is nvidia_uvm."""
    name, size = line.split()[:2]
    int(size)
    return name


def access(answer: Any) -> Any:
    """Return what an opening call's answer means: `ok`, one of the ways to fail, or Unread.

    Denied and blocked stay Unread: whoever may not ask, or never got to ask, knows nothing of the card.
    """
    if not is_unread(answer):
        return "ok" if answer is True else Unread(INIT, "garbled", f"makes no sense: {answer!r:.80}")
    if answer.code in INIT_ACCESS:
        return INIT_ACCESS[answer.code]
    return answer.kind if answer.kind in KIND_ACCESS else answer


def _whole(value: Any) -> bool:
    """Tell whether a ring buffer still holds this boot's first record (sequence number 0)."""
    first = value[0] if isinstance(value, list) and value else ""
    return isinstance(first, str) and first.split(",", 2)[1:2] == ["0"]


NO_JOURNAL = ("not-found", "not-recorded")  # a machine without a journal; any other lack hides what was in it


def log(recording: Recording, gpus: Any, sources: Sources) -> tuple[Any, Any]:
    """Make the kernel log's record and the incidents in it: Unread twice where no source could be read.

    Where the ring buffer has wrapped and the journal should have the rest and cannot be read, what was found counts,
    and having found nothing means nothing.
    """
    ring = take(recording, KMSG, _ring_records)
    whole: Any = _whole(recording.get(KMSG))
    used: tuple[str, ...] = (KMSG,)
    records = ring
    if not whole:
        journal = take(recording, JOURNAL, _journal_records)
        if not is_unread(journal):
            records = _merge(journal, [] if is_unread(ring) else ring)
            whole = str(recording.get(JOURNAL)).startswith("{")  # a long one was cut, and begins in mid-record
            used = (JOURNAL,) if is_unread(ring) else (KMSG, JOURNAL)
        elif is_unread(ring) and DMESG in recording:
            used = (DMESG,)
            records = take(recording, DMESG, _raw_records)
            whole = not is_unread(records) and records[0][0] == 0.0
        elif journal.kind not in NO_JOURNAL:
            whole = journal
            used = (KMSG, JOURNAL)
    sources["kernel_log"] = sources["incidents"] = used
    if is_unread(records):
        if records.kind == "no-permission":
            records = records._replace(text=f"{records.text}; it needs root or CAP_SYSLOG")
        return records, records
    incidents = _incidents(records, gpus)
    covered = KernelLog(records[0][0] if records else 0.0, whole, len(records))
    return covered, whole if is_unread(whole) and not incidents else incidents


Record = tuple[float, str]  # seconds since boot, message


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
    return records


def _journal_records(value: Any) -> list[Record]:
    """Parse `journalctl -o json`; a half-written last line is passed over, a message may be a list of bytes."""
    import json

    records = []
    for line in text(value).splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        message = entry.get("MESSAGE")
        if isinstance(message, list):
            message = bytes(message).decode("utf-8", "replace")
        stamp_us = entry.get("_SOURCE_MONOTONIC_TIMESTAMP")
        if message and stamp_us and entry.get("_TRANSPORT", "kernel") == "kernel":
            records.append((int(stamp_us) / 1e6, message))
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


XID = re.compile(
    r"NVRM:\s*Xid \((?:PCI:)?(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
    r"(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): (?P<code>\d+)(?:, ?(?P<text>.*))?"
)
PROCESS = re.compile(r"pid='?(?P<pid>[^,']+)'?(?:, name=(?P<name>[^,]*))?,? ?")


def _incidents(records: Sequence[Record], gpus: Any) -> tuple[Incident, ...]:
    """Group the Xids by card and code, in the order of their first event."""
    groups: dict[tuple[str, int], list[tuple[float, str]]] = {}
    for stamp_s, message in records:
        hit = XID.search(message) if "Xid" in message else None
        if hit:
            groups.setdefault((pci_address(hit["address"]), int(hit["code"])), []).append((stamp_s, hit["text"] or ""))
    return tuple(_incident(address, code, events, gpus) for (address, code), events in groups.items())


def _incident(address: str, code: int, events: list[tuple[float, str]], gpus: Any) -> Incident:
    from gpuscan.catalogue import xid  # only when there is an event: reading the catalogue takes its time

    cards = () if is_unread(gpus) else gpus
    card: Gpu | None = next((gpu for gpu in cards if gpu.address == address), None)
    entry = xid.entry(code)
    return Incident(
        label=f"Xid {code} on {card.label if card else address}",
        address=address,
        kind="xid",
        code=code,
        name=entry.name,
        action=entry.action,
        events=len(events),
        first_s=events[0][0],
        last_s=events[-1][0],
        text=_without_process(events[0][1]),
        processes=tuple(dict.fromkeys(process for _, message in events for process in _process(message))),
    )


def _process(message: str) -> list[str]:
    hit = PROCESS.match(message)
    known = hit and "unknown" not in hit["pid"]
    return [f"{hit['name'] or '?'} (pid {hit['pid']})"] if hit and known else []


def _without_process(message: str) -> str:
    return PROCESS.sub("", message, count=1) if message.startswith("pid=") else message


def pci_address(text_: str) -> str:
    """Return a PCI address as it is written everywhere: lower case, 4-digit domain unless it needs 8, function .0.

    >>> pci_address("00000000:1B:00"), pci_address("0000:1b:00.0"), pci_address("10000:03:00.0")
    ('0000:1b:00.0', '0000:1b:00.0', '00010000:03:00.0')
    """
    domain, bus, rest = text_.lower().split(":")
    device, _, function = rest.partition(".")
    number = int(domain, 16)
    return (
        f"{number:04x}:{bus}:{device}.{function or '0'}" if number < 0x10000 else f"{number:08x}:{bus}:{device}.{function or '0'}"
    )


def suspects(recording: Recording) -> set[str]:
    """Return the addresses of cards whose log makes a hang likely: Xid 62, 79 or 119 in the ring buffer."""
    records = take(recording, KMSG, _ring_records)
    if is_unread(records):
        return set()
    hits = (XID.search(message) for _, message in records if "Xid" in message)
    return {pci_address(hit["address"]) for hit in hits if hit and int(hit["code"]) in (62, 79, 119)}
