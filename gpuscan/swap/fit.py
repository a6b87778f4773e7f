"""Which values of a new part are to be compared, and with whose: the siblings', the former part's,
a list's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.model import Compared, Unread, is_unread
from gpuscan.model.outcome import HARMLESS
from gpuscan.swap.parts import Part

NOTHING = Unread("", "not-supported", "it is no part that has such a thing")


class Listed(NamedTuple):
    """What the list of expected parts says of a slot."""

    serial: str
    part_number: str


def compared(
    values: Mapping[str, Any], usual: Mapping[str, Any], whose: str
) -> tuple[Compared, ...]:
    """Return the values for which there is one to compare with; where that one was read, a lack
    here is never harmless.
    """
    return tuple(
        Compared(label, strict(value), usual[label], whose)
        for label, value in values.items()
        if _has(usual, label)
    )


def _has(values: Mapping[str, Any], label: str) -> bool:
    return label in values and not is_unread(values[label])


def strict(value: Any) -> Any:
    """Return a value whose lack makes the judgement incomplete, whatever kind of lack it is:
    others have what it lacks.
    """
    return (
        value._replace(kind="not-found") if is_unread(value) and value.kind in HARMLESS else value
    )


def _common(parts: Sequence[Part], table: str) -> dict[str, Any]:
    """Return, by label, what most of the parts have."""
    found: dict[str, list[Any]] = {}
    for part in parts:
        for label, value in getattr(part, table).items():
            if not is_unread(value):
                found.setdefault(label, []).append(value)
    return {label: max(values, key=values.count) for label, values in found.items()}


OTHERS = {
    "gpu": "the other GPUs have",
    "nic": "the other adapters have",
    "disk": "the other disks have",
}
FORMER = {
    "gpu": "the GPU before had",
    "nic": "the adapter before had",
    "disk": "the disk before had",
}


def _pick(after: Part, table: str, *sides: tuple[Mapping[str, Any], str]) -> tuple[Compared, ...]:
    """Compare each value with the first side that has one."""
    chosen = []
    for label, value in getattr(after, table).items():
        side = next(
            ((values[label], whose) for values, whose in sides if _has(values, label)), None
        )
        if side is not None:
            chosen.append(Compared(label, strict(value), *side))
    return tuple(chosen)


def versions(before: Part | None, after: Part, siblings: Sequence[Part]) -> tuple[Compared, ...]:
    """Return the firmware to compare: with that of parts of its kind, else with that of the part
    before it.
    """
    like = [part for part in siblings if part.group == after.group]
    former = before.versions if before and before.group == after.group else {}
    return _pick(
        after,
        "versions",
        (_common(like, "versions"), OTHERS.get(after.kind, "")),
        (former, FORMER.get(after.kind, "")),
    )


def marks(before: Part | None, after: Part, siblings: Sequence[Part]) -> tuple[Compared, ...]:
    """Return the marks to compare. GPUs are all of one kind; adapters and disks need not be, so
    the part before is asked first.
    """
    usual = _common(siblings, "marks"), OTHERS.get(after.kind, "")
    former = before.marks if before else {}, FORMER.get(after.kind, "")
    return _pick(after, "marks", *((usual, former) if after.kind == "gpu" else (former, usual)))


def former(before: Part | None, after: Part, siblings: Sequence[Part]) -> tuple[Compared, ...]:
    """Return the settings to compare: with those of the part before, else, of a GPU, with the
    others': a dead GPU tells none.
    """
    others = _common(siblings, "settings") if after.kind == "gpu" else {}
    return _pick(
        after,
        "settings",
        (before.settings if before else {}, "before it was"),
        (others, "on the other GPUs it is"),
    )


def by_wanted(part: Part, wanted: Mapping[str, Listed]) -> tuple[Compared, ...]:
    """Return what the list of expected parts says of this one."""
    row, whose = row_of(part, wanted), "the list of expected parts says"
    if row is None:
        return ()
    found = part.ids.get("serial") or part.lack
    marks = [Compared("serial", strict(found), row.serial, whose)] if row.serial else []
    number = part.marks.get("part number", NOTHING)
    return (
        *marks,
        *(
            [Compared("part number", strict(number), row.part_number, whose)]
            if row.part_number
            else []
        ),
    )


def row_of(part: Part, wanted: Mapping[str, Listed]) -> Listed | None:
    """Return the list's row of a part: by `gpu:SXM6`, `SXM6`, its address or its silkscreen."""
    words = {
        part.label.lower(),
        part.address.lower(),
        f"{part.kind}:{part.label}".lower(),
    } | part.names
    return next(
        (row for slot, row in wanted.items() if slot.lower() in words and part.kind != "cable"),
        None,
    )
