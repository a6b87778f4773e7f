"""The text on a terminal: the same lines, wrapped to its width and coloured by rich."""

import io
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gpuscan.engine.report import Report
from gpuscan.renderers.lines import Line
from gpuscan.renderers.text import lines


def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    """Return the reports, wrapped with hanging indents.

    The caller prints them: rich itself would fail in a locale that is not UTF-8.
    """
    out = io.StringIO()
    terminal = sys.stdout is not None and sys.stdout.isatty()
    forced = os.environ.get("CLICOLOR_FORCE", "") not in ("", "0")
    console = Console(
        file=out, force_terminal=terminal or forced or None, highlight=False, soft_wrap=False
    )
    for line in lines(reports, verbosity=verbosity, many=many):
        console.print(_wrapped(line, console))
    return out.getvalue()


def _wrapped(line: Line, console: Console) -> Text:
    text = Text(line.text)
    if line.style:
        text.stylize(line.style, 0, line.styled)
    for start, end, style in line.spans:
        text.stylize(style, start, end)
    if len(line.text) <= console.width:
        return text
    head, tail = text[: line.hang], text[line.hang :]
    wrapped = tail.wrap(console, max(console.width - line.hang, 20))
    joined = head
    for number, piece in enumerate(wrapped):
        piece.rstrip()
        joined = joined + (Text("\n" + " " * line.hang) if number else Text("")) + piece
    return joined
