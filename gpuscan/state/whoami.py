"""Which machine, boot and process this is: the only files that `status` reads itself, in a
millisecond.
"""

import os
import stat
from functools import cache

FILES = {
    "machine_id": "etc/machine-id",
    "dmi_serial": "sys/class/dmi/id/product_serial",
    "boot_id": "proc/sys/kernel/random/boot_id",
    "hostname": "proc/sys/kernel/hostname",
}
UID_MAP, OVERFLOW_UID = "/proc/self/uid_map", "/proc/sys/kernel/overflowuid"


def this_machine(root: str = "/") -> dict[str, str]:
    """Return machine_id, dmi_serial, boot_id and hostname below *root*; "" where unreadable."""
    return {name: _text(os.path.join(root, file)).strip() for name, file in FILES.items()}


def find_start(pid: int) -> str:
    """Return when a process was started, in ticks since boot; empty if there is none.

    A number of a process is used again, but never with the same start.
    """
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _text(path: str) -> str:
    """Return a regular file's text, empty where there is none: below another root anything may
    lie in its place, and a pipe is never waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, 4096).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


@cache
def find_outside_owner() -> int:
    """Return the user number that files have here whose owner is no user of this container (in a
    rootless one, the host's root); -1 where there is none, or a user of the container has it.
    """
    rows = [tuple(map(int, line.split())) for line in _text(UID_MAP).splitlines()]
    overflow = _text(OVERFLOW_UID).strip()
    if not rows or not overflow.isdecimal():
        return -1
    number = int(overflow)
    is_user = any(first <= number < first + count for first, _, count in rows)
    return -1 if is_user else number
