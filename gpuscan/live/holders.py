"""Which processes hold the GPUs' device files open, and what ends them."""

import json
import os
import re
import select
import stat
import time
from collections.abc import Sequence
from typing import Any

from gpuscan.live import signals
from gpuscan.live.process import die_with_parent, fork

TICK_S = 0.05
CONTAINER = re.compile(r"(docker|containerd|crio|libpod|lxc|kubepods)")
CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
# The kernel keeps 15 characters of a name: the whole name, and what ends it.
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


def holders(limit_s: float, root: str = "/") -> list[dict[str, Any]]:
    """Return who has NVIDIA's device files open: {pid, name, user (id), files, ends_with}, and
    {error} for what could not be read.

    A child process reads below *root* for at most *limit_s* seconds. This process and its children
    are left out.
    """
    me = os.getpid()
    child = fork(lambda _, pipe: _write_holders(os.path.join(root, "proc"), me, pipe))
    data = _receive(child.stdout, limit_s)
    child.end()
    rows = [json.loads(line) for line in data.split(b"\n")[:-1]]
    if not rows or "done" not in rows[-1]:
        return [*rows, {"error": "the processes could not all be looked at"}]
    return rows[:-1]


def _receive(pipe: int, limit_s: float) -> bytes:
    ends_s = time.monotonic() + limit_s
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    pieces: list[bytes] = []
    while not signals.received and time.monotonic() < ends_s:
        if poll.poll(TICK_S * 1000):
            piece = os.read(pipe, 1 << 16)
            if not piece:
                break
            pieces.append(piece)
    return b"".join(pieces)


def _write_holders(proc: str, me: int, pipe: int) -> None:
    """Write one line of JSON per holder as soon as it is found: a process that hangs us costs only
    those after it.

    /proc is read by hand: psutil lists regular files only, no devices, and completes a long name
    from the command line, which waits for the memory lock of a process that hangs in the driver.
    """
    signals.reset_stop_signals()
    os.setsid()
    die_with_parent()
    unseen = 0
    for name in sorted(filter(str.isdigit, os.listdir(proc)), key=int):
        folder = os.path.join(proc, name)
        try:
            files = _device_files(folder)
            if files and not _is_ours(proc, name, me):
                os.write(pipe, json.dumps(_holder(folder, int(name), files)).encode() + b"\n")
        except PermissionError:
            unseen += not _is_kernel_thread(proc, name)
        except OSError:
            continue  # it has ended
    if unseen:
        way = (
            "run as root"
            if os.geteuid()
            else "this container keeps them even from root; look on its host"
        )
        row = {"error": f"processes whose open files could not be seen: {unseen}; {way}"}
        os.write(pipe, json.dumps(row).encode() + b"\n")
    os.write(pipe, b'{"done": true}\n')


def _device_files(folder: str) -> list[str]:
    files = set()
    for name in os.listdir(f"{folder}/fd"):
        try:
            link = os.readlink(f"{folder}/fd/{name}")
        except FileNotFoundError:
            continue  # closed in the meantime
        if link.startswith("/dev/nvidia"):
            files.add(link.removesuffix(" (deleted)"))
    return sorted(files)


def _holder(folder: str, pid: int, files: Sequence[str]) -> dict[str, Any]:
    comm = _read_text(f"{folder}/comm").partition("\n")[0].strip()
    name, ends_with = DAEMONS.get(comm, (comm, f"kill {pid}, or its owner ends it"))
    cgroup = _read_text(f"{folder}/cgroup")
    if CONTAINER.search(cgroup):
        container = CONTAINER_ID.search(cgroup)
        short_id = f" ({container[0][:12]})" if container else ""
        ends_with = f"it runs in a container{short_id}: drain the node, or stop the container"
    return {
        "pid": pid,
        "name": name,
        "user": os.stat(folder)[stat.ST_UID],
        "files": list(files),
        "ends_with": ends_with,
    }


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 14)
    except OSError:
        return ""


def _parent(proc: str, name: str) -> int:
    """Return the id of a process's parent, 0 where it is unknown. The process's name may contain
    anything, even parentheses.
    """
    fields = _read_text(f"{proc}/{name}/stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _is_ours(proc: str, name: str, me: int) -> bool:
    pid = int(name)
    while pid > 1:
        if pid == me:
            return True
        pid = _parent(proc, str(pid))
    return False


def _is_kernel_thread(proc: str, name: str) -> bool:
    return name == "2" or _parent(proc, name) == 2
