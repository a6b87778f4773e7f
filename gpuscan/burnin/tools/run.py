"""Runs another program until it ends, reaches its limit or the burn-in ends; its output becomes a
reading.
"""

import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from gpuscan.burnin.tools.programs import LOOPBACK
from gpuscan.errors import UsageError
from gpuscan.live import process
from gpuscan.live.command import run_command
from gpuscan.live.trusted import NotOnPathError, find_program, search_path, trusted
from gpuscan.model import Unread
from gpuscan.recording import Reading

MOST_BYTES = (8 * 1024 * 1024, 64 * 1024)  # of standard output and error, the last
# from SIGTERM to SIGKILL: dcgmi tells its service to stop, which otherwise goes on without it
GRACE_S = 3.0
LISTENS_S = 5.0  # for perftest's server to be ready
POLL_S = 0.05
BESIDE_ITS_FILES = ("gpu_burn",)  # looks for its kernel in the folder where it is started


def run(
    tool_key: str,
    limit_s: float,
    alive: Callable[[], bool] = lambda: True,
    environment: Mapping[str, str] | None = None,
) -> Reading:
    """Run the command of a reading's key (`run:dcgmi diag -r 1 -j`) without a shell, in a process
    group of its own.

    The value is {stdout, stderr, exit_code}: the last 8 MiB and 64 KiB, and the code, negative for
    a signal. The error's kind is not-found (no such program on PATH), no-permission, timed-out (it
    took longer than *limit_s*, or *alive* returned False; the whole group is ended then) or garbled
    (it failed and printed nothing). A command that ends with `loopback` is started twice: as a
    server, and as its client on this machine, whose output is read. Ending a program can take
    2 * GRACE_S longer than *limit_s*. *environment* is this process's own by default, without its
    settings for CUDA; NVLink multicast is off unless the environment asks for it. As root, a
    program that another user may change is not run (no-permission).
    """
    began_s, started_s = time.time(), time.monotonic()
    value: dict[str, Any] | None = None
    error: Unread | None = None
    try:
        command = tool_key.removeprefix("run:").split()
        value = _run(command, started_s + limit_s, alive, _environment(environment))
        if value["exit_code"] and not value["stdout"].strip():
            lines = value["stderr"].strip().splitlines() or [f"exit code {value['exit_code']}"]
            value, error = None, Unread(tool_key, "garbled", lines[-1][:400])
    except InterruptedError:
        error = Unread(tool_key, "timed-out", "the burn-in ended before this program did")
    except TimeoutError:
        error = Unread(tool_key, "timed-out", "it was still at work when its time was over")
    except UsageError as refused:
        error = Unread(tool_key, "no-permission", f"not run: {refused}")
    except NotOnPathError as missing:
        error = Unread(tool_key, "not-found", str(missing))
    except OSError as failure:
        kind = "no-permission" if isinstance(failure, PermissionError) else "garbled"
        error = Unread(tool_key, kind, failure.strerror or str(failure), failure.errno)
    return Reading(tool_key, value, error, began_s, (time.monotonic() - started_s) * 1000)


def program(tool_key: str) -> str | None:
    """Return where a command's program is on PATH, None where it is not."""
    return shutil.which(tool_key.removeprefix("run:").split()[0], path=search_path(os.environ))


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    environment = process.whole_gpus(os.environ if given is None else given)
    # as in our own test: multicast can harm a host that others share
    environment.setdefault("NCCL_NVLS_ENABLE", "0")
    return environment | {"LC_ALL": "C.UTF-8"}


def _run(
    command: list[str], ends_s: float, alive: Callable[[], bool], environment: dict[str, str]
) -> dict[str, Any]:
    path = find_program(command[0], environment)
    environment = trusted(environment)
    if command[-1] != LOOPBACK:
        return _finish([path, *command[1:]], ends_s, alive, environment)
    port = _free_port()
    command = [path, *command[1:-1], "-p", str(port)]
    server = process.start_program(
        command, environment, stdout=process.DEVNULL, stderr=process.DEVNULL, cwd=_folder(path)
    )
    try:
        _wait_for_server(server, port, min(ends_s, time.monotonic() + LISTENS_S), alive)
        return _finish([*command, "127.0.0.1"], ends_s, alive, environment)
    finally:
        server.end(GRACE_S, reap_s=GRACE_S)


def _folder(program_path: str) -> str | None:
    if os.path.basename(program_path) not in BESIDE_ITS_FILES:
        return None
    return os.path.dirname(os.path.realpath(program_path))


def _finish(
    command: list[str], ends_s: float, alive: Callable[[], bool], environment: dict[str, str]
) -> dict[str, Any]:
    done = run_command(
        command,
        environment,
        ends_s - time.monotonic(),
        most_bytes=MOST_BYTES,
        go_on=alive,
        grace_s=GRACE_S,
        reap_s=GRACE_S,
        cwd=_folder(command[0]),
    )
    stdout, stderr = (
        data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr)
    )
    return {"stdout": stdout, "stderr": stderr, "exit_code": done.code}


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


def _wait_for_server(
    server: process.Child, port: int, ends_s: float, alive: Callable[[], bool]
) -> None:
    """Wait until the server listens. It would take a test connection for its client."""
    while time.monotonic() < ends_s and alive() and not server.has_ended():
        if _listens(server.pid, port):
            return
        time.sleep(POLL_S)


def _listens(pid: int, port: int) -> bool:
    """Return whether a process, or one that it started (a wrapper script does), listens."""
    import psutil

    try:
        server = psutil.Process(pid)
        connections = [
            connection
            for member in (server, *server.children(recursive=True))
            for connection in member.net_connections("tcp")
        ]
    except psutil.Error:
        return False
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in connections
    )
