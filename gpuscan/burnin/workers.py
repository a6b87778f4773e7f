"""One burn-in worker as the parent sees it: one process per GPU, which runs one test per line and
is never waited for without a limit.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from gpuscan.live import process

GRACE_S = 5.0  # from SIGTERM to SIGKILL: a worker frees its GPU within three
DEATH_S = 0.5  # for the process to be gone after that
MOST_STDERR_BYTES = 4096


class Worker:
    """A worker's process, its pipes, and what it reported of itself.

    *hello* and *error* are its lines of these kinds, *heard_s* is when it last wrote something
    (monotonic), *ended* says how it ended, "" while it runs.
    """

    def __init__(self, address: str, cpus: tuple[int, ...] = ()) -> None:
        self.address = address
        self.hello: dict[str, Any] = {}
        self.error: dict[str, Any] = {}
        self.heard_s = time.monotonic()
        self.ended = ""
        self._pieces = b""
        self._stderr = _scratch_file()  # not a pipe: one that nobody reads would block the worker
        try:
            self.child = process.start_program(
                [sys.executable, "-P", "-m", "gpuscan.burnin.worker.main"],
                _environment(),
                stdin=process.PIPE,
                stderr=self._stderr.fileno(),
            )
        except OSError:
            self._stderr.close()
            raise
        os.set_blocking(self.child.stdout, False)
        self.send({"card": address, "tests": [], "more": True, "cpus": list(cpus)})

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the worker writes something."""
        return self.child.stdout

    def send(self, line: Mapping[str, Any]) -> None:
        """Write one line. Where the worker no longer reads, its output ends as well."""
        data = json.dumps(dict(line)).encode("ascii") + b"\n"
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self.child.stdin, data) :]

    def take(self) -> list[dict[str, Any]]:
        """Return the lines that arrived; note what the worker reports of itself, and its end."""
        try:
            data = os.read(self.child.stdout, 1 << 20)
        except BlockingIOError:
            return []
        self.heard_s = time.monotonic()
        *lines, self._pieces = (self._pieces + data).split(b"\n")
        events = [event for event in map(_parse_event, lines) if event]
        for event in events:
            if event["kind"] == "hello":
                self.hello = event
            elif event["kind"] == "error":
                self.error = event
        if not data:
            how = process.describe_exit(self.child.reap(DEATH_S))
            last_words = self._last_stderr_line()
            self.ended = f"{how} ({last_words})" if last_words else how
        return events

    def _last_stderr_line(self) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(size - MOST_STDERR_BYTES, 0))
        text = self._stderr.read().decode("utf-8", "replace").strip()
        return text.splitlines()[-1][:200] if text else ""

    def kill(self) -> None:
        """End the worker by force."""
        self.child.signal(signal.SIGKILL)
        self.ended = self.ended or "was killed"
        self.child.reap(DEATH_S)

    def close(self) -> None:
        """Close the pipes; a worker that waits for its next test ends by that."""
        self.child.close()
        self._stderr.close()


def end_all(workers: Sequence[Worker]) -> None:
    """End workers: with SIGTERM, after GRACE_S by force; abandon one that hangs in the kernel."""
    process.end_all([worker.child for worker in workers], GRACE_S, DEATH_S)
    for worker in workers:
        worker.ended = worker.ended or process.describe_exit(worker.child.code)
        worker.close()


def _scratch_file() -> Any:
    """Return a file for standard error; /dev/null where no file can be made (a read-only
    container).
    """
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "rb+")


def _environment() -> dict[str, str]:
    """Return the environment: whole GPUs, our own package, no compilation cache left behind."""
    path = os.pathsep.join(part for part in sys.path if part)
    return {**process.whole_gpus(os.environ), "CUDA_CACHE_DISABLE": "1", "PYTHONPATH": path}


def _parse_event(line: bytes) -> dict[str, Any]:
    """Return a worker's line as {kind, …}, {} where it is none."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) and isinstance(event.get("kind"), str) else {}
