"""What a tool's line says of one part of the node, as a row of a reading."""

from collections.abc import Iterable
from typing import NamedTuple

from gpuscan.importers.part import answer
from gpuscan.recording import Reading


class Line(NamedTuple):
    """A row of the reading: see `gpuscan.model.Said`; *kind* is "" if it is not understood."""

    part: str
    kind: str
    text: str
    value: float = 1.0
    standing: bool = True


def reading(key: str, lines: Iterable[Line]) -> list[Reading]:
    """Return one reading of all lines, none without any."""
    rows = [list(line) for line in lines]
    return [answer(key, rows)] if rows else []
