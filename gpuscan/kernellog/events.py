"""Events: what the driver, the switches and the rest of the node report in a kernel log's records,
one by one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuscan.kernellog import hostlines, merging, tails
from gpuscan.kernellog.needles import NEEDLE
from gpuscan.kernellog.record import Record
from gpuscan.pci import pci_address

__all__ = ("Event", "event", "events", "pci_address", "told")
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Event(NamedTuple):
    """One fault or mark in the log: its kind and catalogue entry, the part that it names, and what
    its text says.

    *address* is a PCI address as sysfs writes it, *part* what else names a part; *at_s* is seconds
    since boot, *wall_s* Unix time; *text* is the line's tail without the program, which *pid* and
    *process* name; *cause* is the Xid that a follower blames; *line* is the first line in the
    input.
    """

    kind: str
    code: int
    entry: str
    address: str = ""
    part: str = ""
    at_s: float | None = None
    wall_s: float | None = None
    text: str = ""
    pid: int = 0
    process: str = ""
    mig: str = ""
    cause: int = 0
    severity: str = ""
    values: Mapping[str, Any] = NOTHING
    line: int = 0


PCI = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
ADDRESS = re.compile(PCI)
XID = re.compile(
    rf"NVRM: *Xid ?\((?:PCI:)?{PCI}(?: GPU-I:(?P<gi>\d+))?(?: GPU-CI:(?P<ci>\d+))?\): (?P<code>\d{{1,9}})\d*(?:, ?(?P<tail>.*))?"
)
SXID = re.compile(
    r"nvidia-nvswitch\d*: SXid ?\(PCI:(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\): "
    r"(?P<code>\d{1,9})\d*(?:, ?(?P<tail>.*))?"
)
FABRIC = re.compile(
    r"detected NVSwitch (?P<severity>fatal|non-fatal|correctable) error (?P<code>\d{1,9}) on (?P<tail>.*?"
    r"NVSwitch pci bus id (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?).*)"
)
LOADED = re.compile(r"NVRM: loading NVIDIA UNIX .*?(?P<driver>\d{3,4}\.\d+(?:\.\d+)*)")
PROBED = re.compile(rf"nvidia-nvswitch\d*: Probing device(?: {PCI})?")
RESET = re.compile(
    rf"nvidia {PCI}: (?:resetting|reset done)\b"
    r"|NVRM: GPU (?:at )?(?:PCI:)?(?P<card>[0-9a-fA-F:.]+): GPU reset "
)
BANNER = re.compile(r"Linux version (?P<kernel>\d\S*) ")
QUOTES = ('"', "'", "`", "\\")


def event(record: Record) -> Event | None:
    """Return the first event that a record tells of, or None."""
    return next(iter(told(record)), None)


def events(records: Iterable[Record]) -> Iterator[Event]:
    """Yield the events of a log in its order: what several lines tell, or several copies of one
    line, is one event.
    """
    pairs = (
        (found, record.transport) for record in merging.whole(records) for found in told(record)
    )
    return merging.once(merging.settled(pairs))


def told(record: Record) -> list[Event]:
    """Return all events of one record: a message of several lines may tell of several."""
    if not (record.kernel or record.transport == "fm") or not NEEDLE.search(record.message):
        return []
    lines = record.message.split("\n")
    coded = [_coded(line, record) for line in lines]
    if not any(coded):
        known = _known(record.message, record)
        return [known] if known else []
    found = [one or _known(line, record) for one, line in zip(coded, lines, strict=True)]
    return [one for one in found if one]


def _coded(text: str, record: Record) -> Event | None:
    """Return the event of a line that bears a code, or that ends the life of earlier events."""
    if record.transport == "fm":
        hit = FABRIC.search(text)
        return _sxid(hit, record, hit["severity"].capitalize()) if hit else None
    hit = XID.search(text)
    if hit and _is_said(text, hit.start(), record):
        return _xid(hit, record)
    hit = SXID.search(text)
    if hit and _is_said(text, hit.start(), record):
        return _sxid(hit, record, "")
    return _mark(text, record)


def _is_said(text: str, start: int, record: Record) -> bool:
    """Tell whether a line says it, and does not quote it: one without prefix must begin with it."""
    before = text[:start]
    if record.transport == "bare":
        return not any(char.isalnum() or char in QUOTES for char in before)
    return before[-1:] not in QUOTES


def _xid(hit: re.Match[str], record: Record) -> Event:
    code, printed = int(hit["code"]), int(hit["code"])
    pid, process, text = tails.program(hit["tail"] or "")
    values = tails.values(code, text)
    if tails.is_gsp_crash(text) and code not in (119, 120):
        code, values = 120, {**values, "printed": printed}  # R595 prints it under the number 1
    cause = tails.CAUSE.search(text)
    return Event(
        "xid", code, f"xid:{code}", pci_address(hit["address"]), "", record.at_s, record.wall_s, text, pid, process,
        " ".join(f"GPU-{word}:{hit[name]}" for word, name in (("I", "gi"), ("CI", "ci")) if hit[name]),
        int(cause[1]) if cause else 0, str(values.pop("severity", "")), values, record.line,
    )  # fmt: skip


def _sxid(hit: re.Match[str], record: Record, severity: str) -> Event:
    code, text = int(hit["code"]), (hit["tail"] or "").strip()
    values = tails.switch_values(text)
    severity = severity or str(values.pop("severity", ""))
    return Event(
        "sxid", code, f"sxid:{code}", pci_address(hit["address"]), "", record.at_s, record.wall_s, text,
        severity=severity, values=values, line=record.line,
    )  # fmt: skip


def _mark(text: str, record: Record) -> Event | None:
    """Return the event of a boot, of a driver that is loaded, or of a part that is reset."""
    if record.transport == "mark" or BANNER.match(text):
        hit = BANNER.match(text)
        entry, values = ("boot:kernel", {"kernel": hit["kernel"]}) if hit else ("boot:mark", {})
        return Event(
            "boot",
            0,
            entry,
            "",
            "",
            record.at_s,
            record.wall_s,
            text,
            values=values,
            line=record.line,
        )
    hit = LOADED.search(text)
    if hit and _is_said(text, hit.start(), record):
        values = {"driver": hit["driver"]}
        return Event(
            "reset",
            0,
            "reset:driver",
            "",
            "",
            record.at_s,
            record.wall_s,
            text,
            values=values,
            line=record.line,
        )
    for entry, shape in (("reset:nvswitch", PROBED), ("reset:gpu", RESET)):
        hit = shape.search(text)
        if hit and _is_said(text, hit.start(), record):
            address = hit["address"] or hit.groupdict().get("card") or ""
            where = pci_address(address) if address.count(":") == 2 else ""
            return Event(
                "reset", 0, entry, where, "", record.at_s, record.wall_s, text, line=record.line
            )
    return None


FIELDS = ("address", "part", "severity", "pid", "process")


def _known(text: str, record: Record) -> Event | None:
    """Return the event of a line without a code, as the table of such lines has it."""
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
    values = {name: value for name, value in fields.items() if name not in FIELDS}
    return Event(
        kind,
        0,
        entry,
        at_s=record.at_s,
        wall_s=record.wall_s,
        text=text,
        values=values,
        line=record.line,
        **own,
    )
