"""Parts that do not answer or are gone: what earlier runs saw of them, and what they are called."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from gpuscan.model import Fact, Node, Past, Seen, Unread, is_unread, read_or
from gpuscan.model.identity import real
from gpuscan.swap.parts import SwapPart

SERIALS = {"gpu": "serial", "nic": "hca_serial", "disk": "serial"}
NUMBERS = {"gpu": "part_number", "nic": "hca_part_number"}
ARCHIVE = "an earlier run"
NOT_SEEN = Unread(
    "", "not-found", "it is not in the node, and no earlier run has its serial number"
)
NUMBERED = re.compile(r"(.*?)([0-9]+)(?:/[0-9]+)?")


def identify(parts: Iterable[SwapPart], past: Fact[Past]) -> list[SwapPart]:
    """Return the parts; one that tells no serial has the one that was last seen in its slot."""
    seen = _newest(past)
    return [_identified(part, seen) for part in parts]


def _identified(part: SwapPart, seen: Sequence[Seen]) -> SwapPart:
    before = next((one for one in seen if _was(one, part)), None)
    if before is None or "serial" in part.ids or part.kind not in SERIALS:
        return part
    facts: dict[str, Any] = {SERIALS[part.kind]: before.serial}
    marks = dict(part.marks)
    number = NUMBERS.get(part.kind)
    if number and before.part_number and is_unread(getattr(part.record, number)):
        facts[number] = marks["part number"] = before.part_number
    return part._replace(
        address=before.address or part.address,
        ids={"serial": before.serial, **part.ids},
        names=part.names | {before.serial.lower()},
        record=part.record._replace(**facts),
        marks=marks,
        told_by=ARCHIVE,
    )


def _was(seen: Seen, part: SwapPart) -> bool:
    """Return whether a silent part is where another was seen: at its address, or in its slot where
    the address was not read either.
    """
    if seen.kind != part.kind:
        return False
    if part.address == part.label == seen.slot:
        return True
    named = part.label != part.address and not part.label.startswith("slot")
    return seen.address == part.address and (seen.slot == part.label or not named)


def _newest(past: Fact[Past]) -> list[Seen]:
    """Return what was seen last in each slot; of two slots at one address only the newer."""
    if isinstance(past, Unread):
        return []
    slots = {(one.kind, one.slot): one for one in past.parts if real(one.serial)}
    places = {(one.kind, one.address or one.slot): one for one in slots.values()}
    return list(places.values())


def list_gone(node: Node, present: Sequence[SwapPart]) -> list[SwapPart]:
    """Return what is no listed part but can be named as one: adapters on PCI that have no port, and
    what earlier runs saw and this node does not show.
    """
    gone = [_gone(one) for one in _newest(node.past) if not _is_present(one, present)]
    gone += [cable for part in gone if part.kind == "nic" for cable in _cables(part, node)]
    known = {part.address for part in (*present, *gone) if part.kind == "nic"}
    gone += [
        _portless(adapter.address)
        for adapter in read_or(node.adapters, ())
        if adapter.address not in known
    ]
    taken = {(part.kind, part.label) for part in present}
    return [
        _renamed(part) if (part.kind, part.label) in taken else part
        for part in gone
        if (part.kind, part.address) not in taken
    ]


def _renamed(part: SwapPart) -> SwapPart:
    """Return a part under its address, as another has its label now."""
    return part._replace(label=part.address, names=part.names | {part.label.lower()})


def _is_present(seen: Seen, present: Sequence[SwapPart]) -> bool:
    return any(
        part.kind == seen.kind
        and (part.ids.get("serial") == seen.serial or part.address in (seen.address, seen.slot))
        for part in present
    )


def _gone(seen: Seen) -> SwapPart:
    return SwapPart(
        kind=seen.kind,
        label=seen.slot,
        address=seen.address,
        places=_places(seen.kind, seen.slot, seen.address),
        ids={"serial": seen.serial},
        lack=NOT_SEEN,
        names=frozenset({seen.serial.lower()}),
        record=seen,
        marks={"part number": seen.part_number} if seen.part_number else {},
        told_by=ARCHIVE,
    )


def _cables(adapter: SwapPart, node: Node) -> list[SwapPart]:
    """Return the cables of an adapter that is gone: of the ports that earlier runs measured."""
    ports = () if isinstance(node.past, Unread) else node.past.ports
    return [
        _unseen("cable", one.label, adapter.address)
        for one in ports
        if one.label.partition("/")[0] == adapter.label
    ]


def _portless(address: str) -> SwapPart:
    return _unseen("nic", address, address)


def _unseen(kind: str, label: str, address: str) -> SwapPart:
    places = _places(kind, label, address)
    return SwapPart(kind, label, address, places, {}, NOT_SEEN, frozenset(), NOT_SEEN)


def _places(kind: str, label: str, address: str) -> tuple[str, ...]:
    """Return where a part of this kind sits, in the order in which `list_parts` gives it."""
    if kind == "gpu":
        return ("" if label == address else label, "", "", address)
    if kind == "cable":
        number = label.partition("/")[2]
        return (f"{address}/{number}" if address and number else "", label)
    return (address, label)


def find_gap(name: str, kind: str, parts: Sequence[SwapPart], *, short: bool) -> SwapPart | None:
    """Return the part of this name that the row of its siblings lacks: SXM7 beside SXM6 and SXM8.

    Where the node is *short* of such parts the next one after the row counts, too. None where the
    name is of another pattern, or beyond.
    """
    wanted = NUMBERED.fullmatch(name.lower())
    if wanted is None or kind not in ("gpu", "nic", "disk", "cable"):
        return None
    stem, number = wanted[1], int(wanted[2])
    alike = {
        int(hit[2]): part
        for part in parts
        if part.kind == kind and part.label != part.address
        if (hit := NUMBERED.fullmatch(part.label.lower())) and hit[1] == stem
    }
    if not alike or number in alike:
        return None
    last, first = max(alike), 1 if kind == "gpu" else 0
    if not first <= number <= last + short:
        return None
    sibling = NUMBERED.fullmatch(alike[last].label)
    spelt = f"{sibling[1]}{number}" if sibling else name
    return _unseen(kind, spelt + name[len(wanted[1]) + len(wanted[2]) :], "")
