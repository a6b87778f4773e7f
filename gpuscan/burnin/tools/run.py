"""Runs another program to its end, its limit or the burn-in's, and keeps what it printed as a
reading.
"""

import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

from gpuscan.burnin.tools.programs import LOOPBACK
from gpuscan.live import process as source
from gpuscan.model import Unread
from gpuscan.recording import Reading

MOST_BYTES = 8 * 1024 * 1024  # of its output, the last
MOST_COMPLAINTS = 64 * 1024
LOOK_S = 0.2  # between two looks at the clock and at whether the burn-in goes on
FAREWELL_S = (
    3.0  # to end by itself: dcgmi tells its service to stop, which goes on without it otherwise
)
LISTENS_S = 5.0  # for perftest's server to be ready
BESIDE_ITS_FILES = ("gpu_burn",)  # looks for its kernel where it is started


class _Ended(Exception):
    """The run is over before the program was: *args* are the kind and text of the reading's error."""


def run(
    tool_key: str,
    limit_s: float,
    alive: Callable[[], bool] = lambda: True,
    environment: Mapping[str, str] | None = None,
) -> Reading:
    """Run the command of a reading's key (`run:dcgmi diag -r 1 -j`), without a shell, in a process
    group of its own.

    The value is {stdout, stderr, exit_code}: the last 8 MiB and 64 KiB, and the code, negative for
    a signal. The error's kind is not-found (no such program on PATH), no-permission, timed-out (it
    took longer than *limit_s*, or *alive* said that the burn-in is over; the whole group is ended
    then) or garbled (it failed and printed nothing). A command that ends with `loopback` is started
    twice: as a server, and as its client on this machine, which is read. To end a program that will
    not takes up to 6 s more than *limit_s*. *environment* is the process's own where it is not
    given, but for what it tells CUDA; NVLink multicast is off unless it was asked for.
    """
    begun_s, started_s = time.time(), time.monotonic()
    value: dict[str, Any] | None = None
    error: Unread | None = None
    try:
        value = _run(
            tool_key.removeprefix("run:").split(),
            started_s + limit_s,
            alive,
            _environment(environment),
        )
        if value["exit_code"] and not value["stdout"].strip():
            said = value["stderr"].strip().splitlines() or [f"exit code {value['exit_code']}"]
            value, error = None, Unread(tool_key, "garbled", said[-1][:400])
    except _Ended as ended:
        error = Unread(tool_key, *ended.args)
    except PermissionError as refused:
        error = Unread(tool_key, "no-permission", refused.strerror or str(refused), refused.errno)
    except OSError as refused:
        error = Unread(tool_key, "garbled", refused.strerror or str(refused), refused.errno)
    return Reading(tool_key, value, error, begun_s, (time.monotonic() - started_s) * 1000)


def program(tool_key: str) -> str | None:
    """Return where a command's program is on PATH, None where it is not."""
    return shutil.which(tool_key.removeprefix("run:").split()[0])


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    chosen = source.whole_gpus(os.environ if given is None else given)
    chosen.setdefault(
        "NCCL_NVLS_ENABLE", "0"
    )  # as in our own test: multicast can harm a host that others share
    return chosen | {"LC_ALL": "C.UTF-8"}


def _run(
    words: list[str], ends_s: float, alive: Callable[[], bool], environment: dict[str, str]
) -> dict[str, Any]:
    path = environment.get("PATH", os.defpath)
    program = shutil.which(words[0], path=path)
    if program is None:
        if shutil.which(words[0], mode=os.F_OK, path=path):
            raise PermissionError(13, f"{words[0]} may not be run")
        raise _Ended("not-found", f"{words[0]} is not on PATH")
    if words[-1] != LOOPBACK:
        return _finished(_start([program, *words[1:]], environment), ends_s, alive)
    port = _free_port()
    command = [program, *words[1:-1], "-p", str(port)]
    server = _start(command, environment, told=False)
    try:
        _wait_for(server, port, min(ends_s, time.monotonic() + LISTENS_S), alive)
        return _finished(_start([*command, "127.0.0.1"], environment), ends_s, alive)
    finally:
        _end(server)


def _start(
    command: list[str], environment: dict[str, str], told: bool = True
) -> "subprocess.Popen[bytes]":
    """Start a program; it ends with the thread that started it. A server's words (*told* false) go
    nowhere.
    """
    beside = os.path.basename(command[0]) in BESIDE_ITS_FILES
    pipe = subprocess.PIPE if told else subprocess.DEVNULL
    return subprocess.Popen(  # the commands are constants of burnin/tools.py  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env=environment,
        cwd=os.path.dirname(os.path.realpath(command[0])) if beside else None,
        start_new_session=True,
        preexec_fn=source.die_with_parent,
    )


def _finished(
    process: "subprocess.Popen[bytes]", ends_s: float, alive: Callable[[], bool]
) -> dict[str, Any]:
    """Wait for a program, keep the last of what it prints, and leave nothing of its group behind."""
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    most = dict(zip(kept, (MOST_BYTES, MOST_COMPLAINTS), strict=True))
    poll = select.poll()
    for descriptor in kept:
        os.set_blocking(descriptor, False)
        poll.register(descriptor, select.POLLIN)
    try:
        while not _done(process):
            if not alive():
                raise _Ended("timed-out", "the burn-in ended before this program did")
            if time.monotonic() >= ends_s:
                raise _Ended("timed-out", "it was still at work when its time was over")
            for descriptor, _ in poll.poll(LOOK_S * 1000):
                if not _take(descriptor, kept[descriptor], most[descriptor]):
                    poll.unregister(descriptor)  # closed: it may go on without it
        for descriptor, data in kept.items():
            while _take(descriptor, data, most[descriptor]):
                pass
        output, complaints = (data.decode("utf-8", "surrogateescape") for data in kept.values())
    finally:
        _end(process)
        process.stdout.close()
        process.stderr.close()
    return {"stdout": output, "stderr": complaints, "exit_code": process.returncode}


def _take(descriptor: int, data: bytearray, most: int) -> bool:
    """Read what is there, and tell whether there may be more."""
    try:
        piece = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return False
    data += piece
    del data[:-most]
    return bool(piece)


def _done(process: "subprocess.Popen[bytes]") -> bool:
    """Tell whether a program has ended; it is not reaped yet, so that nobody else can have its
    number.
    """
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # whoever started us ignores SIGCHLD: the kernel has collected it
        return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a program's group: politely while it still runs, then for good; one that is stuck in the
    kernel is left.
    """
    if process.returncode is not None:
        return
    if not _done(process):
        _signal(process, signal.SIGTERM)
        ends_s = time.monotonic() + FAREWELL_S
        while not _done(process) and time.monotonic() < ends_s:
            time.sleep(0.02)
    _signal(process, signal.SIGKILL)
    try:
        process.wait(FAREWELL_S)
    except subprocess.TimeoutExpired:
        source.adopt(process.pid)


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


def _wait_for(
    server: "subprocess.Popen[bytes]", port: int, ends_s: float, alive: Callable[[], bool]
) -> None:
    """Wait until the server listens. A connection as a test would be taken for the client."""
    while time.monotonic() < ends_s and alive() and not _done(server) and not _listens(port):
        time.sleep(0.05)


def _listens(port: int) -> bool:
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as file:
                rows = [line.split() for line in file]
        except OSError:
            continue
        if any(row[3] == "0A" and row[1].endswith(f":{port:04X}") for row in rows[1:]):
            return True
    return False
