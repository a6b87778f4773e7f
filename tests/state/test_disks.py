"""A run whose state cannot be written, or whose clock is wrong: the pass before it counts not."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import Machine
from over_time import EIGHT, FAILED

from gpuscan.recording import Recording, load, patch

pytestmark = pytest.mark.system
RUN = ("run", "--profile", "h100-8x", "-q")
CLOCK = """import time
real = time.time
time.time = lambda: real() + ({})
from gpuscan.__main__ import main
main()
"""
HOUR_S, DAY_S = 3600, 86_400
UNWRITABLE = {  # the commands that make the state so, and writable again
    "full": ("cp /dev/zero {0}/fill", "rm {0}/fill"),
    "read-only": ("mount -o remount,ro {0}", "mount -o remount,rw {0}"),
}


def script_of(folder: Path, name: str, node: Machine, *words: str) -> str:
    """Return a script that runs gpuscan on a node, in whatever mounts its caller sees."""
    path = folder / name
    export = [f"export {key}={shlex.quote(value)}" for key, value in node.env().items()]
    command = shlex.join(node.command(*words))
    path.write_text("\n".join(["#!/bin/bash", *export, f'{command} "$@"']))
    path.chmod(0o755)
    return str(path)


def may_mount() -> bool:
    done = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True)
    return done.returncode == 0


@pytest.mark.parametrize("how", UNWRITABLE)
@pytest.mark.parametrize(("changes", "code"), [({}, 3), (FAILED, 41)], ids=["passes", "fails"])
def test_a_state_that_cannot_be_written_invalidates_the_pass(
    machine: Callable[[Recording], Machine],
    tmp_path: Path,
    how: str,
    changes: dict[str, object],
    code: int,
) -> None:
    if not may_mount():
        pytest.skip("no mount namespaces here")
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)
    kept = ("--state-dir", str(state))
    good, now = machine(load(EIGHT)), machine(patch(load(EIGHT), changes))
    run = script_of(tmp_path, "good", good, *RUN, *kept)
    again = script_of(tmp_path, "now", now, *RUN, *kept)
    status = script_of(tmp_path, "status", good, "status", "--format", "oneline", *kept)
    spoil, mend = (words.format(state) for words in UNWRITABLE[how])
    lines = [
        f"mount -t tmpfs -o size=1500k,mode=755 tmpfs {state}",
        f"{run}; echo first $?",
        f"{spoil} 2> /dev/null",
        f"{again}; echo second $?",
        f"{status}; echo while $?",
        mend,
        f"{status}; echo after $?",
        f"{status} --on-incomplete pass; echo lenient $?",
    ]
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", "\n".join(lines)],
        check=False,
        capture_output=True,
        text=True,
    )
    words = [line.split() for line in done.stdout.splitlines()]
    codes = {line[0]: int(line[1]) for line in words if len(line) == 2 and line[1].isdecimal()}
    assert codes["first"] == 0, done
    assert codes["second"] == (41 if changes else 0), done
    assert {codes[name] for name in ("while", "after", "lenient")} == {code}, done
    assert f"gpuscan: {state}" in done.stderr
    part = "a part" if how == "full" else "gpu SXM4"  # the space of a note may be gone, too
    assert not changes or f"hardware (41): replace {part}" in done.stdout
    helps = "free some space there" if how == "full" else "mount it read-write"
    assert helps in done.stderr


def test_a_limit_of_file_sizes_costs_no_hold(
    machine: Callable[[Recording], Machine], tmp_path: Path
) -> None:
    kept = ("--state-dir", str(tmp_path / "state"))
    good, broken = machine(load(EIGHT)), machine(patch(load(EIGHT), FAILED))
    assert good.plain(*RUN, *kept).code == 0
    tight = broken.plain(*RUN, *kept, before=("prlimit", "--fsize=512"))
    assert (tight.code, "not stored" in tight.err) == (41, True), tight
    for words in ((), ("--on-incomplete", "pass")):
        assert good.plain("status", *kept, *words).code == 41


@pytest.mark.parametrize(
    ("passing_s", "failing_s"),
    [(HOUR_S, 0), (0, -3650 * DAY_S), (3650 * DAY_S, 0)],
    ids=["ahead", "reset", "ten years ahead"],
)
def test_a_clock_that_was_wrong_costs_no_hold(
    machine: Callable[[Recording], Machine], tmp_path: Path, passing_s: int, failing_s: int
) -> None:
    kept = ("--state-dir", str(tmp_path / "state"))
    good, broken = machine(load(EIGHT)), machine(patch(load(EIGHT), FAILED))
    assert good.plain(*RUN, *kept, script=CLOCK.format(passing_s)).code == 0
    assert broken.plain(*RUN, *kept, script=CLOCK.format(failing_s)).code == 41
    for words in ((), ("--on-incomplete", "pass")):
        assert good.plain("status", *kept, *words).code == 41
