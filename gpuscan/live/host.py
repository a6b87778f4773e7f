"""Reads the host below `--root`: files, folders, links, the kernel's ring buffer, commands."""

import errno
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from gpuscan.live.command import run_command
from gpuscan.live.keys import SWEEPS
from gpuscan.live.reader import Answer, Places
from gpuscan.paths import follow_any, walk

MOST_BYTES = 8 * 1024 * 1024
CUT_BYTES = {"/proc/cpuinfo": 8192}  # the first processor's lines are enough
CLOCKS_APART_S = 120.0  # the clock may be set after the boot
# the serial number of a GPU comes early, and the GPU takes a moment for each word of it
VPD_BYTES = 1024
ERRNO_KINDS = {
    errno.EPERM: "no-permission",
    errno.EACCES: "no-permission",
    errno.ENOENT: "not-found",
    errno.ENXIO: "not-found",
    errno.ENODEV: "not-found",
    errno.ENOTDIR: "not-found",
    errno.EOPNOTSUPP: "not-supported",
    errno.ETIMEDOUT: "timed-out",
}


class HostReader:
    """Answers one key at a time. Each way to read is bounded in size and waits for nothing new."""

    def __init__(self, places: Places) -> None:
        self.root = "" if places.root == "/" else places.root
        self.places = places
        self._tails: dict[str, int] = {}

    def batches(self, keys: list[str]) -> Iterator[list[str]]:
        """Yield the keys one by one."""
        yield from ([key] for key in keys)

    def answer(self, batch: list[str]) -> list[Answer]:
        """Return the answer to one key."""
        (key,) = batch
        kind, _, rest = key.partition(":")
        try:
            return [(key, self.READERS[kind](self, rest), None)]
        except OSError as error:
            error_kind = ERRNO_KINDS.get(error.errno or 0, "garbled")
            return [(key, None, (error_kind, error.strerror or str(error), error.errno))]

    def path(self, path: str) -> str:
        """Return a path below the root."""
        return os.path.join(self.root, path.lstrip("/")) if self.root else path

    def file(self, path: str) -> str:
        """Read a file's text; bytes that are not UTF-8 survive as surrogates."""
        descriptor, mode = self._open(path)
        try:
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file")
            most = VPD_BYTES if path.endswith("/vpd") else CUT_BYTES.get(path, MOST_BYTES)
            return _text(_read(descriptor, most))
        finally:
            os.close(descriptor)

    def listing(self, path: str) -> list[str]:
        """List a directory."""
        if not self.root:
            return sorted(os.listdir(path))
        descriptor, _ = self._open(path, os.O_DIRECTORY)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def link(self, path: str) -> str:
        """Read a symbolic link."""
        if not self.root:
            return os.readlink(path)
        folder, _ = self._open(os.path.dirname(path), os.O_DIRECTORY)
        try:
            return os.readlink(os.path.basename(path), dir_fd=folder)
        finally:
            os.close(folder)

    def ring(self, path: str) -> list[str]:
        """Read every record of the kernel's ring buffer; below another root, also from a plain file
        of such records.
        """
        descriptor, mode = self._open(path)
        try:
            if self.root and stat.S_ISREG(mode):
                lines = _text(_read(descriptor, MOST_BYTES)).splitlines()
                # the other lines continue a record
                return [line for line in lines if line[:1].isdigit()]
            if not stat.S_ISCHR(mode):
                raise OSError(errno.EINVAL, "not the kernel's device")
            return _first_lines(_records(descriptor)[0])
        finally:
            os.close(descriptor)

    def tail(self, path: str) -> list[str]:
        """Read the records that the kernel's ring buffer gained since the last call; none on the
        first.

        Raises OSError where records were overwritten before they were read.
        """
        if path not in self._tails:
            self._tails[path], _ = self._open(path)
            os.lseek(self._tails[path], 0, os.SEEK_END)
        records, whole = _records(self._tails[path])
        if not whole:
            raise OSError(
                errno.EIO, "records were overwritten before they were read: see the kernel log"
            )
        return _first_lines(records)

    def log(self, path: str) -> dict[str, Any]:
        """Read the lines at a log file's end that matter and belong to this boot."""
        from gpuscan.kernellog.keeping import reading_value, select_lines

        descriptor, mode = self._open(path)
        try:
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file")
            size = os.fstat(descriptor).st_size
            os.lseek(descriptor, max(size - MOST_BYTES, 0), os.SEEK_SET)
            data = _read(descriptor, MOST_BYTES)
        finally:
            os.close(descriptor)
        lines = data.split(b"\n")[1 if size > MOST_BYTES else 0 :]
        booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        found = select_lines(enumerate(lines, 1), since_s=booted_s - CLOCKS_APART_S)
        return reading_value(found, len(lines), lines[:1000], lines[-1000:])

    def run(self, command: str) -> str:
        """Run a fixed command without a shell and return the last of its output.

        It is a member of this reader's process group: whoever kills the reader kills it too.
        """
        if self.root:
            raise OSError(errno.EOPNOTSUPP, "commands are not run for another root")
        limit_s = self.places.sweep_s if command.startswith(SWEEPS) else self.places.run_s
        try:
            done = run_command(
                command.split(),
                {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
                limit_s,
                most_bytes=(MOST_BYTES, MOST_BYTES),
                own_group=False,
            )
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, f"gave no answer within {limit_s:g} s") from None
        if done.code:
            lines = _text(done.stderr).strip().splitlines() or [f"exit code {done.code}"]
            denied = any("permitted" in line or "ermission" in line for line in lines)
            raise OSError(errno.EPERM if denied else errno.EIO, lines[0])
        return _text(done.stdout)

    def _open(self, path: str, more: int = 0) -> tuple[int, int]:
        """Return a descriptor and the mode; no link below another root leads out of it."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | more
        if self.root:
            with walk(path, follow_any, self.root) as found:
                descriptor = found.open(flags)
        else:
            descriptor = os.open(path, flags)
        return descriptor, os.fstat(descriptor).st_mode

    READERS: ClassVar["dict[str, Callable[[HostReader, str], Any]]"] = {
        "file": file,
        "dir": listing,
        "link": link,
        "kmsg": ring,
        "tail": tail,
        "log": log,
        "run": run,
    }


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _read(descriptor: int, most: int) -> bytes:
    """Read in pieces: /proc/sys answers "out of memory" to a read of 4 MiB or more."""
    data = bytearray()
    while len(data) < most and (piece := os.read(descriptor, min(most - len(data), 1 << 16))):
        data += piece
    return bytes(data)


def _first_lines(records: Iterable[bytes]) -> list[str]:
    return [_text(record).split("\n", 1)[0] for record in records]


def _records(descriptor: int) -> tuple[deque[bytes], bool]:
    """Return the ring buffer's records, and whether none was overwritten or dropped.

    Does not wait for new records. Of more than MOST_BYTES, the newest are kept.
    """
    records: deque[bytes] = deque()
    size, whole = 0, True
    while True:
        try:
            record = os.read(descriptor, 8192)
        except BlockingIOError:
            return records, whole
        except BrokenPipeError:
            # overwritten while we read: the next read continues with the oldest that is left
            whole = False
            continue
        if not record:
            return records, whole
        records.append(record)
        size += len(record)
        while size > MOST_BYTES:
            size -= len(records.popleft())
            whole = False
