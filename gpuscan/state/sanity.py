"""Rows of the archive as they must be: whatever else lies in the file is left out."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from gpuscan.durations import MOST_S

TIMES = {"at", "at_s", "first_at", "last_at", "first_s", "last_s", "complete_s", "since_s"}
NUMBERS = {"value", "most"}
WHOLE = {"id", "exit_code", "complete", "full", "runs", "run"}
PACKED = {"report"}


def sane_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows whose every column is of its kind; SQLite stores anything anywhere."""
    plain = (dict(row) for row in rows)
    return [row for row in plain if all(_is_sane(name, value) for name, value in row.items())]


def _is_sane(name: str, value: Any) -> bool:
    if name in TIMES:
        return isinstance(value, (int, float)) and -MOST_S < value < MOST_S
    if name in NUMBERS:
        return isinstance(value, (int, float)) and math.isfinite(value)
    if name in WHOLE:
        return isinstance(value, int)
    if name in PACKED:
        return value is None or isinstance(value, bytes)
    return isinstance(value, str)
