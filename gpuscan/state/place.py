"""The state folder: its place, its lock and its files; light, because `status` imports it."""

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpuscan.errors import UsageError

ROOT_STATE = "/var/lib/gpuscan"
LOCK_S = 10.0  # writing takes milliseconds: a lock held for longer is stuck
LOCK = "state.lock"
MOST_BYTES = 1 << 22
PRIVATE, PUBLIC = 0o600, 0o644  # modes of files: with serial numbers, and for everybody
PRIVATE_FOLDER, PUBLIC_FOLDER = 0o700, 0o755
OTHERS_WRITE = 0o022
DRAFT = ".draft"  # of a file that is being written; under the lock, any other is a killed run's


class StateError(UsageError):
    """The state cannot be read or written.

    A scan reports it and goes on; a command that needs the state ends.
    """


class Odd(StateError):
    """What is in a file's place is no regular file: it can be set aside."""


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


def node_state(named: str, root: str = "/") -> str:
    """Return where root keeps the node's own hold, which counts beside a user's state, whatever
    the environment says; empty where that is the state folder itself, or another was *named*.

    Root keeps it in its own state folder, a container (`--root /host`) also sees the host's.
    """
    folder = os.path.join(root, ROOT_STATE.lstrip("/"))
    is_users = os.geteuid() != 0 or os.path.realpath(root) != "/"
    return folder if is_users and not named and folder != state_dir() else ""


def refuse_shared(path: str) -> None:
    """As root, refuse a state that others may write: they could lift a hold, or send what root
    writes somewhere else. Raises StateError.

    What is not there yet is as safe as the folder that it will be in.
    """
    if os.geteuid() != 0:
        return
    places = {os.path.abspath(path), os.path.realpath(path)}
    for place in sorted({each for start in places for each in _and_above(start)}):
        try:
            found = os.lstat(place)
        except OSError:
            continue
        sticky = found.st_mode & stat.S_ISVTX and place not in places
        if stat.S_ISLNK(found.st_mode):
            continue  # where it leads is looked at, too; who owns it is seen below
        if found.st_uid != 0:
            raise StateError(f"{place}: belongs to another user: chown root {place}")
        if found.st_mode & OTHERS_WRITE and not sticky:
            raise StateError(f"{place}: others may write it: chmod go-w {place}")


def _and_above(path: str) -> Iterator[str]:
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def make_folder(path: str, mode: int = PUBLIC_FOLDER) -> None:
    """Make a folder and those above it, with these modes whatever the umask; raises OSError."""
    if os.path.isdir(path):
        if mode == PRIVATE_FOLDER and os.stat(path).st_mode & 0o077:
            os.chmod(path, mode)
        return
    above = os.path.dirname(os.path.abspath(path))
    if above != path:
        make_folder(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, mode)
        os.chmod(path, mode)


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Hold the write lock of *folder*; raises StateError if another process keeps it for LOCK_S.

    Only who may write the state may open the lock: a reader could hold it, too.
    """
    try:
        make_folder(folder)
        refuse_shared(folder)
        descriptor = _open_new(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT)
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


def _open_new(path: str, flags: int, mode: int = PRIVATE) -> int:
    """Open a file of ours to write, with exactly this mode; raises OSError."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "is not a regular file")
        if stat.S_IMODE(found.st_mode) != mode:
            os.fchmod(descriptor, mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def create(path: str, mode: int = PRIVATE) -> int:
    """Create a file that is not there yet, and return its descriptor; raises OSError."""
    return _open_new(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)


class Data(NamedTuple):
    """A file's bytes, and whether others than us and root may have written them."""

    bytes: bytes
    shared: bool


def read_file(path: str) -> Data | None:
    """Return a regular file's bytes (at most MOST_BYTES), None where there is none; raises
    StateError. It never waits for a pipe, and follows no link.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Odd(f"{path}: is not a regular file")
            shared = bool(found.st_mode & OTHERS_WRITE) or found.st_uid not in (0, os.geteuid())
            return Data(file.read(MOST_BYTES), shared)
    except FileNotFoundError:
        return None
    except OSError as error:
        kind = Odd if error.errno in (errno.ELOOP, errno.ENXIO) else StateError
        raise kind(f"{path}: {error.strerror or error}") from None


def replace(path: str, document: dict[str, Any], mode: int = PRIVATE) -> None:
    """Write a JSON file atomically, so that even a power cut loses nothing; raises StateError.

    Call it under the lock: a draft that is there already is a killed run's.
    """
    data = (json.dumps(document, indent=1) + "\n").encode("ascii")
    draft = f"{path}{DRAFT}"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        try:
            with os.fdopen(create(draft, mode), "wb", buffering=0) as file:
                write_all(file.fileno(), data)
            os.replace(draft, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of *data* and see that it is on the disk; raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def sync_folder(folder: str) -> None:
    """Make the renaming of a file in it survive a power cut; raises OSError."""
    descriptor = os.open(folder or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
