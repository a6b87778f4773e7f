"""Files: the package's own data, the one way to open others' files, and the one to write ours."""

import errno
import fcntl
import os
import re
import stat
import time
from contextlib import suppress
from io import FileIO
from typing import IO

from gpuscan.errors import UsageError
from gpuscan.paths import (
    OTHERS_WRITE,
    Found,
    follow_any,
    is_ours,
    refuse_others,
    refuse_planted_links,
    walk,
)

PRIVATE, PUBLIC = 0o600, 0o644  # modes: a file with serial numbers; one for everybody
BLOCK = 1 << 20
DRAFT = ".tmp"  # ends the name of a file that is being written
DRAFT_S = 60.0  # a younger draft may be another run's, between its making and its lock
# never wait: for a writer of a named pipe, or a reader
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
INTO = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
STREAMS = ("/dev/stdin", "/dev/stdout", "/dev/stderr")
PACKAGE = os.path.dirname(os.path.abspath(__file__))
SITE = "/etc/gpuscan"
SITE_CONFIG_VARIABLE = "GPUSCAN_CONFIG"


def site_config_path() -> str:
    """Return the site configuration's file: the one that GPUSCAN_CONFIG names, else
    /etc/gpuscan/config.yaml.
    """
    return os.environ.get(SITE_CONFIG_VARIABLE) or os.path.join(SITE, "config.yaml")


def bundled(folder: str) -> str:
    """Return where *folder* (checks, profiles) lies: inside the installed package, or at the top
    of the source tree.
    """
    installed = os.path.join(PACKAGE, folder)
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(PACKAGE), folder)


def open_input(path: str) -> FileIO:
    """Open a regular file to read; raises OSError that says what else it is.

    It never waits, and as root follows no link that another user made. A pipe of this process's own
    (/dev/stdin, /dev/fd/63) was handed to it on purpose.
    """
    if _is_own_descriptor(path):
        return FileIO(path, "rb")
    if os.geteuid() == 0:
        with walk(path, refuse_planted_links) as found:
            descriptor = found.open(READ)
    else:
        descriptor = os.open(path, READ | os.O_CLOEXEC)
    return _only_regular(descriptor)


def open_trusted(path: str) -> FileIO:
    """Open a file that runs, or judges, with our rights: a check, a profile, a configuration.

    As root, every name on the way to it must be root's, and no other user's to write. Raises
    UsageError with the name and the command that mends it, OSError as `open_input`.
    """
    if os.geteuid() != 0:
        return open_input(path)
    with walk(path, refuse_others) as found:
        return _only_regular(found.open(READ))


def refuse_foreign(path: str) -> None:
    """As root, refuse a program that another user may change, or put another in the place of, by
    any name on the way to it. Raises UsageError, OSError.
    """
    if os.geteuid() == 0:
        walk(path, refuse_others).__exit__()


def read_input(path: str, most_bytes: int) -> bytes:
    """Return at most *most_bytes* + 1 bytes of a file: one more shows that it is too large.

    Reads in blocks, so that a small file costs little. Raises OSError as `open_input`.
    """
    with open_input(path) as file:
        return read_most(file, most_bytes)


def read_most(file: IO[bytes], most_bytes: int) -> bytes:
    """Return at most *most_bytes* + 1 bytes of an open file; raises OSError."""
    data = bytearray()
    while len(data) <= most_bytes:
        block = file.read(min(BLOCK, most_bytes + 1 - len(data)))
        if not block:
            break
        data += block
    return bytes(data)


def _is_own_descriptor(path: str) -> bool:
    return path.startswith(("/dev/fd/", "/proc/self/fd/")) or path in STREAMS


def _only_regular(descriptor: int) -> FileIO:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        os.set_blocking(descriptor, True)
        return FileIO(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    what = "a named pipe" if stat.S_ISFIFO(mode) else "a device or socket"
    raise OSError(errno.EINVAL, f"is {what}, not a file")


def is_special(path: str) -> bool:
    """Return whether *path* is there and is not a regular file: a device, or a pipe, even one of
    this process's own.
    """
    # not its real path: that of a pipe leads nowhere
    return os.path.exists(path) and not os.path.isfile(path)


def write_atomically(path: str, data: bytes, mode: int = PRIVATE) -> None:
    """Write a file whole or not at all; raises UsageError.

    A link is followed, as root only root's. What is not a regular file (/dev/null, a pipe) is
    written into, never renamed over. A file that is already there, and ours, stays readable for
    whom it was.
    """
    try:
        if _is_own_descriptor(path):
            _write_into(os.open(path, INTO), data)
            return
        with _target(path) as found:
            if _is_device(found.status):
                _write_into(found.open(INTO), data)
            else:
                _replace(found, data, mode | _readers(found.status))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


def replace_file(path: str, data: bytes, mode: int = PRIVATE) -> None:
    """Write *data* to a new file beside *path*, then rename it: a reader never sees half of it.

    The mode is *mode* whatever the umask. As root, refuses a folder that others may write, unless
    its sticky bit protects what is in it. Raises OSError, and then leaves nothing behind.
    """
    with _target(path) as found:
        _replace(found, data, mode)


def _target(path: str) -> Found:
    """Find the folder and name to write; as root, through nobody else's links or folder."""
    if os.geteuid() != 0:
        return walk(path, follow_any)
    found = walk(path, refuse_planted_links)
    folder = os.fstat(found.folder)
    if folder.st_mode & OTHERS_WRITE and not folder.st_mode & stat.S_ISVTX:
        place = os.path.dirname(found.place) or "/"
        os.close(found.folder)
        raise PermissionError(
            errno.EPERM,
            f"others may write {place}, and gpuscan runs as root: chmod go-w {place}",
        )
    return found


def _readers(status: os.stat_result | None) -> int:
    """Return who else may read the file that is to be replaced."""
    if status is None or not stat.S_ISREG(status.st_mode) or not is_ours(status):
        return 0
    return status.st_mode & (stat.S_IRGRP | stat.S_IROTH)


def _replace(found: Found, data: bytes, mode: int) -> None:
    if found.status is not None and stat.S_ISDIR(found.status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    _remove_stale_drafts(found)
    # others must not foresee the name, nor wait there with a link
    name = f".{found.name[:100]}.{os.urandom(8).hex()}{DRAFT}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, PRIVATE, dir_fd=found.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.rename(name, found.name, src_dir_fd=found.folder, dst_dir_fd=found.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=found.folder)
        raise


def open_own(path: str, flags: int = 0, mode: int = PRIVATE) -> int:
    """Open a file of ours to read and write, and return its descriptor: a regular file, through no
    link, with exactly this mode; raises OSError. *flags* may add O_CREAT and O_EXCL.
    """
    flags |= os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file")
        if stat.S_IMODE(found.st_mode) != mode:
            os.fchmod(descriptor, mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_stale_drafts(found: Found) -> None:
    """Remove what runs that were killed had begun to write here: the drafts that nobody locks."""
    draft = re.compile(rf"\.{re.escape(found.name[:100])}\.[0-9a-f]{{16}}{re.escape(DRAFT)}")
    with suppress(OSError):
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=found.folder)
        try:
            for name in filter(draft.fullmatch, os.listdir(folder)):
                _remove_unlocked(folder, name)
        finally:
            os.close(folder)


def _remove_unlocked(folder: int, name: str) -> None:
    with suppress(OSError):
        flags = READ | os.O_NOFOLLOW | os.O_CLOEXEC
        with FileIO(os.open(name, flags, dir_fd=folder), "rb") as file:
            status = os.fstat(file.fileno())
            if is_ours(status) and time.time() - status.st_mtime > DRAFT_S:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=folder)


def _is_device(status: os.stat_result | None) -> bool:
    """Return whether this is what data goes into: a device, or a pipe. As root another user's is
    refused (PermissionError).
    """
    if status is None or stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return False
    if os.geteuid() == 0 and not is_ours(status):
        raise PermissionError(errno.EPERM, "belongs to another user, and gpuscan runs as root")
    return True


def _write_into(descriptor: int, data: bytes) -> None:
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as special:
        special.write(data)


def make_folder(path: str, mode: int = 0o700) -> None:
    """Make a folder, and its parents, with *mode* whatever the umask; raises OSError.

    One that is there keeps its mode.
    """
    if os.path.isdir(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        make_folder(parent, 0o755)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def sync_folder(path: str) -> None:
    """Make the renaming of a file survive a power cut; raises OSError."""
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def schema_text(name: str) -> str:
    """Return a bundled JSON Schema (`profile`, `recording`, `report`, `catalogue`) as text."""
    with open(os.path.join(PACKAGE, "schemas", f"{name}.schema.json"), encoding="utf-8") as file:
        return file.read()
