"""What the host says: files, listings, links, the kernel's ring buffer and fixed commands, below
`--root`.
"""

import errno
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from gpuscan.live.child import Answer, Places
from gpuscan.live.keys import SWEEPS

MOST_BYTES = 8 * 1024 * 1024
CUT_BYTES = {"/proc/cpuinfo": 8192}  # the first processor's lines tell all that is asked of it
CLOCKS_APART_S = 120.0  # a log's clock may be set after the boot
# a GPU's serial number stands in the beginning, and each word of it takes the GPU a moment
VPD_BYTES = 1024
ERRNO_KINDS = {
    1: "no-permission",
    13: "no-permission",
    2: "not-found",
    6: "not-found",
    19: "not-found",
    20: "not-found",
    95: "not-supported",
    110: "timed-out",
}


class HostReader:
    """Answers one key at a time; every way to read is bounded in size, and none waits for more to
    come.
    """

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
            return [(key, self.WAYS[kind](self, rest), None)]
        except OSError as error:
            told = (
                ERRNO_KINDS.get(error.errno or 0, "garbled"),
                error.strerror or str(error),
                error.errno,
            )
            return [(key, None, told)]

    def path(self, path: str) -> str:
        """Return a path below the root that was named."""
        return os.path.join(self.root, path.lstrip("/")) if self.root else path

    def file(self, path: str) -> str:
        """Read a file's text; bytes that are no UTF-8 survive as surrogates."""
        descriptor, mode = self._open(path)
        try:
            if not stat.S_ISREG(mode):
                raise OSError(22, "not a regular file")
            most = VPD_BYTES if path.endswith("/vpd") else CUT_BYTES.get(path, MOST_BYTES)
            return _text(_read(descriptor, most))
        finally:
            os.close(descriptor)

    def listing(self, path: str) -> list[str]:
        """List a directory."""
        return sorted(os.listdir(self.path(path)))

    def link(self, path: str) -> str:
        """Read a symbolic link."""
        return os.readlink(self.path(path))

    def ring(self, path: str) -> list[str]:
        """Read every record of the kernel's ring buffer; under another root a plain file of such
        records will do.
        """
        descriptor, mode = self._open(path)
        try:
            if self.root and stat.S_ISREG(mode):
                lines = _text(_read(descriptor, MOST_BYTES)).splitlines()
                return [
                    line for line in lines if line[:1].isdigit()
                ]  # the others continue a record
            if not stat.S_ISCHR(mode):
                raise OSError(22, "not the kernel's device")
            return _first_lines(_records(descriptor)[0])
        finally:
            os.close(descriptor)

    def tail(self, path: str) -> list[str]:
        """Read the records that came to the kernel's ring buffer since the last time; the first
        time, none.

        OSError where the buffer went round before it was read: what is left may not be all that was
        said.
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
        """Read the end of a log file: what matters of this boot's lines."""
        from gpuscan.kernellog.keeping import reading_value, select_lines

        descriptor, mode = self._open(path)
        try:
            if not stat.S_ISREG(mode):
                raise OSError(22, "not a regular file")
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
        """Run a fixed command, without a shell; the last of its output is kept."""
        if self.root:
            raise OSError(2, "commands are not run for another root")
        import subprocess

        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        pipe = subprocess.PIPE
        with subprocess.Popen(  # the commands are constants of the collectors  # noqa: S603
            command.split(), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment
        ) as process:
            limit_s = self.places.sweep_s if command.startswith(SWEEPS) else self.places.run_s
            output, complaints = _outputs(process, limit_s)
        if process.returncode:
            words = _text(complaints).strip().splitlines() or [f"exit code {process.returncode}"]
            denied = any("permitted" in line or "ermission" in line for line in words)
            raise OSError(1 if denied else 5, words[0])
        return _text(output)

    def _open(self, path: str) -> tuple[int, int]:
        descriptor = os.open(
            self.path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        )
        return descriptor, os.fstat(descriptor).st_mode

    WAYS: ClassVar["dict[str, Callable[[HostReader, str], Any]]"] = {
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
    """Read the ring buffer without waiting for new records; of more than MOST_BYTES the newest are
    kept.

    Returned with it: whether none was overwritten or left out.
    """
    records: deque[bytes] = deque()
    size, whole = 0, True
    while True:
        try:
            record = os.read(descriptor, 8192)
        except BlockingIOError:
            return records, whole
        except BrokenPipeError:
            # overwritten while we read: the next read goes on with the oldest that is left
            whole = False
            continue
        if not record:
            return records, whole
        records.append(record)
        size += len(record)
        while size > MOST_BYTES:
            size -= len(records.popleft())
            whole = False


def _outputs(process: Any, limit_s: float) -> tuple[bytes, bytes]:
    """Return the last MOST_BYTES of both outputs of a process; one that is not done by the limit
    is killed.
    """
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    poll = select.poll()
    for descriptor in kept:
        poll.register(descriptor, select.POLLIN)
    is_open = set(kept)
    ends_s = time.monotonic() + limit_s
    while is_open:
        ready = poll.poll(max(ends_s - time.monotonic(), 0) * 1000)
        if not ready:
            process.kill()
            raise OSError(110, f"gave no answer within {limit_s:g} s")
        for descriptor, _ in ready:
            piece = os.read(descriptor, 1 << 16)
            kept[descriptor] += piece
            del kept[descriptor][:-MOST_BYTES]
            if not piece:
                poll.unregister(descriptor)
                is_open.discard(descriptor)
    output, complaints = kept.values()
    return bytes(output), bytes(complaints)
