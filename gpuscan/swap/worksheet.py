"""The worksheet of a swap: which part to pull, where it sits, and what sits next to it."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuscan import profile
from gpuscan.engine.report import Report
from gpuscan.engine.reported import plain
from gpuscan.model import Node, Seen, is_unread, read_or
from gpuscan.swap.expect import PART, Expectation, find_part
from gpuscan.swap.parts import SwapPart, list_parts
from gpuscan.text import printable

NEXT = "power off, do the work, power on, then run gpuscan swap verify --settle 5m"


class PartToPull(NamedTuple):
    """One part to pull: `gpu:SXM6`, its location, identity and neighbours; "" where unknown.

    *reseated*: it goes back into its slot.
    """

    word: str
    kind: str
    slot: str
    silkscreen: str
    address: str
    serial: str
    part_number: str
    neighbours: tuple[str, ...]
    reseated: bool


def find_part_to_pull(expectation: Expectation, node: Node, chosen: profile.Profile) -> PartToPull:
    """Return the part that `--part` names, or what was last seen there if the node lost it.

    Raises UsageError where the node has no such part.
    """
    if not expectation.name:
        whole = expectation.kind
        return PartToPull(whole, whole, "", "", "", "", "", (), expectation.reseated)

    def name_of(label: str) -> str:
        return profile.silkscreen(chosen, label)

    present = [part for part in list_parts(node, name_of) if part.kind == expectation.kind]
    past = [] if is_unread(node.past) else node.past.parts
    seen = [part for part in past if part.kind == expectation.kind]
    slots = [*(chosen.data["gpu"]["slots"] or ()), *(part.slot for part in seen)]
    _, label = find_part(expectation, [(part, None) for part in present], slots, PART)
    part = _present_in(label, present, seen)
    last = _last_seen(expectation.name, seen)
    return PartToPull(
        word=f"{expectation.kind}:{label}",
        kind=expectation.kind,
        slot=label,
        silkscreen=name_of(label),
        address=part.address if part else last.address,
        serial=_id(part) or last.serial,
        part_number=_part_number(part) or last.part_number,
        neighbours=_neighbours(label, present),
        reseated=expectation.reseated,
    )


UNSEEN = Seen("", "", "", "", "", 0.0, 0.0)


def _last_seen(name: str, seen: Sequence[Seen]) -> Seen:
    """Return the newest record of a slot, serial or address, or an empty one."""
    wanted = name.lower()
    for part in reversed(seen):
        if wanted in (part.slot.lower(), part.serial.lower(), part.address):
            return part
    return UNSEEN


def _present_in(label: str, present: Sequence[SwapPart], seen: Sequence[Seen]) -> SwapPart | None:
    """Return the part with this label, or the silent one at the address that the label had."""
    usual_slots = {part.address: part.slot for part in seen}
    for part in present:
        if label in (part.label, usual_slots.get(part.address)):
            return part
    return None


def _id(part: SwapPart | None) -> str:
    if part is None:
        return ""
    return part.ids.get("serial") or next(iter(part.ids.values()), "")


def _part_number(part: SwapPart | None) -> str:
    number = part.marks.get("part number") if part else None
    return "" if number is None or is_unread(number) else str(number)


def _neighbours(label: str, present: Sequence[SwapPart]) -> tuple[str, ...]:
    """Return the parts on both sides, so that nobody pulls one of them by mistake."""
    order = sorted(present, key=_natural_order)
    labels = [part.label for part in order]
    if label not in labels:
        return ()
    at = labels.index(label)
    beside = order[max(at - 1, 0) : at] + order[at + 1 : at + 2]
    return tuple(f"{part.label} ({_id(part) or 'serial not read'})" for part in beside)


def _natural_order(part: SwapPart) -> tuple[list[int], str]:
    """SXM10 comes after SXM9."""
    return [int(number) for number in re.findall("[0-9]+", part.label)], part.label


def render_worksheet(
    ticket: str, report: Report, parts: Sequence[PartToPull], evidence: str, format_: str
) -> str:
    """Return what to pull, where the evidence lies and what comes next, as text or JSON."""
    if format_ == "json":
        document = {
            "ticket": ticket,
            "host": plain(report.host),
            "parts": [part._asdict() for part in parts],
            "evidence": evidence,
            "next": NEXT,
        }
        return json.dumps(document, indent=1) + "\n"
    host = read_or(report.host.hostname, "") or "this node"
    serials = (report.host.chassis_serial, report.host.serial)
    chassis = next((serial for serial in serials if read_or(serial, "")), "not read")
    lines = [f"Swap {ticket} on {host}, chassis serial {chassis}: pull"]
    for part in parts:
        lines += _lines_of(part)
    lines += [f"The node is now held (gpuscan status). Evidence: {evidence}", f"Next: {NEXT}"]
    return "".join(f"{printable(line)}\n" for line in lines)


def _lines_of(part: PartToPull) -> list[str]:
    silkscreen = f" (on the board: {part.silkscreen})" if part.silkscreen else ""
    back = " and put it back" if part.reseated else ""
    heading = f"  {part.kind} {part.slot}{silkscreen}".rstrip() + back
    if not part.slot:
        return [heading]
    return [
        heading,
        f"    serial      {part.serial or 'not read: see the chassis label or the BMC'}",
        f"    part number {part.part_number or 'not read'}",
        f"    address     {part.address or 'not read'}",
        f"    next to     {', '.join(part.neighbours) or 'no other part of its kind'}",
    ]
