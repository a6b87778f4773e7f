"""A judgement of a part of the node says so in every form, and is worth less than one of the whole."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from machine import Machine
from nodes_recordings import NAMES, base, judged
from over_time import EIGHT, FAILED
from program import Call

from gpuscan import collectors, profile
from gpuscan.cli.output import OutputOptions, write_reports
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.model import read_or
from gpuscan.recording import Recording, load, patch, save
from gpuscan.renderers import FORMATS

FORMS = {
    **{name: OutputOptions(format=name) for name in FORMATS},
    "one line": OutputOptions(verbosity=-1),
    "all of it": OutputOptions(verbosity=1),
    "nagios": OutputOptions(verbosity=-1, exit_style="nagios"),
    "nagios, all of it": OutputOptions(exit_style="nagios"),
    "npd": OutputOptions(verbosity=-1, exit_style="npd"),
}
NARROWED: Mapping[str, Mapping[str, Any]] = {
    "whole": {},
    "an area left out": {"skip": ("memory",)},
    "a check left out": {"skip": ("inventory.gpu_count",)},
    "one area": {"only": ("driver",)},
    "one GPU": {"gpus": ""},
    "no expectation": {"profile": "default"},
}
STATED = (("gpu", ("count", "slots")), ("gpu", ("nvlinks",)), ("infiniband", ("ports", "hcas")))
GRID = [(name, narrowed) for name in NAMES for narrowed in NARROWED]
SAMPLE = 8


def is_whole(one: profile.Profile) -> bool:
    """Whether a profile states each number of parts that it can state."""
    return all(any(one.data[branch][key] is not None for key in keys) for branch, keys in STATED)


OPEN = [name for name in profile.list_profiles() if not is_whole(profile.load(name))]


def selection_of(name: str, narrowed: str) -> judging.Selection:
    wish = dict(NARROWED[narrowed])
    if "gpus" in wish:
        gpus = read_or(collectors.node(base(name)).gpus, ())
        wish["gpus"] = gpus[0].address if gpus else ""
    return judging.Selection(**wish)


def is_part(want: judging.Selection, report: Report) -> bool:
    """Whether options narrow the judgement, or a profile that vouches for the machine is open."""
    chosen = report.run.profile
    asked = want._replace(profile="auto") != judging.Selection()
    return asked or (chosen.vouches and chosen.name in OPEN)


def told(report: Report, form: str, folder: Path) -> tuple[str, int]:
    """Return a report in one form, and the exit code of a command that prints it."""
    file = folder / "report"
    code = write_reports([report], FORMS[form]._replace(output=str(file)))
    return file.read_text("utf-8"), code


def hold_laws(name: str, narrowed: str, folder: Path) -> None:
    want = selection_of(name, narrowed)
    report = judging.judge_recording(base(name), name, judging.prepare(want))
    part = bool(report.partial)
    if is_part(want, report):
        assert part
    elif report.run.profile.vouches and report.run.profile.name not in OPEN:
        assert not part
    for form in FORMS:
        text, code = told(report, form, folder)
        assert ("partial:" in text) is part or form == "json", form
        assert "may go to work" not in text or not part, form
        if form == "json":
            document = json.loads(text)
            assert code == report.exit_code
            assert bool(document["partial"]) is part
            assert document["summary"]["usable"] is (code == 0 and not part)
            assert all(row["what"] and row["why"] for row in document["partial"])
        if form == "one line":
            assert text.count("\n") == 1
            assert ": " in text.partition("; partial:")[0] or report.exit_code == 0
            assert f": {report.action.value} " in text[:80] or report.exit_code < 20
    whole = report._replace(run=report.run._replace(require_full=True))
    assert whole.exit_code == (3 if part and report.exit_code == 0 else report.exit_code)


@pytest.mark.parametrize(("name", "narrowed"), random.Random(3).sample(GRID, SAMPLE))
def test_a_part_is_told_as_a_part(name: str, narrowed: str, tmp_path: Path) -> None:
    hold_laws(name, narrowed, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "narrowed"), GRID)
def test_every_part_is_told_as_a_part(name: str, narrowed: str, tmp_path: Path) -> None:
    hold_laws(name, narrowed, tmp_path)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("-ib")])
def test_a_whole_profile_leaves_nothing_of_its_own_node_out(name: str) -> None:
    report = judged(base(name))
    assert report.run.profile.name not in OPEN
    assert (report.partial, report.exit_code) == ((), 0)


def half() -> dict[str, Any]:
    """The changes that take four of the eight GPUs away, as if the chassis had room for four."""
    whole = load(EIGHT)
    gone = [gpu.address for gpu in read_or(collectors.node(whole).gpus, ())][:4]
    nodes = [f"nvidia{number}" for number in range(4, 8)]
    return {
        "dir:/sys/bus/pci/devices": [
            name for name in whole.get("dir:/sys/bus/pci/devices") if name not in gone
        ],
        "dir:/dev": [name for name in whole.get("dir:/dev") if name not in nodes],
        **{f"*{address.rpartition('.')[0]}*": None for address in gone},
        "nvml:nvmlDeviceGetCount()": 4,
    }


def test_half_a_node_passes_no_open_profile_as_whole(call: Call, tmp_path: Path) -> None:
    file = str(tmp_path / "half.json.gz")
    save(patch(load(EIGHT), half()), file)
    line = call("judge", file, "--profile", "h100", "-q")
    assert (line.code, "; partial: number of GPUs" in line.out) == (0, True)
    assert call("judge", file, "--profile", "h100", "--require-full", "-q").code == 3
    nagios = call("judge", file, "--profile", "h100", "-q", "--exit-style", "nagios")
    assert "; partial: " in nagios.out.partition("|")[0]


def test_a_part_counts_as_incomplete_and_lifts_no_hold(
    machine: Callable[[Recording], Machine], tmp_path: Path
) -> None:
    """By the installed program on a node of eight GPUs, and on what is left of it."""
    state = ("--state-dir", str(tmp_path / "state"))
    left = machine(patch(load(EIGHT), half()))
    for profile_ in ("h100", "default"):
        text = left.plain("run", "--profile", profile_, *state)
        assert (text.code, "\npartial: number of GPUs, NVLinks, ports" in text.out) == (0, True)
        assert "may go to work" not in text.out
        stored = left.plain("status", *state)
        assert (stored.code, stored.out.startswith("incomplete (3): partial: ")) == (3, True)
    # what the archive knows is missed, whatever the profile leaves open
    whole = ("run", "--profile", "h100-8x", "-q", *state)
    assert machine(load(EIGHT)).plain(*whole).code == 0
    missed = left.plain("run", "--profile", "h100", "-q", *state)
    assert (missed.code, "4 of the 8 GPUs" in missed.out) == (31, True)

    held = ("--state-dir", str(tmp_path / "held"))
    broken = machine(patch(load(EIGHT), FAILED))
    assert broken.plain("run", "--profile", "h100-8x", "-q", *held).code == 41
    mended = machine(load(EIGHT))
    narrow = ("--skip", "memory.row_remap"), ("--only", "memory"), ("--profile", "h100")
    for words in narrow:
        assert mended.plain("run", "-q", *words, *held).code == 41
        assert mended.plain("status", *held).code == 41
