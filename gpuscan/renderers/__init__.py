"""Reports for readers: one function a format, all in one dict."""

from collections.abc import Sequence
from typing import Protocol

from gpuscan.errors import UsageError, near_misses
from gpuscan.model.outcome import Report


class Renderer(Protocol):
    """Turn reports (one, or *many* of `judge`) into text."""

    def __call__(self, reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
        """Return the whole text, newline at its end."""


def _later(module: str, function: str = "render") -> Renderer:
    """Return a renderer whose module is imported when it is called."""

    def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
        from importlib import import_module

        whole: str = getattr(import_module(f"gpuscan.renderers.{module}"), function)(
            reports, verbosity=verbosity, many=many
        )
        return whole

    return render


RENDERERS = {
    "text": _later("text"),
    "json": _later("json_"),
    "junit": _later("junit"),
    "junit-full": _later("junit", "render_full"),
}


def find(name: str) -> Renderer:
    """Return the renderer of a format; raises UsageError for an unknown one."""
    if name not in RENDERERS:
        raise UsageError(
            f"unknown format '{name}': {near_misses(name, list(RENDERERS), 'formats')}"
        )
    return RENDERERS[name]
