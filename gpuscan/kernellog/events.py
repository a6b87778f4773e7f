"""Events of a kernel log: what the driver, the NVSwitches and the rest of the node report."""

import re
from collections.abc import Iterable, Iterator

from gpuscan.kernellog import hostlines, merging, tails
from gpuscan.kernellog.event import Event
from gpuscan.kernellog.hostlines import LONGEST
from gpuscan.kernellog.media import Media
from gpuscan.kernellog.needles import NEEDLE
from gpuscan.kernellog.record import Record
from gpuscan.kernellog.reports import join_reports
from gpuscan.pci import PCI, pci_address

ADDRESS = re.compile(PCI)
SWITCH = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
# A code is a plain number with a comma or the end behind it: `7 9,` and `09,` are damaged.
CODE = r"(?!0\d)(?P<code>\d{1,9})\d*(?=,(?!\d)|\s*$)(?:, ?(?P<tail>.*))?"
XID = re.compile(
    rf"NVRM: *Xid ?\((?:PCI:)?{PCI}(?: GPU-I:(?P<gi>\d+))?(?: GPU-CI:(?P<ci>\d+))?\): "
    rf"{CODE}"
)
SXID = re.compile(rf"nvidia-nvswitch\d*: SXid ?\(PCI:{SWITCH}\): {CODE}")
FABRIC = re.compile(
    r"detected NVSwitch (?P<severity>fatal|non-fatal|correctable) error (?P<code>\d{1,9}) on "
    rf"(?P<tail>.*?NVSwitch pci bus id {SWITCH}.*)"
)
LOADED = re.compile(r"NVRM: loading NVIDIA UNIX .*?(?P<driver>\d{3,4}\.\d+(?:\.\d+)*)")
PROBED = re.compile(rf"nvidia-nvswitch\d*: Probing device(?: {PCI})?")
RESET = re.compile(
    rf"nvidia {PCI}: (?:resetting|reset done)\b"
    r"|NVRM: GPU (?:at )?(?:PCI:)?(?P<gpu>[0-9a-fA-F:.]+): GPU reset "
)
BANNER = re.compile(r"Linux version (?P<kernel>\d\S*) ")
QUOTES = ('"', "'", "`", "\\")
GSP_TIMEOUT, GSP_ERROR = 119, 120


def read_events(records: Iterable[Record]) -> Iterator[Event]:
    """Yield the events of a log in its order.

    What the driver reports in several lines, and copies of one line that were logged twice, are one
    event.
    """
    joined = join_reports(merging.join_notices(records))
    return merging.drop_copies(merging.merge_sxid_lines(_events_of(joined)))


def _events_of(records: Iterable[Record]) -> Iterator[merging.Pair]:
    """Yield each record's events with its transport."""
    media = Media()
    for record in records:
        if record.kernel:
            media.note(record)
        for event in parse_events(record):
            yield media.judge(event), record.transport


def parse_events(record: Record) -> list[Event]:
    """Return all events of one record; a message of several lines may hold several."""
    if not (record.kernel or record.transport == "fm") or not NEEDLE.search(record.message):
        return []
    lines = record.message.split("\n")
    coded = [_coded(line, record) for line in lines]
    if not any(coded):
        event = _from_catalogue(record.message, record)
        return [event] if event else []
    events = [
        event or _from_catalogue(line, record) for event, line in zip(coded, lines, strict=True)
    ]
    return [event for event in events if event]


def _coded(text: str, record: Record) -> Event | None:
    """Return the event of a line with an Xid or SXid, or of one that marks a boot or a reset."""
    if record.transport == "fm":
        hit = FABRIC.search(text)
        return _sxid(hit, record, hit["severity"].capitalize()) if hit else None
    hit = XID.search(text)
    if hit and not _is_quoted(text, hit.start(), record):
        return _xid(hit, record)
    hit = SXID.search(text)
    if hit and not _is_quoted(text, hit.start(), record):
        return _sxid(hit, record, "")
    return _mark(text, record)


def _is_quoted(text: str, start: int, record: Record) -> bool:
    """Return whether a line only quotes the message that begins at *start*.

    A line without a prefix must begin with the message.
    """
    before = text[:start]
    if record.transport == "bare":
        return any(char.isalnum() or char in QUOTES for char in before)
    return before[-1:] in QUOTES


def _xid(hit: re.Match[str], record: Record) -> Event:
    code, printed = int(hit["code"]), int(hit["code"])
    pid, process, text = tails.split_program((hit["tail"] or "")[:LONGEST])
    values = tails.xid_values(code, text)
    if tails.is_gsp_crash(text) and code not in (GSP_TIMEOUT, GSP_ERROR):
        code, values = GSP_ERROR, {**values, "printed": printed}  # R595 prints it as Xid 1
    cause = tails.CAUSE.search(text)
    instances = (("I", "gi"), ("CI", "ci"))
    return Event(
        kind="xid",
        code=code,
        entry=f"xid:{code}",
        address=pci_address(hit["address"]),
        at_s=record.at_s,
        wall_s=record.wall_s,
        zone_s=record.zone_s,
        text=text,
        pid=pid,
        process=process,
        mig=" ".join(f"GPU-{kind}:{hit[name]}" for kind, name in instances if hit[name]),
        cause=int(cause[1]) if cause else 0,
        severity=str(values.pop("severity", "")),
        values=values,
        line=record.line,
    )


def _sxid(hit: re.Match[str], record: Record, severity: str) -> Event:
    code, text = int(hit["code"]), (hit["tail"] or "")[:LONGEST].strip()
    values = tails.sxid_values(text)
    return Event(
        kind="sxid",
        code=code,
        entry=f"sxid:{code}",
        address=pci_address(hit["address"]),
        at_s=record.at_s,
        wall_s=record.wall_s,
        zone_s=record.zone_s,
        text=text,
        severity=severity or str(values.pop("severity", "")),
        values=values,
        line=record.line,
    )


def _mark(text: str, record: Record) -> Event | None:
    """Return the event of a boot, of a driver being loaded, or of a part being reset."""
    event = Event("", 0, "", at_s=record.at_s, wall_s=record.wall_s, text=text, line=record.line)
    banner = BANNER.match(text)
    if banner:
        values = {"kernel": banner["kernel"]}
        return event._replace(kind="boot", entry="boot:kernel", values=values)
    if record.transport == "mark":
        return event._replace(kind="boot", entry="boot:mark", values={})
    hit = LOADED.search(text)
    if hit and not _is_quoted(text, hit.start(), record):
        return event._replace(kind="reset", entry="reset:driver", values={"driver": hit["driver"]})
    for entry, shape in (("reset:nvswitch", PROBED), ("reset:gpu", RESET)):
        hit = shape.search(text)
        if hit and not _is_quoted(text, hit.start(), record):
            address = hit["address"] or hit.groupdict().get("gpu") or ""
            part = pci_address(address) if address.count(":") == 2 else ""
            return event._replace(kind="reset", entry=entry, address=part)
    return None


FIELDS = ("address", "part", "severity", "pid", "process")


def _from_catalogue(text: str, record: Record) -> Event | None:
    """Return the event of a line without a code that the catalogue (lines.json) knows."""
    hit = hostlines.match(text)
    if hit is None:
        return None
    entry, fields = hit
    kind = entry.partition(":")[0]
    if record.transport == "fm" and kind != "fm":
        return None
    own = {name: fields[name] for name in FIELDS if fields.get(name)}
    if ADDRESS.fullmatch(own.get("address", "")):
        own["address"] = pci_address(own["address"])
    return Event(
        kind,
        0,
        entry,
        at_s=record.at_s,
        wall_s=record.wall_s,
        zone_s=record.zone_s,
        text=text,
        values={name: value for name, value in fields.items() if name not in FIELDS},
        line=record.line,
        **own,
    )
