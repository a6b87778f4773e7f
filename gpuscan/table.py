"""Tables of plain cells: aligned by hand in a file or pipe, laid out by rich on a terminal."""

from collections.abc import Collection, Sequence

GAP = 2  # columns between two cells
NARROWEST = 20  # columns of the last cell; where a terminal leaves it fewer, the line runs over


def align(
    rows: Sequence[Sequence[str]], *, right: Collection[int] = (), width: int = 0
) -> list[str]:
    """Return the rows as lines whose cells stand below each other.

    The columns numbered in *right* are aligned to the right. With a *width*, that of a terminal,
    rich wraps the last cell below itself; without one (0) it is not imported.

    >>> align([("gpu", "7"), ("port", "12")], right=[1])
    ['gpu    7', 'port  12']
    >>> align([("a", "one two three four five six"), ("bc", "seven")], width=24)
    ['a   one two three four', '    five six', 'bc  seven']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    indent = sum(widths[:-1]) + GAP * (len(widths) - 1)
    if width - indent >= NARROWEST and indent + widths[-1] > width:
        return _laid_out_by_rich(rows, right, width)
    return [_line(row, widths, right) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    cells = [
        cell.rjust(size) if number in right else cell.ljust(size)
        for number, (cell, size) in enumerate(zip(row, widths, strict=True))
    ]
    return (" " * GAP).join(cells).rstrip()


def _laid_out_by_rich(
    rows: Sequence[Sequence[str]], right: Collection[int], width: int
) -> list[str]:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, GAP, 0, 0))
    last = len(rows[0]) - 1
    for number in range(len(rows[0])):
        table.add_column(justify="right" if number in right else "left", no_wrap=number != last)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]
