"""What a comparison found: one line per part, or one for many that changed alike."""

from collections.abc import Sequence
from typing import Any

from gpuscan.model.report_rows import ChangeRow
from gpuscan.renderers.folding import fold_names

FEWEST_TO_FOLD = 3
UNKNOWN = "what identifies it was not read"
UNKNOWN_MANY = "what identifies them was not read"
NODE_LABELS = {"hostname": "host name", "serial": "serial", "bios_version": "BIOS"}


def lines(rows: Sequence[ChangeRow], *, whole: bool) -> list[str]:
    """Return the changes; parts that changed alike share a line, unless *whole*."""
    alike: dict[tuple[Any, ...], list[ChangeRow]] = {}
    for row in filter(_is_shown, rows):
        alike.setdefault((row.kind, row.what, row.expected), []).append(row)
    shown: list[str] = []
    for (kind, what, expected), group in alike.items():
        if len(group) < FEWEST_TO_FOLD or whole or kind == "node":
            shown += [f"{_name(row)}: {_describe(row)}" for row in group]
        else:
            names = f"{kind} {fold_names([row.slot for row in group])}"
            change = _describe_many(kind, what)
            shown.append(f"{names}: {change} ({_expectation(expected)}; -v shows each)")
    return shown or ["nothing"]


def _is_shown(row: ChangeRow) -> bool:
    if row.kind == "node":
        return bool(_differences(row))
    if row.reseated:
        return True
    if row.what == "unknown":
        # Other parts than GPUs are seldom recorded in full, and the check says so.
        return bool(row.kind == "gpu")
    return bool(row.what != "same")


def _expectation(expected: bool) -> str:
    return "expected" if expected else "not expected"


def _name(row: ChangeRow) -> str:
    return "node" if row.kind == "node" else f"{row.kind} {row.slot}"


def _describe_many(kind: str, what: str) -> str:
    if what == "unknown":
        return UNKNOWN_MANY
    if what == "same":
        return "back in their slots"
    return "each leads elsewhere" if kind == "cable" else what


def _describe(row: ChangeRow) -> str:
    if row.kind == "node":
        return ", ".join(_differences(row))
    if row.what == "unknown":
        return UNKNOWN
    before, after = (part.get("identity") or "?" for part in (row.before, row.after))
    if row.reseated and row.what == "same":
        return f"{after}, back in its slot (expected)"
    after = after if row.what != "missing" else "missing"
    noun, _, value = after.rpartition(" ")
    after = value if noun and before.startswith(f"{noun} ") else after
    moved = ", moved" if row.what == "moved" else ""
    return f"{before} -> {after} ({_expectation(row.expected)}{moved})"


def _differences(row: ChangeRow) -> list[str]:
    """Return what differs of the node itself: its name, serial number or BIOS."""
    values = [
        (label, row.before.get(key), row.after.get(key)) for key, label in NODE_LABELS.items()
    ]
    return [f"{label} {old} -> {new}" for label, old, new in values if old and new and old != new]
