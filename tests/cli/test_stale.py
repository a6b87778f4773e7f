"""A run that ends without a verdict leaves no report of an earlier one, and tells no pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from program import Call

from gpuscan.cli.app import build_command_line
from gpuscan.cli.stale import JUDGING

FORMATS = ("junit", "json", "text", "junit-full", "ctrf", "github", "markdown")
# ways in which a run ends in exit code 2, each before or after the reading
ENDS = {
    "option": ("judge", "demo", "--no-such-option"),
    "value": ("judge", "demo", "--context", "bsy"),
    "profile": ("judge", "demo", "--profile", "nosuch"),
    "file": ("judge", "/no/such/file"),
    "one file of two": ("judge", "demo", "/no/such/file"),
    "selector": ("judge", "demo", "--only", "nosuch"),
    "deadline": ("run", "--replay", "demo", "--deadline", "soon"),
    "proof": ("prove", "--time", "soon"),
    "log": ("log", "/no/such/file"),
    "diff": ("diff", "demo", "/no/such/file"),
    "folder": ("judge", "demo", "--report", "json=/no/such/folder/x"),
}


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("end", ENDS)
def test_an_old_report_is_gone(end: str, format_: str, tmp_path: Path, call: Call) -> None:
    old, other = tmp_path / "old", tmp_path / "other"
    assert call("judge", "demo", "--report", f"{format_}={old}", "--output", str(other)).code == 0
    assert old.exists()
    assert other.exists()
    done = call(*ENDS[end], "--report", f"{format_}={old}", f"--output={other}")
    assert (done.code, done.out) == (2, "")
    assert (old.exists(), other.exists()) == (False, False)


def test_every_command_that_writes_reports_is_known() -> None:
    def of(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        if any("--report" in one.opts for one in command.params):
            yield words
        for name, nested in getattr(command, "commands", {}).items():
            yield from of(nested, (*words, name))

    whole = typer.main.get_command(build_command_line())
    assert sorted(of(whole)) == sorted(JUDGING)


@pytest.mark.parametrize("option", ["--reprt", "--rport", "--repotr", "--reporte", "--ouput"])
@pytest.mark.parametrize("joined", [True, False])
def test_a_mistyped_option_leaves_no_report_either(
    option: str, joined: bool, tmp_path: Path, call: Call
) -> None:
    old = tmp_path / "old"
    assert call("judge", "demo", "--report", f"junit={old}").code == 0
    value = str(old) if option == "--ouput" else f"junit={old}"
    words = [f"{option}={value}"] if joined else [option, value]
    assert call("judge", "demo", *words).code == 2
    assert not old.exists()


def test_a_mistyped_record_option_removes_no_recording(tmp_path: Path, call: Call) -> None:
    mine = tmp_path / "a.json"
    assert call("judge", "demo", "--output", str(mine), "--format", "json").code == 0
    assert call("judge", "demo", "--recrd", str(mine)).code == 2
    assert mine.exists()


def test_a_quiet_result_of_an_earlier_run_is_gone(tmp_path: Path, call: Call) -> None:
    old = tmp_path / "old"
    call("judge", "demo", "-q", "--output", str(old))
    assert old.read_text("utf-8") == "pass (0)\n"
    assert call("judge", "/no/such", "-q", "--output", str(old)).code == 2
    assert not old.exists()


@pytest.mark.parametrize("text", ["", "notes of mine\n", "<testsuites/>", "{}\n", "\x00\x01"])
def test_what_is_no_report_is_never_removed(text: str, tmp_path: Path, call: Call) -> None:
    mine = tmp_path / "mine"
    mine.write_text(text, "utf-8")
    assert call("judge", "/no/such", "--output", str(mine), "--report", f"json={mine}").code == 2
    assert mine.read_text("utf-8") == text


def test_a_recording_named_as_output_is_never_removed(tmp_path: Path, call: Call) -> None:
    from gpuscan.importers.load import open_recording
    from gpuscan.recording import save

    for name in ("a.json", "a.json.gz"):
        save(open_recording("demo"), str(tmp_path / name))
        call("judge", str(tmp_path / name), "--nonsense", "--output", str(tmp_path / name))
        assert (tmp_path / name).exists()


def test_a_failure_keeps_its_reports(tmp_path: Path, call: Call) -> None:
    report = tmp_path / "a.xml"
    assert call("judge", "demo-broken", "/no/such", "--report", f"junit={report}").code == 41
    assert "<failure" in report.read_text("utf-8")


def test_a_run_that_is_incomplete_keeps_the_report_that_it_wrote(
    tmp_path: Path, call: Call
) -> None:
    """Its terminal may be gone, or full."""
    mine = tmp_path / "mine.json"
    words = ("judge", "demo", "--require-full", "--only", "driver", "--report", f"json={mine}")
    assert call(*words, "--output", "/dev/full").code == 2
    assert '"verdict": "incomplete"' in mine.read_text("utf-8")


def test_another_command_removes_nothing(tmp_path: Path, call: Call) -> None:
    report = tmp_path / "a.json"
    call("judge", "demo", "--report", f"json={report}")
    assert call("ticket", "/no/such", "--output", str(report)).code == 2
    assert report.exists()


def test_a_report_that_cannot_be_written_is_told_without_a_pass(tmp_path: Path, call: Call) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    for name, code in (("demo", 2), ("demo-broken", 41)):
        done = call("judge", name, "-q", "--report", f"junit={tmp_path}/full")
        assert done.code == code
        assert ("pass" in done.out, bool(done.out)) == (False, code == 41)
        assert "cannot be written" in done.err


def test_a_report_is_whole_under_quiet(tmp_path: Path, call: Call) -> None:
    quiet, whole = tmp_path / "quiet", tmp_path / "whole"
    assert call("judge", "demo-broken", "-q", "--report", f"text={quiet}").out.count("\n") == 1
    call("judge", "demo-broken", "--report", f"text={whole}")
    assert quiet.read_text("utf-8") == whole.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "code", "state"),
    [
        (("judge", "demo"), 0, "OK - pass (0)"),
        (("judge", "demo-broken"), 2, "CRITICAL - hardware (41)"),
        (("judge", "demo", "--only", "profile.x"), 3, "UNKNOWN - "),
        (("judge", "demo", "--nonsense"), 3, "UNKNOWN - "),
        (("judge", "/no/such"), 3, "UNKNOWN - /no/such"),
        (("judge", "demo", "demo-broken"), 2, "CRITICAL - "),
    ],
)
def test_nagios_reads_its_first_line(
    words: tuple[str, ...], code: int, state: str, call: Call
) -> None:
    for more in ((), ("-q",)):
        done = call(*words, *more, "--exit-style", "nagios")
        first, *rest = done.out.splitlines()
        assert done.code == code
        assert first.startswith(f"GPUSCAN {state}")
        assert first.count("|") == (0 if code == 3 else 1)
        assert rest == [] or not more
