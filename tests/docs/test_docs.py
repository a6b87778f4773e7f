"""What the documents show runs as they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from program import Ended, environment, program
from swap_stories import STORIES, printed, recorded

from gpuscan import renderers
from gpuscan.cli.app import build_command_line
from gpuscan.engine import judging
from gpuscan.importers.load import open_recording
from gpuscan.model.outcome import ACTIONS
from gpuscan.recording import save

PAGES = {
    path.name: path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
PROJECT = {  # read, not run
    name: (ROOT / name).read_text("utf-8")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
}
VERDICTS = (0, 3, 20, 30, 31, 40, 41)
OWN = "/etc/gpuscan/checks"
INSTALL = re.compile(
    r"^python3 -m venv "
)  # the clean checkout's own trial runs these two to the letter


def shown(page: str) -> list[str]:
    """The commands of a page's indented and console blocks."""
    text = re.sub(r"^```(?!console).*?^```$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^(?:    |\$ )(\S.*)$", text, re.MULTILINE)


def inline(page: str) -> list[str]:
    """The commands within a page's text; those that speak of FILE or ID are patterns."""
    spans = [" ".join(span.split()) for span in re.findall(r"`(gpuscan [^`]+)`", PAGES[page])]
    return [span for span in dict.fromkeys(spans) if not re.search(r"\b[A-Z]{2,}\b", span)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the documents name."""
    (tmp_path / "site.yaml").write_text("extends: h100-8x\n", "utf-8")
    save(open_recording("demo"), str(tmp_path / "node.json.gz"))
    report = judging.judge_recording(
        open_recording("demo-broken"), "demo-broken", judging.prepare(judging.Selection())
    )
    (tmp_path / "report.json").write_text(renderers.find("json")([report], verbosity=0), "utf-8")
    (tmp_path / "evidence").mkdir()
    (tmp_path / "kern.log").write_text(
        "[    0.000000] Linux version 6.8.0 (builder)\n[    9.000000] NVRM: loading NVIDIA UNIX"
        " Open Kernel Module\n",
        "utf-8",
    )
    story = STORIES["01-right-card"]
    for name, later in (("before", False), ("after", True)):
        save(recorded(story["base"], story[name], later=later), str(tmp_path / f"{name}.json.gz"))
    return tmp_path


def ran(command: str, folder: Path, etc: str = "") -> Ended:
    """Run a shown command as a shell would; the folder under /etc is another one."""
    tools = folder / "bin"
    if not tools.exists():
        tools.mkdir()
        start = {
            "gpuscan": shlex.join(program()),
            "pytest": f"{shlex.quote(sys.executable)} -m pytest -p no:cacheprovider",
        }
        for name, words in start.items():
            (tools / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', "utf-8")
            (tools / name).chmod(0o755)
    env = environment(
        {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTEST_ADDOPTS": None,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
    )
    command = command.replace(OWN, etc) if etc else command
    command = command.replace("--settle 5m", "--settle 0s")
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=folder,
        env=env,
        timeout=120,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


COMMANDS = [
    (page, command)
    for page in PAGES
    if page != "checks.md"
    for command in dict.fromkeys([*shown(page), *inline(page)])
]
COMMANDS = [(page, command) for page, command in COMMANDS if not INSTALL.match(command)]


@pytest.mark.system
@pytest.mark.parametrize(
    ("page", "command"), COMMANDS, ids=[f"{page}-{command}" for page, command in COMMANDS]
)
def test_commands_run(page: str, command: str, folder: Path) -> None:
    done = ran(command, folder)
    if "--level" in command and "cuda-bindings" in done.err:  # where the binding is not installed
        assert done.code == 2
        return
    if (
        "profile capture" in command and done.code == 2
    ):  # where there is no node that is known to be good
        assert "there is no NVIDIA GPU" in done.err or "cannot be used as a reference" in done.err
        return
    if command.startswith("gpuscan swap begin") and done.code == 2:  # where there is no such GPU
        assert "no such gpu in this node" in done.err or "name the ticket" in done.err
        return
    if command.startswith("gpuscan prove") and done.code == 2:  # where nothing is held
        assert "nothing is held" in done.err or "no such" in done.err
        return
    if command.startswith("gpuscan history") and done.code == 2:
        assert "no archive yet" in done.err
        return
    judges = command.startswith(
        (
            "gpuscan run",
            "gpuscan judge",
            "gpuscan diff",
            "gpuscan swap verify",
            "gpuscan status",
            "gpuscan log",
            "gpuscan doctor",
            "journalctl",
        )
    )
    assert done.code in (VERDICTS if judges else (0,)), done.err
    assert "Traceback" not in done.err


@pytest.mark.system
def test_one_scan_feeds_several_readers_as_shown(folder: Path) -> None:
    (command,) = [command for command in shown("operators.md") if "--report" in command]
    assert ran(command, folder).code in VERDICTS
    assert {"gpuscan.xml", "gpuscan.json"} <= set(os.listdir(folder))


@pytest.mark.system
def test_from_nothing_to_a_working_check(folder: Path) -> None:
    etc = str(folder / "etc" / "checks")
    (module,) = re.findall(r"^```python\n(.*?)^```$", PAGES["checks.md"], re.MULTILINE | re.DOTALL)
    make, known, show, replay, live, under_pytest = shown("checks.md")
    assert f"Write `{OWN}/test_site.py`" in PAGES["checks.md"]
    assert ran(make, folder, etc) == Ended(0, "", "")
    Path(etc, "test_site.py").write_text(module, "utf-8")
    ids = ("site.idle_power", "site.uvm")
    assert all(name in ran(known, folder, etc).out for name in ids)
    assert ran(show, folder, etc).out.startswith("site.uvm\n\nThe nvidia_uvm module is loaded")
    done = ran(replay, folder, etc)
    assert (done.code, done.err) == (0, "")
    assert "pass     gpu SXM[5-8]: The GPU draws little power at idle.\n" in done.out
    assert "Verdict: pass (exit code 0); 5 pass\n" in done.out
    assert ran(live, folder, etc).code in VERDICTS
    done = ran(under_pytest, folder, etc)
    assert (done.code, "5 passed" in done.out) == (0, True), done.out


def test_the_check_shown_can_fail(folder: Path) -> None:
    (module,) = re.findall(r"^```python\n(.*?)^```$", PAGES["checks.md"], re.MULTILINE | re.DOTALL)
    (folder / "own").mkdir()
    (folder / "own" / "test_site.py").write_text(module.replace("> 200", "> 20"), "utf-8")
    done = ran("gpuscan run --replay demo --checks own --only site", folder)
    assert done.code == 20
    assert re.search(
        r"FAIL     gpu SXM\d: the GPU draws \d+(\.\d+)? W at idle\n         site.idle_power:"
        r" fix-config\n",
        done.out,
    )


def test_the_output_that_operators_are_shown_is_real() -> None:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", PAGES["operators.md"], re.MULTILINE | re.DOTALL)
    blocks = [block for language, block in fenced if not language]
    assert len(blocks) == 3
    plan = judging.prepare(judging.Selection())
    reports = [
        judging.judge_recording(open_recording(name), name, plan)
        for name in ("demo", "demo-broken")
    ]
    render = renderers.find("text")
    told = [render([report], verbosity=much) for report in reports for much in (-1, 0, 1)]
    for block in blocks:
        for row in re.split(r"^(?=pass |FAIL )", block, flags=re.MULTILINE):
            assert any(row in text for text in told), row


@pytest.mark.system
def test_the_stories_of_swaps_are_printed_as_shown() -> None:
    """`GPUSCAN_WRITE_GOLDEN=1 pytest tests/docs -k stories` rewrites the blocks."""
    page, block = (
        PAGES["swaps-gallery.md"],
        re.compile(r"(?<=^```\n).*?(?=^```$)", re.MULTILINE | re.DOTALL),
    )
    told = {story["about"].rstrip("."): printed(name) for name, story in list(STORIES.items())[:16]}
    head, *sections = re.split(r"^(?=### )", page, flags=re.MULTILINE)
    assert [section.partition("\n")[0].removeprefix("### ") for section in sections] == list(told)
    real = [
        block.sub(lambda _, text=text: text, section)
        for section, text in zip(sections, told.values(), strict=True)
    ]
    if os.environ.get("GPUSCAN_WRITE_GOLDEN"):
        (ROOT / "docs" / "swaps-gallery.md").write_text("".join([head, *real]), "utf-8")
    assert real == sections


def test_the_walk_through_of_a_swap_quotes_the_gallery() -> None:
    blocks = re.findall(r"^```\n(.*?)^```$", PAGES["swaps.md"], re.MULTILINE | re.DOTALL)
    quoted = [line for block in blocks for line in block.splitlines()]
    assert [line for line in quoted if line not in PAGES["swaps-gallery.md"].splitlines()] == []
    assert quoted


def test_the_diff_that_is_shown_passes(folder: Path) -> None:
    (command,) = [command for command in shown("swaps.md") if command.startswith("gpuscan diff")]
    assert ran(command, folder).code == 0


def test_every_verdict_and_its_codes_are_told() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \| ([\d, ]+) \|", PAGES["operators.md"], re.MULTILINE)
    told = {verdict: {int(code) for code in codes.split(",")} for verdict, codes in rows}
    real: dict[str, set[int]] = {"incomplete": {3}}
    for row in ACTIONS.values():
        real.setdefault(row.verdict, set()).add(row.exit_code)
    assert told == real


def test_readme_names_every_command() -> None:
    named = {
        re.split(r"[ `]", row)[0]
        for row in re.findall(r"^\| `gpuscan (.+?)` \|", PAGES["README.md"], re.MULTILINE)
    }
    line = build_command_line()
    shown = [one for one in line.registered_commands if one.callback and not one.hidden]
    assert named == {one.name or one.callback.__name__ for one in shown if one.callback} | {
        "profile",
        "swap",
        "history",
    }


def test_links_lead_somewhere() -> None:
    for page, text in (PAGES | PROJECT).items():
        here = ROOT / "docs" if (ROOT / "docs" / page).exists() else ROOT
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (here / link).exists(), (page, link)


def test_files_that_are_named_exist() -> None:
    for page, text in (PAGES | PROJECT).items():
        for name in re.findall(r"`((?:gpuscan|checks|profiles|tests|docs)/[\w./]+)`", text):
            if name.upper() != name and "AREA" not in name:
                assert (ROOT / name).exists(), (page, name)
