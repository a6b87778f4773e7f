"""Walking a path one name at a time, so that nothing can be swapped between a look and its use."""

import errno
import os
import stat
from collections.abc import Callable

from gpuscan.errors import UsageError

MOST_LINKS = 40  # as the kernel
FOLDER = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
Look = Callable[[str, os.stat_result], None]  # is shown each name on the way, links included


class Found:
    """Where a path ends: an open folder, the last *name* in it, which is no link, and its *place*
    as text; *status* is None where nothing has that name. Close it.
    """

    def __init__(self, folder: int, name: str, place: str, status: os.stat_result | None) -> None:
        self.folder, self.name, self.place, self.status = folder, name, place, status

    def __enter__(self) -> "Found":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.folder)

    def open(self, flags: int, mode: int = 0) -> int:
        """Open the file that was found; raises OSError, also where it has become a link."""
        return os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.folder)


def walk(path: str, look: Look, root: str = "/") -> Found:
    """Follow *path*, all links included, and show each name to *look*, which raises to refuse it.

    Below another *root*, an absolute link begins there, and none leads out of it. Raises OSError.
    """
    way = _Way(root, look)
    try:
        return way.follow(path if root != "/" else os.path.join(os.getcwd(), path))
    except BaseException:
        way.close()
        raise


class _Way:
    """The folders that are open, from the root on, and the names that are left to follow."""

    def __init__(self, root: str, look: Look) -> None:
        self.look = look
        self.root = root.rstrip("/")
        self.names: list[str] = []
        self.open = [os.open(root, FOLDER | os.O_DIRECTORY)]
        if root == "/":
            look("/", os.fstat(self.open[0]))

    def close(self) -> None:
        for folder in self.open:
            os.close(folder)
        self.open = []

    def follow(self, path: str) -> Found:
        left, links = _names(path), 0
        while left:
            name = left.pop()
            if name == "..":
                self._up()
                continue
            status = _status(name, self.open[-1])
            place = "/".join((self.root, *self.names, name))
            if status is not None:
                self.look(place, status)
            if status is not None and stat.S_ISLNK(status.st_mode):
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)
                target = self._target(name, status)
                if target.startswith("/"):
                    self._up(to=0)
                left += _names(target)
            elif left:
                self._enter(name)
            else:
                return self._found(name, place, status)
        return self._found(".", "/".join((self.root, *self.names)) or "/", os.fstat(self.open[-1]))

    def _target(self, name: str, status: os.stat_result) -> str:
        link = os.open(name, FOLDER, dir_fd=self.open[-1])
        try:
            if not os.path.samestat(os.fstat(link), status):
                raise OSError(errno.ELOOP, "the link was changed while it was read", name)
            return os.readlink("", dir_fd=link)
        finally:
            os.close(link)

    def _enter(self, name: str) -> None:
        self.open.append(os.open(name, FOLDER | os.O_DIRECTORY, dir_fd=self.open[-1]))
        self.names.append(name)

    def _up(self, to: int | None = None) -> None:
        depth = max(len(self.open) - 2, 0) if to is None else to
        for folder in self.open[depth + 1 :]:
            os.close(folder)
        del self.open[depth + 1 :], self.names[depth:]

    def _found(self, name: str, place: str, status: os.stat_result | None) -> Found:
        folder = self.open.pop()
        self.close()
        return Found(folder, name, place, status)


def _names(path: str) -> list[str]:
    """Return the names in *path*, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def follow_any(_place: str, _status: os.stat_result) -> None:
    """Refuse nothing."""


def refuse_planted_links(place: str, status: os.stat_result) -> None:
    """Refuse a link that another user made: it would choose the file for root."""
    if stat.S_ISLNK(status.st_mode) and not is_ours(status):
        raise PermissionError(
            errno.EPERM,
            f"{place} is a link that belongs to user {status.st_uid}, and gpuscan runs as root:"
            " name the file that it leads to",
        )


def refuse_others(place: str, status: os.stat_result) -> None:
    """Refuse a name that another user owns or may change: what lies behind it would run, or judge,
    as root. Raises UsageError with the command that mends it.

    In a folder with the sticky bit (/tmp) others can put files of their own, but not change root's.
    """
    if not is_ours(status):
        link = "-h " if stat.S_ISLNK(status.st_mode) else ""
        raise UsageError(
            f"{place}: belongs to user {status.st_uid}, and gpuscan runs as root:"
            f" chown {link}root {place}"
        )
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if stat.S_ISLNK(status.st_mode) or sticky:  # a link's mode means nothing
        return
    if status.st_mode & OTHERS_WRITE:
        raise UsageError(
            f"{place}: others may write it, and gpuscan runs as root: chmod go-w {place}"
        )


def is_ours(status: os.stat_result) -> bool:
    """Return whether root or this user owns it."""
    return status.st_uid in (0, os.geteuid())
