"""Which values of a changed part are compared, and with whose: siblings, former part, a list."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.model import Compared, Unread, is_unread
from gpuscan.model.outcome import HARMLESS
from gpuscan.swap.parts import SwapPart

NOTHING = Unread("", "not-supported", "this kind of part has no such property")

SIBLINGS_HAVE = {
    "gpu": "the other GPUs have",
    "nic": "the other NICs have",
    "disk": "the other disks have",
}
FORMER_HAD = {
    "gpu": "the previous GPU had",
    "nic": "the previous NIC had",
    "disk": "the previous disk had",
}


class ExpectedPart(NamedTuple):
    """One row of the list of expected parts; "" where the list says nothing."""

    serial: str
    part_number: str


class Reference(NamedTuple):
    """Values to compare with, by label, and the words that introduce them in a message."""

    values: Mapping[str, Any]
    source: str

    def knows(self, label: str) -> bool:
        """Return whether this reference has a value for *label* that was read."""
        return label in self.values and not is_unread(self.values[label])


def compare_with(
    values: Mapping[str, Any], reference: Mapping[str, Any], source: str
) -> tuple[Compared, ...]:
    """Return the values that the reference has, too, each beside its reference value."""
    known = Reference(reference, source)
    return tuple(
        Compared(label, required(value), reference[label], source)
        for label, value in values.items()
        if known.knows(label)
    )


def required(value: Any) -> Any:
    """Return the value; an Unread one is made to count, because the reference has this value."""
    if is_unread(value) and value.kind in HARMLESS:
        return value._replace(kind="not-found")
    return value


def _most_common(parts: Sequence[SwapPart], table: str) -> dict[str, Any]:
    """Return the most common value of each label of one table, among the parts that have it."""
    values: dict[str, list[Any]] = {}
    for part in parts:
        for label, value in getattr(part, table).items():
            if not is_unread(value):
                values.setdefault(label, []).append(value)
    return {label: max(each, key=each.count) for label, each in values.items()}


def _compare(after: SwapPart, table: str, *references: Reference) -> tuple[Compared, ...]:
    """Compare each value with the first reference that knows it."""
    rows = []
    for label, value in getattr(after, table).items():
        reference = next((each for each in references if each.knows(label)), None)
        if reference is not None:
            expected = reference.values[label]
            rows.append(Compared(label, required(value), expected, reference.source))
    return tuple(rows)


def compare_versions(
    before: SwapPart | None, after: SwapPart, siblings: Sequence[SwapPart]
) -> tuple[Compared, ...]:
    """Compare firmware with parts of the same group, else with the former part."""
    alike = [part for part in siblings if part.group == after.group]
    former = before.versions if before and before.group == after.group else {}
    return _compare(
        after,
        "versions",
        Reference(_most_common(alike, "versions"), SIBLINGS_HAVE.get(after.kind, "")),
        Reference(former, FORMER_HAD.get(after.kind, "")),
    )


def compare_marks(
    before: SwapPart | None, after: SwapPart, siblings: Sequence[SwapPart]
) -> tuple[Compared, ...]:
    """Compare part number, PSID or model.

    All GPUs of a node are of one kind. Adapters and disks need not be, so the former part decides.
    """
    usual = Reference(_most_common(siblings, "marks"), SIBLINGS_HAVE.get(after.kind, ""))
    former = Reference(before.marks if before else {}, FORMER_HAD.get(after.kind, ""))
    order = (usual, former) if after.kind == "gpu" else (former, usual)
    return _compare(after, "marks", *order)


def compare_settings(
    before: SwapPart | None, after: SwapPart, siblings: Sequence[SwapPart]
) -> tuple[Compared, ...]:
    """Compare settings with the former part's; those of a GPU that was dead, with the siblings'."""
    others = _most_common(siblings, "settings") if after.kind == "gpu" else {}
    return _compare(
        after,
        "settings",
        Reference(before.settings if before else {}, "before it was"),
        Reference(others, "on the other GPUs it is"),
    )


def compare_with_list(part: SwapPart, expected: Mapping[str, ExpectedPart]) -> tuple[Compared, ...]:
    """Compare serial and part number with the list of expected parts."""
    row = find_row(part, expected)
    if row is None:
        return ()
    source = "the list of expected parts says"
    rows = []
    if row.serial:
        serial = part.ids.get("serial") or part.lack
        rows.append(Compared("serial", required(serial), row.serial, source, listed=True))
    if row.part_number:
        number = part.marks.get("part number", NOTHING)
        rows.append(Compared("part number", required(number), row.part_number, source, listed=True))
    return tuple(rows)


def find_row(part: SwapPart, expected: Mapping[str, ExpectedPart]) -> ExpectedPart | None:
    """Return the list's row for a part, by `gpu:SXM6`, `SXM6`, its address or its silkscreen."""
    if part.kind == "cable":
        return None
    names = {part.label.lower(), part.address.lower(), f"{part.kind}:{part.label}".lower()}
    names |= part.names
    return next((row for slot, row in expected.items() if slot.lower() in names), None)
