"""The program at the edge of what a machine gives it: few descriptors, little memory, small files,
no time, no /proc and no /tmp; many GPUs and incidents; outputs that are slow, closed or full.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from fake_nvml import Change
from machine import EIGHT, Done, Machine, finished, gpu, wait_for
from over_time import FAILED
from program import TREE, environment, program, start
from wide import place, widened

from gpuscan.recording import Recording, load, patch, save
from gpuscan.state.archive import Archive

pytestmark = pytest.mark.system

MIB = 1 << 20
ENDS = {0, 2, 3, 20, 30, 31, 40, 41, -signal.SIGKILL, -signal.SIGXCPU}
LIMITS = (
    *("nofile=5", "nofile=8", "nofile=12", "fsize=65536", "cpu=0:1"),
    f"as={64 * MIB}",  # with less, Python itself fails while it imports, in ways of its own
)
RUN = ("run", "-q", "--profile", "h100-8x", "--state-dir", "STATE")
STATUS = ("status", "--state-dir", "STATE")
JUDGE = ("judge", "-q", "FILE", "--state-dir", "STATE")
COMMANDS = {
    "a healthy node": RUN,
    "a broken node": RUN,
    "status": STATUS,
    "judge": JUDGE,
    "log": ("log", "LOG"),
    "ticket": ("ticket", "--gpu", "SXM4", "REPORT"),
    "swap": (
        *("swap", "begin", "--ticket", "1", "--part", "gpu:SXM4"),
        *("--replay", "FILE", "--state-dir", "STATE"),
    ),
}
XID_79 = "NVRM: Xid (PCI:0000:52:00): 79, pid=1, GPU has fallen off the bus."


class Place(NamedTuple):
    """A healthy and a broken node, what is read of the broken one, and what each command comes to
    where nothing is scarce.
    """

    folder: Path
    healthy: Machine
    broken: Machine

    def call(self, name: str, words: Sequence[str], state: Path, before: Sequence[str]) -> Done:
        """Run a command of COMMANDS with *before* put before it."""
        files: dict[str, str | Path] = {
            "STATE": state,
            "FILE": "a.json.gz",
            "LOG": "a.log",
            "REPORT": "report.json",
        }
        filled = [str(self.folder / files[word]) if word in files else word for word in words]
        machine = self.healthy if name == "a healthy node" else self.broken
        command = machine.command(*filled, before=before)
        if words[0] in ("judge", "log", "ticket"):
            command = command[: command.index("--root")]
        env = machine.env()
        with machine.start(command, env, cwd="/") as process:
            return finished(process, env)


@pytest.fixture(scope="module")
def nodes(library: Path) -> Iterator[Place]:
    """Below /var/tmp, so that a program which has no /tmp still finds them."""
    with tempfile.TemporaryDirectory(prefix="gpuscan-edges-", dir="/var/tmp") as name:
        folder = Path(name)
        shutil.copytree(library, folder / "library")
        recordings = {"healthy": load(str(EIGHT)), "broken": patch(load(str(EIGHT)), FAILED)}
        machines = []
        for kind, recording in recordings.items():
            (folder / kind).mkdir()
            machines.append(Machine(folder / "library", folder / kind, recording))
        save(recordings["broken"], str(folder / "a.json.gz"))
        (folder / "a.log").write_text(f"[    1.000000] {XID_79}\n")
        report = start(["judge", str(folder / "a.json.gz"), "--format", "json"])
        (folder / "report.json").write_text(report.out)
        yield Place(folder, *machines)


@pytest.fixture(scope="module")
def usual(nodes: Place) -> dict[str, Done]:
    found = {
        name: nodes.call(name, words, nodes.folder / f"usual {name}", ())
        for name, words in COMMANDS.items()
    }
    codes = {name: done.code for name, done in found.items()}
    assert codes == dict(zip(COMMANDS, (0, 41, 3, 41, 30, 0, 0), strict=True))
    return found


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_ends_in_a_code_that_means_something(
    nodes: Place, usual: dict[str, Done], limit: str, tmp_path: Path
) -> None:
    before = ("prlimit", "--core=0", f"--{limit}", "--")
    for name, words in COMMANDS.items():
        state = tmp_path / name
        done = nodes.call(name, words, state, before)
        assert done.code in ENDS, (name, done)
        assert "Traceback" not in done.err, (name, done)
        assert done.code != 0 or done.out == usual[name].out or done.err, (name, done)
        assert done.code != 0 or usual[name].code == 0, (name, done)
        if words in (RUN, JUDGE):
            after = nodes.call("status", STATUS, state, ())
            stored = done.code == after.code or words == JUDGE or done.code < 0
            assert after.code != 0 or done.code == 0, (name, done, after)
            assert stored or done.err, (name, done, after)


def test_256_mib_are_enough(nodes: Place, usual: dict[str, Done], tmp_path: Path) -> None:
    before = ("prlimit", f"--as={256 * MIB}", "--")
    for name in ("a healthy node", "a broken node", "judge", "log", "ticket"):
        done = nodes.call(name, COMMANDS[name], tmp_path / name, before)
        assert done == usual[name]


HIDE = "umount -l /proc; for m in /tmp /dev/shm; do mount -t tmpfs -o ro none $m; done"


def test_without_proc_and_tmp_all_is_as_ever(
    nodes: Place, usual: dict[str, Done], tmp_path: Path
) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare -m is not allowed here: nothing can be hidden from one program")
    if any(path.startswith("/tmp/") for path in (sys.prefix, TREE)):
        pytest.skip("the program itself lies below /tmp")
    check = "if [ -e /proc/self ] || mkdir /tmp/x; then exit 99; fi 2> /dev/null"
    before = ("unshare", "-m", "bash", "-c", f'{HIDE}; {check}; exec "$0" "$@"')
    with tempfile.TemporaryDirectory(prefix="gpuscan-state-", dir="/var/tmp") as states:
        for name, words in COMMANDS.items():
            state = Path(states) / name
            done = nodes.call(name, words, state, before)
            assert (done.code, done.err) == (usual[name].code, usual[name].err), (name, done)
            if words != COMMANDS["swap"]:  # which names its folder
                assert done.out == usual[name].out
            if words == RUN:
                after = nodes.call("status", STATUS, state, before)
                assert after.code == done.code


def test_a_node_without_proc_is_incomplete(machine: Callable[[Recording], Machine]) -> None:
    bare = machine(load(str(EIGHT)))
    shutil.rmtree(bare.root / "proc")
    done = bare.plain("run", "-q", "--profile", "h100-8x")
    assert (done.code, done.err) == (3, "")
    assert "driver not found" in done.out


def test_two_runs_at_once_are_both_stored(nodes: Place, tmp_path: Path) -> None:
    words = (*RUN[:-1], str(tmp_path))
    envs = [node.env() for node in (nodes.healthy, nodes.broken)]
    running = [
        node.start(node.command(*words), env)
        for node, env in zip((nodes.healthy, nodes.broken), envs, strict=True)
    ]
    healthy, broken = (finished(run, env) for run, env in zip(running, envs, strict=True))
    assert (healthy.code in (0, 41), broken.code) == (True, 41)
    assert (healthy.err, broken.err) == ("", "")
    assert len(Archive(str(tmp_path), write=False).runs(0.0)) == 2
    with contextlib.closing(sqlite3.connect(tmp_path / "history.sqlite")) as archive:
        assert archive.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert nodes.call("status", STATUS, tmp_path, ()).code == 41


@pytest.mark.parametrize("number", [64, 128])
def test_one_dead_gpu_of_many_is_named_and_the_others_are_judged(
    machine: Callable[[Recording], Machine], number: int
) -> None:
    """The recording of a run is judged as the run was."""
    node, dead = machine(widened(number)), place(number // 2)
    node.nvml({gpu(dead): Change(code=15)})
    done = node.run("--set", f"gpu.count={number}")
    assert (done.code, done.err) == (30, "")
    assert done.findings() == {("driver.gpu_access", f"gpu:{dead}"): "reboot"}
    rows = done.of("memory.row_remap")
    assert (len(rows), rows.pop(f"gpu:{dead}"), set(rows.values())) == (number, "skip", {"pass"})
    again = start(["judge", "-q", str(node.file), "--set", f"gpu.count={number}"])
    assert (again.code, again.err) == (30, "")


INCIDENTS = 100_000


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour lies between any two errors, and each is of another program."""
    path = tmp_path_factory.mktemp("storm") / "kern.log"
    with path.open("w", encoding="ascii") as file:
        for n in range(INCIDENTS):
            where, code = f"PCI:0000:{0x10 + n % 128:02x}:00", (13, 31, 43)[n % 3]
            line = f"NVRM: Xid ({where}): {code}, pid={n}, name=p{n}, Ch {n % 5000:08x}"
            file.write(f"[{n * 3600:16.6f}] {line}\n")
        file.write(f"[{INCIDENTS * 3600:16.6f}] {XID_79}\n")
    return path


@pytest.mark.parametrize("command", ["log", pytest.param("judge", marks=pytest.mark.sweep)])
def test_a_hundred_thousand_incidents_are_counted(command: str, storm: Path) -> None:
    done = start([command, str(storm)])
    assert (done.code, done.err) == (30, "")
    assert "FAIL     Xid 79 on 0000:52:00.0 at 360000000 s after boot" in done.out
    assert f"{INCIDENTS + 1} of {INCIDENTS + 1} lines matter" in done.out
    times = re.findall(r"^WARN +Xid (?:13|31|43) on \S+, (\d+) times", done.out, re.MULTILINE)
    assert sum(map(int, times)) == INCIDENTS


def test_a_reader_that_waits_gets_the_whole_report(tmp_path: Path) -> None:
    save(widened(16), str(tmp_path / "a.json"))
    words = ["judge", str(tmp_path / "a.json"), "--format", "json", "--set", "gpu.count=16"]
    reading, writing = os.pipe()
    room = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen([*program(), *words], stdout=writing, env=environment()) as slow:
        os.close(writing)
        waiting = array.array("i", [0])

        def is_full() -> bool:
            fcntl.ioctl(reading, termios.FIONREAD, waiting)
            return waiting[0] == room

        wait_for(is_full)
        with open(reading, encoding="utf-8") as pipe:
            told = json.load(pipe)
    assert slow.returncode == told["summary"]["exit_code"] == 0
    assert len(told["checks"]) == len(json.loads(start(words).out)["checks"])


def test_a_reader_that_goes_away_costs_no_verdict(nodes: Place, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = (*RUN[:-1], str(tmp_path))
    env = nodes.broken.env()
    with subprocess.Popen(nodes.broken.command(*words), stdout=writing, env=env) as run:
        os.close(writing)
    assert run.returncode == 128 + signal.SIGPIPE
    assert nodes.call("status", STATUS, tmp_path, ()).code == 41


PRINTING = (
    "--version", "--help", "version", "help run", "explain exit", "completion bash", "ticket FILE",
    "checks list memory", "diff demo demo-broken",
    "swap begin --ticket 1 --part gpu:SXM4 --replay demo-broken",
)  # fmt: skip


@pytest.mark.parametrize("words", PRINTING)
def test_a_full_or_closed_output_is_told(nodes: Place, words: str, tmp_path: Path) -> None:
    here = [str(nodes.folder / "report.json") if w == "FILE" else w for w in words.split()]
    state = {"GPUSCAN_STATE_DIR": str(tmp_path)}
    full = start(here, state, before=("bash", "-c", 'exec "$0" "$@" > /dev/full'))
    assert full.code == (41 if "diff" in here else 2), full
    assert "Traceback" not in full.err
    assert "standard output" in full.err
    assert "No space left on device" in full.err
    closed = 'trap "" PIPE; "$0" "$@" | true; exit ${PIPESTATUS[0]}'
    gone = start(here, state, before=("bash", "-c", closed))
    assert (gone.code in (0, 128 + signal.SIGPIPE, *ENDS), "Traceback" in gone.err) == (True, False)
