"""Child processes: started, watched, ended, and never waited for without a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machine import ENOUGH_S, living, wait_for

from gpuscan.live import process, signals
from gpuscan.live.command import Finished, run_command
from gpuscan.live.process import (
    PIPE,
    STDOUT,
    Child,
    describe_exit,
    end_all,
    end_what_is_left,
    fork,
    start_program,
)

pytestmark = pytest.mark.system

ENV = {"PATH": "/usr/bin:/bin"}
MOST = (1 << 16, 1 << 16)
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1000; done"
POLITE = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done"


def shell(script: str, *, limit_s: float = ENOUGH_S, **options: object) -> Finished:
    return run_command(["sh", "-c", script], ENV, limit_s, most_bytes=MOST, **options)  # type: ignore[arg-type]


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def started(script: str, **options: object) -> Child:
        child = start_program(["sh", "-c", script], ENV, **options)  # type: ignore[arg-type]
        children.append(child)
        return child

    yield started
    for child in children:
        child.end()


def read_line(child: Child) -> bytes:
    os.set_blocking(child.stdout, True)
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(child.stdout, 1)):
        line += piece
    return line


def is_running(pid: int) -> bool:
    """A zombie that nobody reaps (a container's first process may not) does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# run_command


def test_both_outputs_and_the_exit_code() -> None:
    assert shell("echo out; echo err >&2; exit 7") == (7, b"out\n", b"err\n")
    assert shell("kill -SEGV $$").code == -signal.SIGSEGV


def test_both_outputs_in_one() -> None:
    assert shell("echo out; echo err >&2", stderr=STDOUT) == (0, b"out\nerr\n", b"")


def test_the_last_bytes_are_kept() -> None:
    done = run_command(["seq", "100000"], ENV, ENOUGH_S, most_bytes=(13, 13))
    assert done.stdout == b"\n99999\n100000\n"[-13:]


def test_a_program_that_cannot_be_started() -> None:
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        run_command(["/no/such/program"], ENV, ENOUGH_S, most_bytes=MOST)
    assert open_descriptors() == before


def test_the_pipes_are_closed_afterwards() -> None:
    before = open_descriptors()
    shell("echo x")
    assert open_descriptors() == before


def open_descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_a_program_without_outputs_is_waited_for() -> None:
    assert shell("exec >&- 2>&-; sleep 0.1; exit 4").code == 4


def test_the_limit(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(TimeoutError):
        shell(f"echo $$ > {pid}; exec sleep 1000", limit_s=0.5)
    wait_for(lambda: not pid.exists() or not is_running(int(pid.read_text() or 0)))


def test_the_caller_can_cut_it_short(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(InterruptedError):
        shell(f"echo $$ > {pid}; exec sleep 1000", go_on=lambda: not pid.exists())
    wait_for(lambda: not is_running(int(pid.read_text() or 0)))


def test_what_the_program_leaves_behind_is_ended() -> None:
    """It holds the pipe open, and is not waited for."""
    done = shell("sleep 1000 & echo $!")
    wait_for(lambda: not is_running(int(done.stdout)))


# Child


def test_wait_and_reap(start: Callable[..., Child]) -> None:
    child = start("read line; exit 5", stdin=PIPE)
    assert not child.has_ended()
    assert not child.wait(0.01)
    assert child.reap() is None
    os.write(child.stdin, b"go\n")
    assert child.wait(ENOUGH_S)
    assert child.has_ended()
    assert read_code(child) is None, "its process id is still ours"
    assert child.reap() == 5
    assert read_code(child) == 5
    assert child.end() == 5


def read_code(child: Child) -> int | None:
    return child.code


def test_waiting_stops_when_asked_to(start: Callable[..., Child]) -> None:
    assert not start("sleep 1000").wait(ENOUGH_S, go_on=lambda: False)


def test_ending_politely(start: Callable[..., Child]) -> None:
    child = start(POLITE)
    assert read_line(child) == b"ready\n"
    assert child.end(ENOUGH_S) == 3


def test_ending_by_force(start: Callable[..., Child]) -> None:
    child = start(STUBBORN)
    assert read_line(child) == b"ready\n"
    assert child.end(0.1, ENOUGH_S) == -signal.SIGKILL


def test_ending_one_that_is_gone_signals_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    child = start_program(["true"], ENV)
    assert child.wait(ENOUGH_S)
    assert child.reap() == 0
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("its id may be a stranger's"))
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("its id may be a stranger's"))
    assert child.end(ENOUGH_S) == 0


def test_a_child_that_cannot_be_killed_is_abandoned(
    start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that hangs in the kernel: here no signal reaches it."""
    child = start("sleep 1000")
    with monkeypatch.context() as unkillable:
        unkillable.setattr(os, "kill", lambda *_: None)
        unkillable.setattr(os, "killpg", lambda *_: None)
        assert child.end(0.01, 0.01) is None
        end_what_is_left(0.01, 0.01)
    assert child.code is None
    assert is_running(child.pid)
    assert child.end(0.0, ENOUGH_S) == -signal.SIGKILL


def test_several_end_at_once(start: Callable[..., Child]) -> None:
    children = [start(POLITE), start(STUBBORN)]
    assert [read_line(child) for child in children] == [b"ready\n"] * 2
    end_all(children, 2.0, ENOUGH_S)
    assert children[1].code == -signal.SIGKILL
    assert children[0].code in (3, -signal.SIGKILL), "a busy machine may take longer"


def test_ignored_children_count_as_ended() -> None:
    """With SIGCHLD ignored, the kernel reaps them."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert shell("echo x") == (0, b"x\n", b"")
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("own_group", [True, False])
def test_groups(start: Callable[..., Child], own_group: bool) -> None:
    child = start("echo ready; sleep 1000", own_group=own_group)
    read_line(child)
    assert (os.getpgid(child.pid) == os.getpgid(0)) is not own_group


def test_stop_signals_reach_a_program_whatever_we_ignore(start: Callable[..., Child]) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals.STOP_SIGNALS)
    try:
        child = start("echo ready; exec sleep 1000")
        read_line(child)
        assert child.end(ENOUGH_S) == -signal.SIGTERM
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGTERM, before)


def test_a_program_ends_with_whoever_started_it() -> None:
    script = (
        "import os; from gpuscan.live.process import start_program\n"
        "child = start_program(['sleep', '1000'], dict(os.environ))\n"
        "print(child.pid, flush=True); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, timeout=ENOUGH_S
    )
    wait_for(lambda: not is_running(int(done.stdout)))


# fork


def test_a_fork_answers_over_its_pipes() -> None:
    def answer(stdin: int, stdout: int) -> None:
        os.write(stdout, os.read(stdin, 100).upper())
        os._exit(6)

    child = fork(answer, requests=True)
    os.write(child.stdin, b"words\n")
    assert read_line(child) == b"WORDS\n"
    assert child.wait(ENOUGH_S)
    assert child.end() == 6


def test_a_fork_knows_nothing_of_its_siblings() -> None:
    """It must not end them when it ends itself."""
    sibling = fork(lambda _, __: time.sleep(1000))

    def end(_: int, stdout: int) -> None:
        end_what_is_left()
        os.write(stdout, b"%d\n" % len(process._unreaped))

    child = fork(end)
    try:
        assert read_line(child) == b"0\n"
        assert not sibling.has_ended()
    finally:
        child.end()
        assert sibling.end(0.0, ENOUGH_S) == -signal.SIGKILL


def test_a_fork_that_fails_does_not_return() -> None:
    child = fork(lambda _, __: None)
    assert child.wait(ENOUGH_S)
    assert child.end() == 1


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-11, "was killed by SIGSEGV"),
        (-40, "was killed by signal 40"),
        (None, "closed its pipe"),
    ],
)
def test_exits_are_described(code: int | None, text: str) -> None:
    assert describe_exit(code) == text


# stop signals


def test_stop_signals_are_recorded_within_the_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with signals.recorded_stop_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        wait_for(lambda: signals.received)
        assert signals.received == [signal.SIGTERM]
    assert signals.received == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_ignored_stop_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.recorded_stop_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    "script",
    [
        "setsid sleep 1000 & exec sleep 1000",
        "setsid setsid sh -c 'sleep 1000 & sleep 1000' & exec sleep 1000",
        "(setsid sleep 1000 &) & trap '' TERM; while :; do sleep 1000; done",
    ],
)
def test_what_left_the_session_of_a_program_ends_at_its_limit_too(script: str) -> None:
    mark = os.urandom(8).hex()
    env = {"PATH": "/usr/bin:/bin", "GPUSCAN_TEST_MARK": mark}
    started = len(script.split("sleep")) - 1
    with pytest.raises(InterruptedError):
        run_command(
            ["sh", "-c", script], env, ENOUGH_S, most_bytes=(100, 100),
            go_on=lambda: sum(is_sleep(pid) for pid in living(mark)) < started,
        )  # fmt: skip
    wait_for(lambda: not living(mark))


def is_sleep(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    except OSError:
        return False
