"""Evidence that goes beyond a recording: who holds the GPUs, NVIDIA's own report, files' hashes;
all bounded in time.
"""

import hashlib
import json
import os
import re
import select
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gpuscan.durations import format_utc
from gpuscan.live import process as source

SCRIPT = "nvidia-bug-report.sh"
LOG = "nvidia-bug-report.log"  # the script appends .gz where there is gzip
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
TICK_S = 0.05
CONTAINER = re.compile(r"(docker|containerd|crio|libpod|lxc|kubepods)")
CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
# The kernel keeps 15 characters of a name: whole name, and what ends it.
DAEMONS = {
    name[:15]: (name, end)
    for name, end in (
        ("nvidia-persistenced", "systemctl stop nvidia-persistenced"),
        ("nv-hostengine", "systemctl stop nvidia-dcgm"),
        ("nv-fabricmanager", "systemctl stop nvidia-fabricmanager"),
        ("nvidia-imex", "systemctl stop nvidia-imex"),
        ("nvidia-cuda-mps-control", "echo quit | nvidia-cuda-mps-control"),
        ("dcgm-exporter", "stop the DCGM exporter (its service or pod)"),
        ("Xorg", "systemctl isolate multi-user.target"),
        ("Xwayland", "systemctl isolate multi-user.target"),
        ("gnome-shell", "systemctl isolate multi-user.target"),
    )
}
_stopped: list[int] = []  # signals that came while evidence was collected


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let SIGINT and SIGTERM cut short what is slow, rather than leave half of the evidence
    behind.
    """
    numbers = [
        number for number in source.STOPPING if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {
        number: signal.signal(number, lambda number, _: _stopped.append(number))
        for number in numbers
    }
    try:
        yield
    finally:
        del _stopped[:]
        for number, handler in before.items():
            signal.signal(number, handler)


def hashed(path: str) -> dict[str, Any]:
    """Return a file's row: {name, bytes, sha256, made_at (UTC)}; raises OSError."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        status = os.fstat(file.fileno())
    made_at = format_utc(status.st_mtime)
    return {
        "name": os.path.basename(path),
        "bytes": status.st_size,
        "sha256": digest,
        "made_at": made_at,
    }


def bug_report(directory: str, limit_s: float) -> dict[str, Any]:
    """Run nvidia-bug-report.sh into *directory*, for at most *limit_s* seconds; return its file's
    row, or {name, error}.

    A log that was cut off is kept, and its row has both: NVIDIA says that one may be enough. The
    script touches every GPU and may hang in the driver; then it is killed with all that it
    started, or left to its fate.
    """
    places = [place for place in os.environ.get("PATH", "").split(":") if place.startswith("/")]
    path = ":".join([*places, PATH])
    script = shutil.which(SCRIPT, path=path)
    if script is None:
        return {"name": LOG, "error": f"{SCRIPT} is not installed here"}
    if os.geteuid() == 0 and _others_may_write(script):
        return {
            "name": LOG,
            "error": f"not run: others may write {script}, and gpuscan runs as root",
        }
    if limit_s <= 0:
        return {"name": LOG, "error": "not run: no time was left for it"}
    with tempfile.TemporaryFile() as output:
        command = [script, "--output-file", LOG]  # in its folder: the script quotes no path
        pid = _forked(lambda: _become(command, path, directory, output.fileno()))
        error = _outcome(_waited(pid, limit_s), limit_s, output)
    return _row(directory, error)


def _others_may_write(script: str) -> bool:
    status = os.stat(script)
    return bool(status.st_mode & 0o022) or status.st_uid != 0


def _become(command: list[str], path: str, directory: str, output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, output, output)):
        os.dup2(descriptor, number)
    os.chdir(directory)
    # no shell is the point
    os.execve(command[0], command, {**os.environ, "PATH": path, "LC_ALL": "C"})  # noqa: S606


def _outcome(status: int | None, limit_s: float, output: Any) -> str:
    """Return what went wrong in a sentence, nothing where nothing did."""
    if status is None and _stopped:
        return "cut off by a signal"
    if status is None:
        return f"cut off after {limit_s:g} s; run {SCRIPT} --safe-mode by hand where it hangs"
    if status == 0:
        return ""
    output.seek(0)
    said = output.read(1 << 16).decode("utf-8", "replace").split("\n")
    words = [line.strip() for line in said if line.strip()]
    return f"{SCRIPT} failed: {words[-1][:200] if words else f'exit code {os.waitstatus_to_exitcode(status)}'}"


def _row(directory: str, error: str) -> dict[str, Any]:
    for name in (f"{LOG}.gz", LOG):
        place = os.path.join(directory, name)
        if os.path.isfile(place) and os.path.getsize(place):
            return hashed(place) | ({"error": error} if error else {})
    return {"name": LOG, "error": error or f"{SCRIPT} ended well, but wrote no log"}


def _forked(work: Callable[[], None]) -> int:
    """Do *work* in a session of its own that does not outlive this process; return its process id."""
    pid = os.fork()
    if pid:
        source.adopt(pid)
        return pid
    try:
        for number in source.STOPPING:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        source.die_with_parent()
        work()
    finally:
        os._exit(127)


def _waited(pid: int, limit_s: float) -> int | None:
    """Return a child's wait status; None where it was not done by the limit or a signal, and so
    was killed.
    """
    ends_s = time.monotonic() + limit_s
    while (status := source.reap(pid)) is None and not _stopped and time.monotonic() < ends_s:
        time.sleep(TICK_S)
    if status is None:
        source.kill(pid)
        source.reap(pid, source.FAREWELL_S)
    return status


def holders(limit_s: float, root: str = "/") -> list[dict[str, Any]]:
    """Return who has device files of NVIDIA open: {pid, name, user (id), files, ends_with}, and
    {error} for what was not seen.

    Read below *root* by a child, which is given *limit_s* seconds; this process and its children
    are left out.
    """
    answers, theirs = os.pipe()
    me = os.getpid()
    pid = _forked(lambda: _tell(os.path.join(root, "proc"), me, theirs))
    os.close(theirs)
    data = _received(answers, limit_s)
    os.close(answers)
    source.kill(pid)
    source.reap(pid, source.FAREWELL_S)
    lines = data.split(b"\n")
    rows = [json.loads(line) for line in lines[:-1]]
    if not rows or "done" not in rows[-1]:
        return [*rows, {"error": "the processes could not all be looked at"}]
    return rows[:-1]


def _received(answers: int, limit_s: float) -> bytes:
    ends_s = time.monotonic() + limit_s
    poll = select.poll()
    poll.register(answers, select.POLLIN)
    pieces: list[bytes] = []
    while not _stopped and time.monotonic() < ends_s:
        if poll.poll(TICK_S * 1000):
            piece = os.read(answers, 1 << 16)
            if not piece:
                break
            pieces.append(piece)
    return b"".join(pieces)


def _tell(proc: str, me: int, pipe: int) -> None:
    """Write a line of JSON a holder, as they are found: whatever hangs costs only what comes after
    it.
    """
    unseen = 0
    for name in sorted(filter(str.isdigit, os.listdir(proc)), key=int):
        folder = os.path.join(proc, name)
        try:
            files = _devices(folder)
            row = (
                _holder(folder, int(name), files)
                if files and not _is_ours(proc, name, me)
                else None
            )
        except PermissionError:
            unseen += not _is_kernels(proc, name)
            continue
        except OSError:
            continue  # it has ended
        if row:
            os.write(pipe, json.dumps(row).encode() + b"\n")
    if unseen:
        way = (
            "run as root"
            if os.geteuid()
            else "this container keeps them even from root; look on its host"
        )
        told = {"error": f"processes whose open files could not be seen: {unseen}; {way}"}
        os.write(pipe, json.dumps(told).encode() + b"\n")
    os.write(pipe, b'{"done": true}\n')


def _devices(folder: str) -> list[str]:
    found = set()
    for name in os.listdir(f"{folder}/fd"):
        try:
            link = os.readlink(f"{folder}/fd/{name}")
        except FileNotFoundError:
            continue  # closed meanwhile
        if link.startswith("/dev/nvidia"):
            found.add(link.removesuffix(" (deleted)"))
    return sorted(found)


def _holder(folder: str, pid: int, files: Sequence[str]) -> dict[str, Any]:
    comm = _first_line(f"{folder}/comm")
    name, ends_with = DAEMONS.get(comm, (comm, f"kill {pid}, or its owner ends it"))
    control = _first_line(f"{folder}/cgroup", whole=True)
    if CONTAINER.search(control):
        number = CONTAINER_ID.search(control)
        ends_with = f"it runs in a container{f' ({number[0][:12]})' if number else ''}: drain the node, or stop the container"
    return {
        "pid": pid,
        "name": name,
        "user": os.stat(folder)[stat.ST_UID],
        "files": list(files),
        "ends_with": ends_with,
    }


def _first_line(path: str, *, whole: bool = False) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 14) if whole else file.readline().strip()
    except OSError:
        return ""


def _parent(proc: str, name: str) -> int:
    """Return a process's parent, 0 where that is not known; its own name may hold anything,
    brackets too.
    """
    words = _first_line(f"{proc}/{name}/stat", whole=True).rpartition(")")[2].split()
    return int(words[1]) if len(words) > 1 else 0


def _is_ours(proc: str, name: str, me: int) -> bool:
    pid = int(name)
    while pid > 1:
        if pid == me:
            return True
        pid = _parent(proc, str(pid))
    return False


def _is_kernels(proc: str, name: str) -> bool:
    return name == "2" or _parent(proc, name) == 2
