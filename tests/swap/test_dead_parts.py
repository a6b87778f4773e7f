"""Parts that do not answer: every command that takes a part takes them, and `swap begin` holds the
node for them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dead_parts import COMMANDS, DEATHS, PARTS, Case, Death, broken, cases
from machine import Machine
from over_time import EIGHT, later
from program import Call, Ended

from gpuscan.recording import Recording, load, patch, save

QUICK = "init=20,call=1,host=10"
ALL = tuple(cases())


def words_of(case: Case, folder: Path) -> list[str]:
    """Return the command's words; the files it names are made where they are not there."""
    files = {name: str(folder / f"{name}.json") for name in ("before", "now", "report")}
    part = f"{case.part.kind}:{case.name}"
    return COMMANDS[case.command].format(part=part, name=case.name, **files).split()


def in_drill(case: Case, folder: Path) -> list[str]:
    """Return the words that do the same on a recording, in this process."""
    words = words_of(case, folder)
    if case.command in ("begin", "verify", "gpus"):
        words += ["--replay", str(folder / "now.json")]
    if case.command in ("begin", "verify", "gpus", "history"):
        words += ["--state-dir", str(folder / "state")]
    return words


def prepare(call: Call, case: Case, folder: Path) -> None:
    """Keep the recordings, the report and the archive that the command may ask for."""
    before, now = (str(folder / f"{name}.json") for name in ("before", "now"))
    save(load(EIGHT), before)
    save(broken(case.death), now)
    state = ("--state-dir", str(folder / "state"))
    if case.seen:
        call("judge", before, "-q", *state)
    report = f"json={folder / 'report.json'}"
    call("judge", now, "-q", "--report", report, *(state if case.seen else ()))


def holds(folder: Path) -> list[str]:
    """Return the subjects that `swap begin` has held."""
    found = [json.loads(file.read_text()) for file in folder.rglob("*.json") if "last" in str(file)]
    reasons = [one for last in found if last.get("hold") for one in last["hold"]["reasons"]]
    return [one["subject"] for one in reasons if one["check"] == "swap.begin"]


def judge(case: Case, done: Ended, held: list[str]) -> None:
    assert "Traceback" not in done.out + done.err, done.err
    assert done.code != 1
    if case.command == "begin":
        assert (done.code == 0) is case.can_be_named, done.err
        assert bool(held) is case.can_be_named
        if case.seen and case.part.serial:
            assert case.part.serial in done.out
            assert case.part.address in done.out


@pytest.mark.sweep
@pytest.mark.parametrize("seen", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("death", DEATHS, ids=lambda death: f"{death.part} {death.name}")
def test_every_command_takes_every_dead_part(
    call: Call, tmp_path: Path, death: Death, seen: bool
) -> None:
    cases = [case for case in ALL if case.death is death and case.seen is seen]
    ready = tmp_path / "ready"
    ready.mkdir()
    prepare(call, cases[0], ready)
    for number, case in enumerate(cases):
        folder = tmp_path / str(number)
        shutil.copytree(ready, folder)
        done = call(*in_drill(case, folder))
        judge(case, done, holds(folder / "state"))
        if case.command == "begin" and case.name == case.part.slot:
            again = call(*in_drill(case, folder), "--format", "json")
            (part,) = json.loads(again.out)["parts"]
            assert part["slot"] == case.part.slot
            if case.seen and case.part.kind != "cable":
                assert (part["serial"], part["address"]) == (case.part.serial, case.part.address)


def test_an_hca_that_no_run_has_seen_is_begun_and_proven(call: Call, tmp_path: Path) -> None:
    """It was dead before gpuscan came: only its siblings' names tell that there is a slot."""
    (gone,) = [death for death in DEATHS if (death.part, death.name) == ("nic", "gone")]
    state = ("--state-dir", str(tmp_path / "state"))
    now, mended = str(tmp_path / "now.json"), str(tmp_path / "mended.json")
    save(broken(gone), now)
    save(later(load(EIGHT), 2, "00000002-0000-4000-8000-000000000000"), mended)
    part = PARTS["nic"]
    words = ("--ticket", "T", "--part", f"nic:{part.slot}", "--bug-report", "0")
    begun = call("swap", "begin", *words, "--replay", now, *state)
    assert (begun.code, "next to     mlx5_2" in begun.out) == (0, True), begun.err
    proven = call("swap", "verify", "--replay", mended, "--profile", "h100-8x", *state)
    assert proven.code == 0, proven.out
    assert f"nic {part.slot}: nothing -> serial {part.serial} (expected)" in proven.out


def of(death: Death, seen: bool) -> Iterator[Case]:
    for case in ALL:
        if case.death is death and case.seen is seen and case.command in ("begin", "gpus"):
            yield case


@pytest.mark.parametrize("seen", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("death", DEATHS, ids=lambda death: f"{death.part} {death.name}")
def test_the_program_takes_every_dead_part(
    machine: Callable[[Recording], Machine],
    tmp_path: Path,
    death: Death,
    seen: bool,
) -> None:
    """As the program meets it: the driver itself gives the errors, and one call never returns."""
    state = tmp_path / "state"
    if seen:
        healthy = machine(load(EIGHT))
        healthy.plain("run", "-q", "--state-dir", str(state))
    dead = machine(patch(load(EIGHT), dict(death.host), death.log))
    dead.nvml(death.nvml)
    for number, case in enumerate(of(death, seen)):
        own = tmp_path / f"case{number}"
        if seen:
            shutil.copytree(state, own)
        words = (*words_of(case, tmp_path), "--state-dir", str(own))
        done = dead.plain(*words, limits=QUICK)
        judge(case, Ended(*done), holds(own))
        if case.command == "begin" and case.can_be_named:
            status = dead.plain("status", "--state-dir", str(own))
            assert status.code >= 40, status.out
            kept = {file.name for file in (own / "swaps").rglob("*")}
            assert {"recording.json.gz", "report.json", "MANIFEST.json"} <= kept
