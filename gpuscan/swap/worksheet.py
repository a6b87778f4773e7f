"""The worksheet of a swap: which part to pull, where it sits, and what sits next to it."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuscan import profile
from gpuscan.durations import format_moment
from gpuscan.engine.report import Report
from gpuscan.engine.reported import plain
from gpuscan.errors import UsageError
from gpuscan.model import Node, Seen, is_unread, read_or
from gpuscan.model.nvml import ACCESS
from gpuscan.swap.expect import PART, Expectation, Gaps, find_part
from gpuscan.swap.parts import SwapPart, list_parts
from gpuscan.swap.remembered import identify, list_gone
from gpuscan.text import printable

NEXT = "power off, do the work, power on, then run gpuscan swap verify --settle 5m"


class PartToPull(NamedTuple):
    """One part to pull: `gpu:SXM6`, its location, identity and neighbours; "" where unknown.

    *reseated*: it goes back into its slot. *state* says why it did not tell everything itself, and
    *serial_source* who told its serial number instead.
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
    physical_slot: str = ""
    serial_source: str = ""
    state: str = ""


def find_part_to_pull(
    expectation: Expectation, node: Node, chosen: profile.Profile, gaps: Gaps
) -> PartToPull:
    """Return the part that `--part` names: as the node lists it, as earlier runs saw it last if the
    node has lost it, or only its slot if nobody knows more.

    Raises UsageError where the name is no part's.
    """
    if not expectation.name:
        whole = expectation.kind
        return PartToPull(whole, whole, "", "", "", "", "", (), expectation.reseated)

    def name_of(label: str) -> str:
        return profile.silkscreen(chosen, label)

    listed = identify(list_parts(node, name_of), node.past)
    present = [part for part in listed if part.kind == expectation.kind]
    gone = [part for part in list_gone(node, listed) if part.kind == expectation.kind]
    _, label = find_part(expectation, [(part, None) for part in (*present, *gone)], gaps, PART)
    part = next((one for one in (*present, *gone) if one.label == label), None)
    _refuse_renumbered(expectation, part, gone)
    if part is None:
        _refuse_former_name(expectation, present, node)
    physical = getattr(part.record, "physical_slot", "") if part else ""
    return PartToPull(
        word=f"{expectation.kind}:{label}",
        kind=expectation.kind,
        slot=label,
        silkscreen=name_of(label),
        address=part.address if part else "",
        serial=_id(part),
        part_number=_part_number(part),
        neighbours=_neighbours(label, present),
        reseated=expectation.reseated,
        physical_slot=read_or(physical, ""),
        serial_source=part.told_by if part else "",
        state=_state_of(part) if part in present else _absence_of(part, node),
    )


def _refuse_renumbered(
    expectation: Expectation, part: SwapPart | None, gone: Sequence[SwapPart]
) -> None:
    """Refuse a name that the kernel has given to another part since the one that had it is gone:
    a good one would be pulled. Raises UsageError.
    """
    name = expectation.name.lower()
    former = next((one for one in gone if name in one.names and name != _id(one).lower()), None)
    if part is None or former is None or part.label.lower() != name:
        return
    raise UsageError(
        f"{PART.name} {expectation.text}: {part.label} is at {part.address} now (serial"
        f" {_id(part) or 'not read'}), and was at {former.address} (serial {_id(former)}), which"
        " is gone: give the address or the serial number"
    )


def _refuse_former_name(expectation: Expectation, present: Sequence[SwapPart], node: Node) -> None:
    """Refuse a name that a part had in earlier runs, and that is listed under another one now.
    Raises UsageError.
    """
    seen = () if is_unread(node.past) else node.past.parts
    serials = {
        one.serial
        for one in seen
        if one.kind == expectation.kind and one.slot.lower() == expectation.name.lower()
    }
    now = next((part for part in present if part.ids.get("serial") in serials), None)
    if now is not None:
        raise UsageError(
            f"{PART.name} {expectation.text}: it is {now.label} now (serial {_id(now)}): give the"
            " address or the serial number"
        )


def _state_of(part: SwapPart | None) -> str:
    """Return why a listed part does not tell all of itself; "" where it answers."""
    access = getattr(part.record, "access", "ok") if part else "ok"
    if is_unread(access):
        return f"it did not answer: {access.text}"
    return ACCESS[access].of_gpu if access in ACCESS else ""


def _absence_of(part: SwapPart | None, node: Node) -> str:
    if part is None:
        return "not listed by this node, and seen by no earlier run: check the name"
    if any(adapter.address == part.address for adapter in read_or(node.adapters, ())):
        return "on PCI, but without a port"
    seen = part.record
    when = f", last seen {format_moment(seen.last_s)}" if isinstance(seen, Seen) else ""
    return f"not in the node now{when}"


def _id(part: SwapPart | None) -> str:
    if part is None:
        return ""
    return part.ids.get("serial") or next(iter(part.ids.values()), "")


def _part_number(part: SwapPart | None) -> str:
    number = part.marks.get("part number") if part else None
    return "" if number is None or is_unread(number) else str(number)


def _neighbours(label: str, present: Sequence[SwapPart]) -> tuple[str, ...]:
    """Return the parts on both sides, so that nobody pulls one of them by mistake."""
    place = _natural_order(label)
    order = sorted(present, key=lambda part: _natural_order(part.label))
    before = [part for part in order if _natural_order(part.label) < place]
    after = [part for part in order if _natural_order(part.label) > place]
    beside = before[-1:] + after[:1]
    return tuple(f"{part.label} ({_id(part) or 'serial not read'})" for part in beside)


def _natural_order(label: str) -> tuple[str, list[int], str]:
    """SXM10 comes after SXM9; parts that are named by their address come apart."""
    stem = re.match("[^0-9]*", label)
    numbers = [int(number) for number in re.findall("[0-9]+", label)]
    return stem[0] if stem else "", numbers, label


class Kept(NamedTuple):
    """What `swap begin` kept: the ticket, the folder with the evidence ("" for none) and what else
    there is to say.
    """

    ticket: str
    evidence: str
    notes: tuple[str, ...] = ()
    drill: bool = False


def render_worksheet(kept: Kept, report: Report, parts: Sequence[PartToPull], format_: str) -> str:
    """Return what to pull, where the evidence lies and what comes next, as text or JSON."""
    if format_ == "json":
        document = {
            "ticket": kept.ticket,
            "host": plain(report.host),
            "parts": [part._asdict() for part in parts],
            "evidence": kept.evidence,
            "next": NEXT,
            "drill": kept.drill,
            "notes": kept.notes,
        }
        return json.dumps(document, indent=1) + "\n"
    host = read_or(report.host.hostname, "") or "this node"
    serials = (report.host.chassis_serial, report.host.serial)
    chassis = next((serial for serial in serials if read_or(serial, "")), "not read")
    lines = [f"Swap {kept.ticket} on {host}, chassis serial {chassis}: pull"]
    for part in parts:
        lines += _lines_of(part)
    lines += kept.notes
    if not kept.drill:
        lines.append(f"The node is now held (gpuscan status). Evidence: {kept.evidence}")
    lines.append(f"Next: {NEXT}")
    return "".join(f"{printable(line)}\n" for line in lines)


def _lines_of(part: PartToPull) -> list[str]:
    silkscreen = f" (on the board: {part.silkscreen})" if part.silkscreen else ""
    back = " and put it back" if part.reseated else ""
    heading = f"  {part.kind} {part.slot}{silkscreen}".rstrip() + back
    if not part.slot:
        return [heading]
    told = f" (from {part.serial_source})" if part.serial_source else ""
    slot = f", chassis slot {part.physical_slot}" if part.physical_slot else ""
    return [
        heading,
        *([f"    state       {part.state}"] if part.state else []),
        f"    serial      {part.serial or 'not read: see the chassis label or the BMC'}{told}",
        f"    part number {part.part_number or 'not read'}",
        f"    address     {part.address or 'not read'}{slot}",
        f"    next to     {', '.join(part.neighbours) or 'no other part of its kind'}",
    ]
