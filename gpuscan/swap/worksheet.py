"""What is to be pulled out of a node: where it sits, what it is known by, what sits beside it."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuscan import profile
from gpuscan.errors import UsageError
from gpuscan.model import Node, is_unread
from gpuscan.model.outcome import Report
from gpuscan.swap import expect as expecting
from gpuscan.swap import parts
from gpuscan.text import printable

NEXT = "power off, change the part, power on, then gpuscan swap verify --settle 5m"


class Pulled(NamedTuple):
    """One part that is to be pulled: its word (`gpu:SXM6`), where it sits, what it is known by,
    and what sits beside it.
    """

    word: str
    kind: str
    slot: str
    silkscreen: str
    address: str
    serial: str
    part_number: str
    neighbours: tuple[str, ...]


def pulled(one: expecting.Expected, node: Node, chosen: profile.Profile) -> Pulled:
    """Return the part that a word names: of the node as it is, or for a GPU that it lacks of what
    was seen there last.
    """
    if not one.name:
        return Pulled(one.kind, one.kind, "", "", "", "", "", ())

    def name_of(label: str) -> str:
        return profile.silkscreen(chosen, label)

    known = [part for part in parts.listed(node, name_of) if part.kind == one.kind]
    seen = [] if is_unread(node.past) else [s for s in node.past.parts if s.kind == one.kind]
    before = next(
        (
            s
            for s in reversed(seen)
            if one.name.lower() in (s.slot.lower(), s.serial.lower(), s.address)
        ),
        None,
    )
    usual = {s.address: s.slot for s in seen}
    slots = [*(chosen.data["gpu"]["slots"] or ()), *(s.slot for s in seen)]
    try:
        _, label = expecting.named(one, [(part, None) for part in known], slots)
    except UsageError as error:
        raise UsageError(
            str(error)
            .replace("--expect", "--part")
            .replace(" in either recording", " in this node")
        ) from None
    part = next(
        (part for part in known if part.label == label or usual.get(part.address) == label), None
    )
    serial = _id(part) or (before.serial if before else "")
    number = part.marks.get("part number") if part else None
    return Pulled(
        word=f"{one.kind}:{label}",
        kind=one.kind,
        slot=label,
        silkscreen=name_of(label),
        address=part.address if part else before.address if before else "",
        serial=serial,
        part_number=str(number)
        if number and not is_unread(number)
        else before.part_number
        if before
        else "",
        neighbours=_neighbours(label, known),
    )


def _id(part: parts.Part | None) -> str:
    return (part.ids.get("serial") or next(iter(part.ids.values()), "")) if part else ""


def _neighbours(label: str, known: Sequence[parts.Part]) -> tuple[str, ...]:
    """Name the parts on both sides, so that nobody pulls one of them: by label, numbers as
    numbers.
    """
    order = sorted(
        known,
        key=lambda part: ([int(number) for number in re.findall("[0-9]+", part.label)], part.label),
    )
    labels = [part.label for part in order]
    if label not in labels:
        return ()
    at = labels.index(label)
    beside = order[max(at - 1, 0) : at] + order[at + 1 : at + 2]
    return tuple(f"{part.label} ({_id(part) or 'serial not read'})" for part in beside)


def sheet(ticket: str, report: Report, pulled: Sequence[Pulled], place: str, format_: str) -> str:
    """Return what to pull, where the evidence is and what comes next, as text or JSON."""
    host = report.host.get("hostname") or "this node"
    if format_ == "json":
        rows = [one._asdict() for one in pulled]
        return (
            json.dumps(
                {
                    "ticket": ticket,
                    "host": report.host,
                    "parts": rows,
                    "evidence": place,
                    "next": NEXT,
                },
                indent=1,
            )
            + "\n"
        )
    chassis = report.host.get("chassis_serial") or report.host.get("serial") or "not read"
    lines = [f"Swap {ticket} on {host}, chassis serial {chassis}: pull"]
    for one in pulled:
        board = f" (on the board: {one.silkscreen})" if one.silkscreen else ""
        lines.append(f"  {one.kind} {one.slot}{board}".rstrip())
        if one.slot:
            lines += [
                f"    serial      {one.serial or 'not read: see the chassis label or the BMC'}",
                f"    part number {one.part_number or 'not read'}",
                f"    address     {one.address or 'not read'}",
                f"    beside it   {', '.join(one.neighbours) or 'nothing of its kind'}",
            ]
    lines += [f"The node is held from now on: gpuscan status. Evidence: {place}", f"Then: {NEXT}"]
    return "".join(f"{printable(line)}\n" for line in lines)
