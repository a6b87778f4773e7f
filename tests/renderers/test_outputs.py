"""Golden outputs, named with their exit code; `GPUSCAN_WRITE_GOLDEN=1 pytest
tests/test_outputs.py` writes them anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest
from nodes_recordings import base, site_pins_a_profile
from paths import TESTS

from gpuscan import __version__
from gpuscan.cli import commands
from gpuscan.cli.output import Shown
from gpuscan.engine.judging import Wanted
from gpuscan.importers.load import DEMOS
from gpuscan.recording import save
from gpuscan.state.remembering import Memory
from gpuscan.tickets import ticket

FOLDER = TESTS / "outputs"


class Golden(NamedTuple):
    """One output: the recording, the format, how much is told."""

    recording: str
    format: str = "text"
    verbosity: int = 0

    @property
    def stem(self) -> str:
        """The file's name before its exit code: `demo-broken-verbose`."""
        return self.recording + {-1: "-quiet", 0: "", 1: "-verbose"}[self.verbosity]

    def file(self, code: int) -> str:
        """The file's name: `demo-broken.41.txt`."""
        return f"{self.stem}.{code}.{'txt' if self.format == 'text' else self.format}"


CASES = (
    *(
        Golden(name, format_)
        for name in ("demo", "demo-broken", "no-card")
        for format_ in ("text", "json")
    ),
    Golden("demo-broken", verbosity=1),
    Golden("demo-broken", verbosity=-1),
    Golden("container-4-of-8"),
    Golden("h200-4x-app-xids"),
    Golden("h200-2x-quick"),
)


TICKETS = {"text": "demo-broken-ticket.0.txt", "markdown": "demo-broken-ticket.0.md"}


def told(case: Golden, folder: Path) -> tuple[str, int]:
    """What gpuscan prints of a recording, without its own version, and its exit code."""
    name = case.recording
    if name not in DEMOS:
        name = f"{name}.json.gz"
        save(base(case.recording), name)
    show = Shown(
        format=case.format,
        output=str(folder / "told"),
        verbosity=case.verbosity,
        exit_style="full",
        fail_on="",
    )
    code = commands.judge([name], Wanted(), show, Memory())
    return (folder / "told").read_text("utf-8").replace(__version__, "VERSION"), code


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.stem}-{case.format}")
def test_is_told_as_before(case: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if not base(case.recording).meta.get("profile") and site_pins_a_profile():
        pytest.skip("this machine pins a profile in /etc/gpuscan/config.yaml")
    text, code = told(case, tmp_path)
    golden = FOLDER / case.file(code)
    if os.environ.get("GPUSCAN_WRITE_GOLDEN"):
        for old in FOLDER.glob(f"{case.stem}.*{golden.suffix}"):
            old.unlink()
        golden.write_text(text, "utf-8")
    assert golden.exists(), (
        f"exit code {code}: {sorted(path.name for path in FOLDER.glob(f'{case.stem}.*'))} is told otherwise"
    )
    assert text == golden.read_text("utf-8")


@pytest.mark.parametrize("format_", TICKETS)
def test_a_ticket_is_written_as_before(format_: str, tmp_path: Path) -> None:
    document = json.loads(told(Golden("demo-broken", "json"), tmp_path)[0])
    text = ticket.render(ticket.build(document, "", (), None, ()), format_)
    golden = FOLDER / TICKETS[format_]
    if os.environ.get("GPUSCAN_WRITE_GOLDEN"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


def test_no_golden_file_is_left_over() -> None:
    stems = {(case.stem, "." + case.file(0).rpartition(".")[2]) for case in CASES}
    stems |= {(name.split(".")[0], Path(name).suffix) for name in TICKETS.values()}
    assert {(path.name.split(".")[0], path.suffix) for path in FOLDER.iterdir()} == stems


def test_the_json_says_the_exit_code_of_its_name() -> None:
    for path in FOLDER.glob("*.json"):
        assert json.loads(path.read_text("utf-8"))["summary"]["exit_code"] == int(
            path.name.split(".")[1]
        )
