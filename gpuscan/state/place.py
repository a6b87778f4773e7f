"""The state folder: its place, its lock and its files; light, because `status` imports it."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from gpuscan.errors import UsageError
from gpuscan.files import PUBLIC, replace_file, sync_folder

ROOT_STATE = "/var/lib/gpuscan"
LOCK_S = 10.0  # writing takes milliseconds: a lock held for longer is stuck


class StateError(UsageError):
    """The state cannot be read or written.

    A scan reports it and goes on; a command that needs the state ends.
    """


def state_dir(named: str = "") -> str:
    """Return the state folder: *named*, $GPUSCAN_STATE_DIR, root's own, or the user's (XDG)."""
    named = named or os.environ.get("GPUSCAN_STATE_DIR", "")
    if named:
        return named
    if os.geteuid() == 0:
        return ROOT_STATE
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(
        os.path.expanduser("~"), ".local", "state"
    )
    return os.path.join(home, "gpuscan")


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Hold the write lock of *folder*; raises StateError if another process keeps it for LOCK_S."""
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        descriptor = os.open(
            os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror or error}") from None
    try:
        ends_s = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= ends_s:
                    raise StateError(
                        f"{folder}: another gpuscan has held the lock for {LOCK_S:g} s"
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def replace(path: str, document: dict[str, Any]) -> None:
    """Write a JSON file atomically, so that even a power cut loses nothing; raises StateError."""
    try:
        replace_file(path, (json.dumps(document, indent=1) + "\n").encode("ascii"), PUBLIC)
        sync_folder(path)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None


def set_aside(path: str) -> str:
    """Rename a damaged file, so that nothing is lost, and return its new name."""
    aside = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}"
    try:
        os.rename(path, aside)
    except OSError as error:
        raise StateError(
            f"{path}: damaged, and it cannot be renamed: {error.strerror or error}"
        ) from None
    return aside
