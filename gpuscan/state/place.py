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

from gpuscan import files
from gpuscan.errors import UsageError
from gpuscan.files import PRIVATE
from gpuscan.paths import OTHERS_WRITE, is_ours, refuse_others, walk
from gpuscan.state.whoami import find_outside_owner

ROOT_STATE = "/var/lib/gpuscan"
LOCK_S = 10.0  # writing takes milliseconds: a lock held for longer is stuck
LOCK = "state.lock"
MOST_BYTES = 1 << 22
PRIVATE_FOLDER, PUBLIC_FOLDER = 0o700, 0o755
NO_FILE = (errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENXIO)  # a pipe, a folder, a link
REMEDIES = {  # by what keeps the state from being written
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there",
    errno.EROFS: "mount it read-write, or name another --state-dir",
    errno.EACCES: "run as the user that owns it, or name another --state-dir",
}


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
        return root_state()
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(
        os.path.expanduser("~"), ".local", "state"
    )
    return os.path.join(home, "gpuscan")


def root_state() -> str:
    """Return where root keeps the node's state: the site configuration's `state_dir`, else
    ROOT_STATE. Raises ProfileError for a mistake in the configuration.

    An ordinary user's environment does not choose it. YAML is imported only for a file that has
    the key: `status` has no time for more.
    """
    own = os.geteuid() == 0
    path = files.site_config_path() if own else os.path.join(files.SITE, "config.yaml")
    try:
        text = files.read_input(path, MOST_BYTES)
    except OSError:
        return ROOT_STATE  # whether there must be one is for who reads the rest of it
    if b"state_dir" not in text:
        return ROOT_STATE
    from gpuscan.profile.site import load_site_config

    return load_site_config(path).state_dir or ROOT_STATE


def node_state(named: str, root: str = "/") -> str:
    """Return where root keeps the node's own hold, which counts beside a user's state, whatever
    the environment says; empty where that is the state folder itself, or another was *named*.

    Root keeps it in its own state folder, a container (`--root /host`) also sees the host's.
    """
    folder = os.path.join(root, root_state().lstrip("/"))
    is_users = os.geteuid() != 0 or os.path.realpath(root) != "/"
    return folder if is_users and not named and folder != state_dir() else ""


def refuse_shared(path: str) -> None:
    """As root, refuse a state that others may write: they could lift a hold, or send what root
    writes somewhere else. Raises StateError.

    What is not there yet is as safe as the folder that it will be in.
    """
    if os.geteuid() != 0:
        return
    try:
        with walk(path, _refuse_others) as found:
            status = found.status
    except UsageError as error:
        raise StateError(str(error)) from None
    except OSError:
        return
    if status and stat.S_ISDIR(status.st_mode) and status.st_mode & OTHERS_WRITE:
        raise StateError(f"{path}: others may write it: chmod go-w {path}")  # the sticky bit, too


def _refuse_others(place: str, status: os.stat_result) -> None:
    """Refuse what `paths.refuse_others` does, but for what the outside of this container owns: who
    started it as an ordinary user trusted that, too.
    """
    others_write = status.st_mode & OTHERS_WRITE and not stat.S_ISLNK(status.st_mode)
    if is_ours(status) or others_write or status.st_uid != find_outside_owner():
        refuse_others(place, status)


def make_folder(path: str, mode: int = PUBLIC_FOLDER) -> None:
    """Make a folder and those above it, with these modes whatever the umask; raises OSError.

    One that is to be private becomes so.
    """
    if mode == PRIVATE_FOLDER and os.path.isdir(path) and os.stat(path).st_mode & 0o077:
        os.chmod(path, mode)
    files.make_folder(path, mode)


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Hold the write lock of *folder*; raises StateError if another process keeps it for LOCK_S.

    Only who may write the state may open the lock: a reader could hold it, too.
    """
    try:
        make_folder(folder)
        refuse_shared(folder)
        descriptor = files.open_own(os.path.join(folder, LOCK), os.O_CREAT)
    except OSError as error:
        raise StateError(f"{folder}: {told(error)}") from None
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


class Data(NamedTuple):
    """A file's bytes, and whether others than us and root may have written them."""

    bytes: bytes
    shared: bool


def read_file(path: str) -> Data | None:
    """Return a regular file's bytes (at most MOST_BYTES), None where there is none; raises
    StateError. It never waits for a pipe, and as root follows no link of others.
    """
    try:
        with files.open_input(path) as file:
            found = os.fstat(file.fileno())
            trusted = is_ours(found) or found.st_uid == find_outside_owner()
            shared = bool(found.st_mode & OTHERS_WRITE) or not trusted
            return Data(files.read_most(file, MOST_BYTES), shared)
    except FileNotFoundError:
        return None
    except OSError as error:
        kind = Odd if error.errno in NO_FILE else StateError
        raise kind(f"{path}: {told(error)}") from None


def replace(path: str, document: dict[str, Any], mode: int = PRIVATE) -> None:
    """Write a JSON file atomically, so that even a power cut loses nothing; raises StateError."""
    data = (json.dumps(document, indent=1) + "\n").encode("ascii")
    try:
        files.replace_file(path, data, mode)
        files.sync_folder(path)
    except OSError as error:
        raise StateError(f"{path}: {told(error)}") from None


def told(error: OSError) -> str:
    """Return what keeps the state from being read or written, and what helps."""
    why = error.strerror or str(error)
    remedy = REMEDIES.get(error.errno or 0)
    return f"{why} ({remedy})" if remedy else why


def set_aside(path: str) -> str:
    """Rename a damaged file, so that nothing is lost, and return its new name."""
    aside = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}"
    try:
        os.rename(path, aside)
    except OSError as error:
        raise StateError(f"{path}: damaged, and it cannot be renamed: {told(error)}") from None
    return aside
