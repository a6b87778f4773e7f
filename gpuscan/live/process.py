"""The one place where processes are started, watched and ended.

A process can hang inside the kernel, where not even SIGKILL ends it. So nothing here waits without
a limit: a child that cannot be killed is abandoned. Children never outlive this process, as far as
the kernel allows.
"""

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gpuscan.live.signals import reset_stop_signals

PIPE, STDOUT, DEVNULL = -1, -2, -3  # as in subprocess, which is not imported at start
REAP_S = 0.1  # how long a killed child is waited for, so that it does not stay as a zombie
MOST_ENVIRON = 1 << 20
SHORTEST_POLL_S, LONGEST_POLL_S = 0.001, 0.02

# in the environment of what we start: it is found by this once it has left its session
MARK = "GPUSCAN_STARTED_AS"
RUN = os.urandom(8).hex()  # the same in all processes of this run, which are forks of the first

_unreaped: "set[Child]" = set()  # children whose process ids cannot belong to a stranger yet


class Child:
    """A child process. *stdin*, *stdout* and *stderr* are our ends of its pipes, -1 where there is
    none; *code* is its exit code (negative for a signal) once it has been reaped.
    """

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int, popen: Any = None) -> None:
        self.pid, self.stdin, self.stdout, self.stderr = pid, stdin, stdout, stderr
        self.started_s = time.monotonic()
        self.code: int | None = None
        self.mark = f"{RUN}.{pid}."  # begins the marks of what it starts
        self._popen = popen
        _unreaped.add(self)

    def has_ended(self) -> bool:
        """Return whether the process has ended. It is not reaped: its id and group stay ours."""
        if self.code is not None:
            return True
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid, options) is not None
        except ChildProcessError:  # SIGCHLD is ignored: the kernel has reaped it
            return True

    def wait(self, limit_s: float, go_on: Callable[[], bool] = lambda: True) -> bool:
        """Wait until the process has ended, *limit_s* has passed or *go_on* returns False; return
        whether it has ended.
        """
        ends_s = time.monotonic() + limit_s
        pause_s = SHORTEST_POLL_S
        while not self.has_ended():
            if time.monotonic() >= ends_s or not go_on():
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_POLL_S)
        return True

    def reap(self, limit_s: float = 0.0) -> int | None:
        """Return the exit code, or None where the process still runs after *limit_s*.

        Where SIGCHLD is ignored the kernel has thrown the code away, and 0 is returned.
        """
        ends_s = time.monotonic() + limit_s
        while self.code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self._reaped(os.waitstatus_to_exitcode(status))
            elif time.monotonic() >= ends_s:
                break
            else:
                time.sleep(SHORTEST_POLL_S)
        return self.code

    def _reaped(self, code: int) -> None:
        self.code = code
        _unreaped.discard(self)
        if self._popen is not None:
            self._popen.returncode = code  # so that subprocess does not wait for it

    def signal(self, number: int) -> None:
        """Send a signal to the process and its group, unless it has been reaped."""
        if self.code is not None:
            return
        try:
            os.killpg(self.pid, number)
            reached = True
        except OSError:  # it leads no group, or not yet
            reached = False
        if not reached or number == signal.SIGKILL:
            try:
                os.kill(self.pid, number)
            except OSError:
                return

    def end(self, grace_s: float = 0.0, reap_s: float = REAP_S) -> int | None:
        """End the process with its group: SIGTERM and *grace_s* to react, then SIGKILL.

        Returns the exit code, or None where the process hangs in the kernel: it is abandoned.
        """
        cut_short = self.code is None and not self.has_ended()
        if cut_short and grace_s:
            self.signal(signal.SIGTERM)
            self.wait(grace_s)
        self.signal(signal.SIGKILL)  # also for what is left of its group
        if cut_short:
            kill_marked(self.mark)
        self.close()
        return self.reap(reap_s)

    def take_stdin(self) -> int:
        """Return our end of its standard input and leave closing it to the caller, such as a
        thread that writes to it.
        """
        descriptor, self.stdin = self.stdin, -1
        return descriptor

    def close(self) -> None:
        """Close our ends of its pipes."""
        for name in ("stdin", "stdout", "stderr"):
            descriptor = getattr(self, name)
            setattr(self, name, -1)
            if descriptor >= 0:
                os.close(descriptor)


def kill_marked(mark: str) -> None:
    """Kill what was started under a mark and has left its group and session (setsid, a daemon)."""
    start = f"{MARK}={mark}".encode()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if any(word.startswith(start) for word in file.read(MOST_ENVIRON).split(b"\0")):
                    os.kill(int(name), signal.SIGKILL)
        except OSError:
            continue  # it has ended, or is another user's


def fork(work: Callable[[int, int], None], *, requests: bool = False) -> Child:
    """Fork a child that runs *work(stdin, stdout)*, two file descriptors, and then ends; *stdin*
    is -1 unless *requests* asks for that pipe.

    Takes a millisecond, so it can be done before anything heavy is imported. Nothing that this
    process does at exit is done in the child.
    """
    child_stdin, stdin = os.pipe() if requests else (-1, -1)
    stdout, child_stdout = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _unreaped.clear()  # they are our parent's
            for descriptor in (stdin, stdout):
                if descriptor >= 0:
                    os.close(descriptor)
            work(child_stdin, child_stdout)
        finally:
            os._exit(1)
    if requests:
        os.close(child_stdin)
    os.close(child_stdout)
    return Child(pid, stdin, stdout, -1)


def start_program(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: int = DEVNULL,
    stdout: int = PIPE,
    stderr: int = PIPE,
    cwd: str | None = None,
    own_group: bool = True,
) -> Child:
    """Start a program without a shell; raises OSError.

    With *own_group* it leads a session, ends when the thread that started it ends, and reacts to
    stop signals whatever we inherited. Without, it is a member of our group and ends with that.
    """
    import subprocess

    mark = f"{RUN}.{os.getpid()}.{os.urandom(4).hex()}"
    ours, theirs = [-1, -1, -1], [stdin, stdout, stderr]
    for number, kind in enumerate((stdin, stdout, stderr)):
        if kind == PIPE:
            reading, writing = os.pipe()
            ours[number], theirs[number] = (reading, writing) if number else (writing, reading)
    try:
        popen = subprocess.Popen(  # fixed commands, no shell  # noqa: S603
            list(command),
            stdin=theirs[0],
            stdout=theirs[1],
            stderr=theirs[2],
            env={**env, MARK: mark},
            cwd=cwd,
            start_new_session=own_group,
            preexec_fn=_obey_parent if own_group else None,
        )
    except BaseException:
        _close(end for end in ours if end >= 0)
        raise
    finally:
        _close(
            end for end, kind in zip(theirs, (stdin, stdout, stderr), strict=True) if kind == PIPE
        )
    child = Child(popen.pid, ours[0], ours[1], ours[2], popen)
    child.mark = mark
    return child


def _close(descriptors: Any) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def end_all(children: Collection[Child], grace_s: float, reap_s: float = REAP_S) -> None:
    """End several children at once, each as `Child.end` does; their pipes stay open."""
    if grace_s:
        for child in children:
            child.signal(signal.SIGTERM)
        ends_s = time.monotonic() + grace_s
        for child in children:
            child.wait(ends_s - time.monotonic())
    for child in children:
        cut_short = not child.has_ended()
        child.signal(signal.SIGKILL)
        if cut_short:
            kill_marked(child.mark)
    ends_s = time.monotonic() + reap_s
    for child in children:
        child.reap(ends_s - time.monotonic())


def end_what_is_left(grace_s: float = 0.0, reap_s: float = REAP_S) -> None:
    """End every child that was not reaped yet, before this process ends itself."""
    left = list(_unreaped)
    for child in left:
        child.close()
    end_all(left, grace_s, reap_s)


def describe_exit(code: int | None) -> str:
    """Return how a process ended, as in "the reader was killed by SIGSEGV"."""
    if code is None:
        return "closed its pipe"
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _obey_parent() -> None:
    die_with_parent()
    reset_stop_signals()


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it ends."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def whole_gpus(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without anyone's settings for CUDA: all GPUs whole, numbered by PCI
    address as NVML does.

    Through MPS a GPU may show less memory and fewer multiprocessors than it has; where CUDA finds
    no MPS daemon it does without.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("CUDA_")}
    return {**kept, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}
