"""Incidents: the driver's lines in the kernel log, grouped by part and code, with the action of the catalogue."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuscan.collectors.reading import Sources
from gpuscan.facts import Gpu, Incident, Unread, is_unread
from gpuscan.outcome import RECOVERY_ACTIONS, Action

Record = tuple[float, str]  # seconds since boot, message
PCI = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
LINES = {  # kind of event: its line; `code` is a number, `text` the rest
    "xid": rf"NVRM:\s*Xid \((?:PCI:)?{PCI}(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): (?P<code>\d{{1,9}})(?:, ?(?P<text>.*))?",
    "sxid": rf"nvidia-nvswitch\d+: SXid \(PCI:{PCI}\): (?P<code>\d{{1,9}}),? ?(?P<text>.*)",
    "lost": rf"NVRM:\s*GPU {PCI}: (?P<text>GPU has fallen off the bus.*)",
    "reset": r"NVRM:.*(?P<text>Reset required \[NV_ERR_RESET_REQUIRED\].*)",
}
WORDS = ("Xid", "fallen off the bus", "NV_ERR_RESET_REQUIRED")  # cheaper than four patterns on every line
PROCESS = re.compile(r"pid='?(?P<pid>[^,']+)'?(?:, name=(?P<name>[^,]*))?,? ?")
LOST, RECOVERY = 79, 154
TO_ACTION = re.compile(r"to 0x([0-9a-fA-F]{1,8})")


class Event(NamedTuple):
    """One line: what it is about, and what it says. The driver's notice of a lost card is the Xid that it may lack."""

    kind: str
    address: str
    code: int
    at_s: float
    text: str


def incidents(records: Sequence[Record], gpus: Any, sources: Sources) -> tuple[Incident, ...]:
    """Group the events by part and code, in the order of their first; books where each incident's state comes from."""
    groups: dict[tuple[str, str, int], list[Event]] = {}
    for at_s, message in records:
        event = _event(at_s, message)
        if event:
            groups.setdefault((event.kind, event.address, event.code), []).append(event)
    cards = {} if is_unread(gpus) else {gpu.address: gpu for gpu in gpus}
    found = tuple(_incident(events, cards.get(address)) for (_, address, _), events in groups.items())
    for incident in found:
        card = cards.get(incident.address)
        if card:
            sources[f"incidents[{incident.label}].recovery_action"] = sources.get(f"gpus[{card.label}].recovery_action", ())
    return found


def _event(at_s: float, message: str) -> Event | None:
    if not any(word in message for word in WORDS):
        return None
    for kind, line in LINES.items():
        hit = re.search(line, message)
        if hit:
            named = hit.groupdict()
            address = pci_address(named["address"]) if named.get("address") else ""
            kind, code = ("xid", LOST) if kind == "lost" else (kind, int(named.get("code") or 0))
            return Event(kind, address, code, at_s, named.get("text") or "")
    return None


def address_in(message: str, codes: Sequence[int]) -> list[str]:
    """Return the card that a line blames with one of these Xids, if it is such a line."""
    event = _event(0.0, message)
    return [event.address] if event and event.kind == "xid" and event.code in codes else []


def _incident(events: Sequence[Event], card: Gpu | None) -> Incident:
    from gpuscan.catalogue import xid  # only when there is an event: reading the catalogue takes its time

    first, last = events[0], events[-1]
    entry = xid.entry(first.kind, first.code)
    where = card.label if card else first.address
    unknown: Any = Unread("", "not-found", "no such card is here to ask")
    return Incident(
        label=f"{NAMES[first.kind]}{f' {first.code}' if first.code else ''}{f' on {where}' if where else ''}",
        address=first.address,
        kind=first.kind,
        code=first.code,
        name=entry.name,
        action=_wanted(last.text).value if (first.kind, first.code) == ("xid", RECOVERY) else entry.action,
        events=len(events),
        first_s=first.at_s,
        last_s=last.at_s,
        text=_without_process(first.text),
        processes=tuple(dict.fromkeys(process for event in events for process in _process(event.text))),
        recovery_action=card.recovery_action if card else unknown,
    )


NAMES = {"xid": "Xid", "sxid": "SXid", "reset": "Reset required"}


def _wanted(message: str) -> Action:
    """Return what the last line of Xid 154 leaves wanted; its words change with the driver, its number does not."""
    hit = TO_ACTION.search(message)
    return RECOVERY_ACTIONS.get(int(hit[1], 16), Action.INVESTIGATE) if hit else Action.INVESTIGATE


def _process(message: str) -> list[str]:
    hit = PROCESS.match(message)
    known = hit and "unknown" not in hit["pid"]
    return [f"{hit['name'] or '?'} (pid {hit['pid']})"] if hit and known else []


def _without_process(message: str) -> str:
    return PROCESS.sub("", message, count=1) if message.startswith("pid=") else message


def pci_address(text: str) -> str:
    """Return a PCI address as sysfs and lspci write it: lower case, at least 4 digits of domain, function .0.

    >>> pci_address("00000000:1B:00"), pci_address("0000:1b:00.0"), pci_address("00010000:03:00.0")
    ('0000:1b:00.0', '0000:1b:00.0', '10000:03:00.0')
    """
    domain, bus, rest = text.lower().split(":")
    device, _, function = rest.partition(".")
    return f"{int(domain, 16):04x}:{bus}:{device}.{function or '0'}"
