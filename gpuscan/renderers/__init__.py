"""Reports for readers: one function a format, all in one dict."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gpuscan.errors import UsageError, near_misses
from gpuscan.outcome import Report


class Renderer(Protocol):
    """Turn reports (one, or *many* of `judge`) into text."""

    def __call__(self, reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
        """Return the whole text, newline at its end."""


def _json(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    from gpuscan.renderers import json_

    return json_.render(reports, verbosity=verbosity, many=many)


def _text(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    from gpuscan.renderers import text

    return text.render(reports, verbosity=verbosity, many=many)


def _junit(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    from gpuscan.renderers import junit

    return junit.render(reports, verbosity=verbosity, many=many)


def _junit_full(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    from gpuscan.renderers import junit

    return junit.render_full(reports, verbosity=verbosity, many=many)


RENDERERS: dict[str, Callable[..., str]] = {"text": _text, "json": _json, "junit": _junit, "junit-full": _junit_full}


def find(name: str) -> Renderer:
    """Return the renderer of a format; raises UsageError for an unknown one."""
    if name not in RENDERERS:
        raise UsageError(f"unknown format '{name}': {near_misses(name, list(RENDERERS), 'formats')}")
    return RENDERERS[name]
