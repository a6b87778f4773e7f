"""Plain-text tables."""

from collections.abc import Collection, Sequence
from textwrap import wrap

GAP = 2  # columns between two cells
NARROWEST = 20  # columns of the last cell; where a terminal leaves it fewer, the line runs over


def align(
    rows: Sequence[Sequence[str]], *, right: Collection[int] = (), width: int = 0
) -> list[str]:
    """Return the rows as lines whose cells stand below each other.

    The columns numbered in *right* are aligned to the right. With a *width*, that of a terminal,
    the last cell wraps below itself.

    >>> align([("gpu", "7"), ("port", "12")], right=[1])
    ['gpu    7', 'port  12']
    >>> align([("a", "one two three four five six"), ("bc", "seven")], width=24)
    ['a   one two three four', '    five six', 'bc  seven']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    indent = sum(widths[:-1]) + GAP * (len(widths) - 1)
    room = width - indent if width - indent >= NARROWEST else 0
    lines = []
    for row in rows:
        cells = [
            cell.rjust(size) if number in right else cell.ljust(size)
            for number, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        last = wrap(row[-1], room, break_on_hyphens=False) if room else []
        if len(last) > 1:
            cells[-1], *rest = last
        else:
            rest = []
        lines.append((" " * GAP).join(cells).rstrip())
        lines += [" " * indent + piece for piece in rest]
    return lines
