"""Lines of text with the styles that a terminal gives them."""

from typing import NamedTuple

INDENT = " " * 9  # below a status word, and below the head of a paragraph


class Line(NamedTuple):
    """One line.

    The first *styled* characters have *style*; *spans* are (start, end, style) of further pieces.
    Where the line is too long for a terminal, what wraps is indented by *hang* columns.
    """

    text: str
    style: str = ""
    styled: int = 0
    hang: int = 0
    spans: tuple[tuple[int, int, str], ...] = ()


def indented(text: str, head: str = INDENT) -> Line:
    """Return a line below *head*, or beside it, that wraps with the same indent."""
    return Line(f"{head}{text}", hang=len(INDENT))
