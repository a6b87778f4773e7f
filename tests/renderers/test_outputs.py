"""Golden outputs of a healthy, a mixed and an empty node, judged by the toy checks beside them.

The toys are frozen, so that adding a bundled check changes no golden file. Each file is named with
its exit code; `GPUSCAN_WRITE_GOLDEN=1 pytest tests/renderers/test_outputs.py` rewrites them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from nodes_recordings import base
from paths import TESTS

from gpuscan import __version__, renderers
from gpuscan.engine import judging, suite
from gpuscan.engine.report import Report
from gpuscan.renderers import terminal
from gpuscan.tickets import ticket

FOLDER = TESTS / "outputs"
# Golden name -> recording, and the profile that judges it.
NODES = {
    "healthy": ("demo", "h200-4x"),
    "mixed": ("demo-broken", "h200-4x"),
    "empty": ("no-card", "default"),
    "container": ("container-4-of-8", "h100-8x"),
    "app-xids": ("h200-4x-app-xids", "h200-4x"),
    "burnin": ("h200-2x-quick", "h200"),
}
SUFFIXES = {"text": "txt", "json": "json", "junit": "xml", "terminal": "ansi"}


class Golden(NamedTuple):
    """One golden file: the node, the format, and the verbosity (-1 quiet, 0, 1 verbose)."""

    node: str
    format: str = "text"
    verbosity: int = 0

    @property
    def stem(self) -> str:
        """The file's name before its exit code: `mixed-verbose`."""
        return self.node + {-1: "-quiet", 0: "", 1: "-verbose"}[self.verbosity]

    def file(self, code: int) -> Path:
        """The file: `mixed.41.txt`."""
        return FOLDER / f"{self.stem}.{code}.{SUFFIXES[self.format]}"


CASES = (
    *(Golden(node, format_) for node in ("healthy", "mixed", "empty") for format_ in SUFFIXES),
    Golden("mixed", verbosity=1),
    Golden("mixed", verbosity=-1),
    Golden("container"),
    Golden("app-xids"),
    Golden("burnin"),
)
TICKETS = {"text": "mixed-ticket.0.txt", "markdown": "mixed-ticket.0.md"}


@cache
def toys() -> tuple[suite.Check, ...]:
    """The toy checks, from a copy that only its owner may write: the superuser is refused others,
    and a checkout may have them.
    """
    with tempfile.TemporaryDirectory() as folder:
        for file in (FOLDER / "checks").glob("*.py"):
            copy = Path(shutil.copyfile(file, Path(folder) / file.name))
            copy.chmod(0o600)
        return suite.load([folder])


def report_on(node: str) -> Report:
    """The toys' report on a node."""
    recording, profile = NODES[node]
    plan = judging.prepare(judging.Selection(profile=profile))
    return judging.judge_recording(base(recording), recording, plan._replace(checks=toys()))


def renderer(name: str) -> Callable[..., str]:
    """The function that renders a format."""
    return terminal.render if name == "terminal" else renderers.find(name)


def compare(text: str, golden: Path) -> None:
    """Compare an output with its golden file, or rewrite that if asked to."""
    if os.environ.get("GPUSCAN_WRITE_GOLDEN"):
        stem = golden.name.partition(".")[0]
        for old in FOLDER.glob(f"{stem}.*{golden.suffix}"):
            old.unlink()
        golden.write_text(text, "utf-8")
    assert golden.exists(), "the exit code differs"
    assert text == golden.read_text("utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.stem}-{case.format}")
def test_golden_output(case: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    report = report_on(case.node)
    text = renderer(case.format)([report], verbosity=case.verbosity)
    compare(text.replace(__version__, "VERSION"), case.file(report.exit_code))


@pytest.mark.parametrize("format_", TICKETS)
def test_golden_ticket(format_: str) -> None:
    document = json.loads(renderers.find("json")([report_on("mixed")], verbosity=0))
    text = ticket.render_ticket(ticket.build_ticket(ticket.TicketInput(document)), format_)
    compare(text.replace(__version__, "VERSION"), FOLDER / TICKETS[format_])


def test_no_golden_file_is_left_over() -> None:
    expected = {(case.stem, case.file(0).suffix) for case in CASES}
    expected |= {(name.split(".")[0], Path(name).suffix) for name in TICKETS.values()}
    files = [path for path in FOLDER.iterdir() if path.is_file()]
    assert {(path.name.split(".")[0], path.suffix) for path in files} == expected


def test_the_exit_codes_in_json_and_file_name_agree() -> None:
    for path in FOLDER.glob("*.json"):
        document = json.loads(path.read_text("utf-8"))
        assert document["summary"]["exit_code"] == int(path.name.split(".")[1])
