"""The report formats: one module each, listed in one table."""

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from gpuscan.engine.report import Report
from gpuscan.errors import UsageError, near_misses


class Renderer(Protocol):
    """Turn reports (one, or *many* of `judge`) into text."""

    def __call__(self, reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
        """Return the whole text, newline at its end."""


class Format(NamedTuple):
    """Where a format's renderer is: a module here and its function.

    *terminal* is the module whose `render` takes over where standard output is a terminal. Modules
    are imported when they are used.
    """

    module: str
    function: str = "render"
    terminal: str = ""


# To add a format: its module, and one line here. `--format` and its help follow.
RENDERERS = {
    "text": Format("text", terminal="terminal"),
    "json": Format("json_"),
    "junit": Format("junit"),
    "junit-full": Format("junit", "render_full"),
    "ctrf": Format("ctrf"),
    "github": Format("github"),
    "markdown": Format("markdown"),
}
FORMATS = tuple(RENDERERS)


def find(name: str, *, on_terminal: bool = False) -> Renderer:
    """Return the renderer of a format; raises UsageError for an unknown one.

    The renderer's module is imported by its first call: names are checked before a scan begins,
    and what renders them is not needed until it has ended.
    """
    if name not in RENDERERS:
        raise UsageError(f"unknown format '{name}': {near_misses(name, list(FORMATS), 'formats')}")
    row = RENDERERS[name]
    if on_terminal and row.terminal:
        row = Format(row.terminal)

    def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
        module = import_module(f"gpuscan.renderers.{row.module}")
        whole: str = getattr(module, row.function)(reports, verbosity=verbosity, many=many)
        return whole

    return render
