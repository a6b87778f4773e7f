"""The only door to the machine: children are forked early, asked in order, and never waited for."""

import ctypes
import os
import signal
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

STOPPING = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
)  # the last where the terminal or the ssh session goes
FAREWELL_S = (
    0.1  # how long killed children are waited for in the end, so that none stays behind as a zombie
)

caught: list[int] = []  # the signals that came to a scan, in their order


def whole_gpus(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what others chose for CUDA: GPUs are whole, and numbered by
    PCI address as NVML does.

    Through MPS a GPU may show less memory and fewer processors than it has: where CUDA finds no
    daemon it does without.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("CUDA_")}
    return {**kept, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}


class Child(NamedTuple):
    """A forked reader: its process, the two ends of its pipes that the parent holds, when it was
    forked (monotonic).
    """

    kind: str
    pid: int
    requests: int
    answers: int
    since_s: float


_unreaped: set[int] = set()  # children's process ids: no stranger can have one of them yet


def spawn(kind: str, early: str | None = None) -> Child:
    """Fork a reader (`host` or `nvml`). Cheap on purpose: it is done before anything heavy is
    imported.

    *early* is the driver root, where it is known already: then NVML starts before it is asked to.
    """
    their_requests, requests = os.pipe()
    answers, their_answers = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            from gpuscan.live.child import run_child

            run_child(kind, their_requests, their_answers, early)
        finally:
            os._exit(1)  # whatever happens, the parent's own work is not done twice
    os.close(their_requests)
    os.close(their_answers)
    os.set_blocking(requests, False)
    os.set_blocking(answers, False)
    _unreaped.add(pid)
    return Child(kind, pid, requests, answers, time.monotonic())


def spawn_all(driver_root: str) -> dict[str, Child]:
    """Fork both readers."""
    return {kind: spawn(kind, driver_root) for kind in ("nvml", "host")}


def adopt(pid: int) -> None:
    """Take charge of a child that was forked elsewhere: `kill` and `reap` know it from now on."""
    _unreaped.add(pid)


def kill(pid: int) -> None:
    """Kill a reader with what it started; one that sits in the kernel is left to its fate."""
    if pid not in _unreaped:
        return
    for way in (
        os.killpg,
        os.kill,
    ):  # it leads a process group of its own, unless it was forked a moment ago
        try:
            way(pid, signal.SIGKILL)
        except OSError:
            continue


def reap(pid: int, patience_s: float = 0.0) -> int | None:
    """Return a dead child's wait status, or None where it is still there after *patience_s*."""
    ends_s = time.monotonic() + patience_s
    while True:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # whoever started us ignores SIGCHLD: the kernel has collected it
            found, status = pid, 0
        if found:
            _unreaped.discard(pid)
            return status
        if time.monotonic() >= ends_s:
            return None
        time.sleep(0.001)


def leave() -> None:
    """Collect the readers that were killed, without waiting for one that cannot end."""
    ends_s = time.monotonic() + FAREWELL_S
    for pid in list(_unreaped):
        kill(pid)
        reap(pid, ends_s - time.monotonic())


def catch_signals() -> None:
    """Let the signals that stop end the reading and not this process: what was read is wanted.

    Those that whoever started us ignores are left so: they mean others; but for SIGTERM, which
    comes from our own parent. SIGCHLD is not: how a program ended could not be told.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in STOPPING:
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _catch)


def _catch(number: int, _frame: Any) -> None:
    caught.append(number)


def die_with_parent() -> None:
    """Never outlive the parent, if the kernel can help it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
