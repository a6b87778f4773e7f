"""Tables of numbers as lines of 80 columns: groups of columns side by side, what does not fit in a
table of its own.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from gpuscan.renderers.lines import Line

WIDTH = 80
MARK = 2  # columns behind each number


class Cell(NamedTuple):
    """A number in words, the mark behind it, and the style that says the same on a terminal."""

    text: str
    mark: str = ""
    style: str = ""


class Column(NamedTuple):
    """The cells of one column, one a row; columns of one *group* stand together under its name,
    with *behind* as room for a name that is wider than they are.
    """

    group: str
    head: str
    cells: tuple[Cell, ...]
    behind: int = 0

    @property
    def figures(self) -> int:
        """Return the width of its numbers and heading."""
        return max(len(self.head), *(len(cell.text) for cell in self.cells))

    @property
    def width(self) -> int:
        """Return the width with the gap before it and the marks behind it."""
        return 1 + self.figures + MARK + self.behind


def tables(rows: Sequence[str], columns: Sequence[Column]) -> list[Line]:
    """Return tables with a row for each of *rows*, an empty line before each table."""
    left = max(map(len, rows))
    told = []
    for table in _packed(columns, WIDTH - left):
        told += [
            Line(""),
            Line(_groups(table, left)),
            Line((" " * left + "".join(map(_head, table))).rstrip()),
        ]
        told += [
            _row(name.ljust(left), [(column, column.cells[n]) for column in table])
            for n, name in enumerate(rows)
        ]
    return told


def _packed(columns: Sequence[Column], room: int) -> Iterator[list[Column]]:
    """Yield as many columns as fit; a group is divided only where it is wider than a table."""
    table: list[Column] = []
    for group, members in groupby(columns, key=lambda column: column.group):
        run = _widened(list(members))
        if table and _width(table) + max(_needed(run), len(group) + 1) > room:
            yield table
            table = []
        for column in run:
            if table and _width(table) + _needed([column]) > room:
                yield table
                table = []
            table.append(column)
    if table:
        yield table


def _widened(group: list[Column]) -> list[Column]:
    """Return a group that is as wide as its name, so that the next name stands apart from it."""
    lacks = 1 + len(group[0].group) + MARK - _width(group)
    return [*group[:-1], group[-1]._replace(behind=max(lacks, 0))]


def _needed(columns: Sequence[Column]) -> int:
    """Return the width of columns with nothing beside the last."""
    return _width(columns) - columns[-1].behind


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns)


def _groups(table: Sequence[Column], left: int) -> str:
    """Name each group above its first column."""
    text = ""
    at = left
    for group, members in groupby(table, key=lambda column: column.group):
        text = f"{text.ljust(at)} {group}"
        at += _width(list(members))
    return text


def _head(column: Column) -> str:
    return f" {column.head.rjust(column.figures)}{' ' * (MARK + column.behind)}"


def _row(name: str, cells: Sequence[tuple[Column, Cell]]) -> Line:
    text, spans = name, []
    for column, cell in cells:
        text += f" {cell.text.rjust(column.figures)}"
        if cell.style:
            spans.append((len(text) - len(cell.text), len(text) + len(cell.mark), cell.style))
        text += cell.mark.ljust(MARK + column.behind)
    return Line(text.rstrip(), spans=tuple(spans))
