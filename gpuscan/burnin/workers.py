"""One worker of the burn-in as the parent sees it: a process a GPU, asked a test a line, never
waited for in vain.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from gpuscan.live import process as source

GRACE_S = 5.0  # from SIGTERM to SIGKILL: a worker frees its GPU within three
DEATH_S = 0.5  # to be gone after that
MOST_COMPLAINTS = 4096


class Worker:
    """A worker's process, its pipes, and what it said of itself."""

    def __init__(self, address: str, cpus: tuple[int, ...] = ()) -> None:
        self.address = address
        self.hello: dict[str, Any] = {}
        self.error: dict[str, Any] = {}
        self.heard_s = time.monotonic()
        self.ended = ""  # how, in words, once it has
        self._pieces = b""
        self._complaints = _scrap()  # a pipe that nobody reads would stop who fills it
        words = [sys.executable, "-P", "-m", "gpuscan.burnin.worker.main"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(  # our own module, by our own interpreter  # noqa: S603
            words,
            stdin=pipe,
            stdout=pipe,
            stderr=self._complaints,
            env=_environment(),
            start_new_session=True,
            preexec_fn=_obey,
        )
        source.adopt(self.process.pid)
        self._stdin: Any = self.process.stdin  # both are pipes: they were asked for
        self._stdout: Any = self.process.stdout
        os.set_blocking(self.fileno(), False)
        self.send({"card": address, "tests": [], "more": True, "cpus": list(cpus)})

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when it says something."""
        return int(self._stdout.fileno())

    def send(self, line: Mapping[str, Any]) -> None:
        """Write one line; where nobody reads any more, the end of its answers will tell."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._stdin.write(json.dumps(dict(line)).encode("ascii") + b"\n")
            self._stdin.flush()

    def take(self) -> list[dict[str, Any]]:
        """Return the lines that came; notes what it says of itself, and that it has ended."""
        try:
            data = os.read(self.fileno(), 1 << 20)
        except BlockingIOError:
            return []
        self.heard_s = time.monotonic()
        *lines, self._pieces = (self._pieces + data).split(b"\n")
        told = [line for line in map(_parsed, lines) if line]
        for line in told:
            if line["kind"] == "hello":
                self.hello = line
            elif line["kind"] == "error":
                self.error = line
        if not data:
            self._reap()
        return told

    def _reap(self) -> None:
        status = source.reap(self.process.pid, DEATH_S)
        if status is None:
            self.ended = "closed its pipe"
        elif os.WIFSIGNALED(status):
            self.ended = f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
        else:
            self.ended = f"ended with code {os.WEXITSTATUS(status)}"
        self.process.returncode = 0 if status is None else status  # nobody else waits for it
        complaint = self._complaint()
        self.ended += f" ({complaint})" if complaint else ""

    def _complaint(self) -> str:
        """Return the last line that it wrote to standard error."""
        size = self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(size - MOST_COMPLAINTS, 0))
        text = self._complaints.read().decode("utf-8", "replace").strip()
        return text.splitlines()[-1][:200] if text else ""

    def end(self, how: int = signal.SIGTERM) -> None:
        """Ask it to end; with SIGKILL, make it end."""
        if not self.ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, how)

    def kill(self) -> None:
        """End it by force."""
        self.end(signal.SIGKILL)
        self.ended = self.ended or "was killed"
        self.bury(DEATH_S)

    def bury(self, patience_s: float) -> None:
        """Collect it, if it is gone by then. Nobody else may: who has its number later is a
        stranger.
        """
        source.reap(self.process.pid, patience_s)
        self.process.returncode = 0

    def close(self) -> None:
        """Close the pipes: one that waits for its next test ends by that."""
        for end in (self._stdin, self._stdout, self._complaints):
            with contextlib.suppress(OSError):
                end.close()


def end_all(workers: "list[Worker]") -> None:
    """End workers: by a word, after GRACE_S by force; one that sits in the kernel is left to its
    fate.
    """
    for worker in workers:
        worker.end(signal.SIGTERM)
    ends_s = time.monotonic() + GRACE_S
    while any(not worker.ended for worker in workers) and time.monotonic() < ends_s:
        for worker in workers:
            if not worker.ended:
                worker.take()
        time.sleep(0.02)
    for worker in workers:
        worker.end(signal.SIGKILL)
        worker.ended = worker.ended or "was killed: it did not end when it was asked to"
    ends_s = time.monotonic() + DEATH_S
    for worker in workers:
        worker.bury(ends_s - time.monotonic())
        worker.close()


def _scrap() -> Any:
    """Return a file for what nobody may read; where none can be made (a container that may not
    write) it goes nowhere.
    """
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "rb+")


def _obey() -> None:
    """Run in the new process: never outlive the parent, and be stopped by signals whatever the
    parent ignores.
    """
    source.die_with_parent()
    for number in source.STOPPING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _environment() -> dict[str, str]:
    """Return the environment: whole GPUs; our own package, no cache left behind."""
    path = os.pathsep.join(part for part in sys.path if part)
    return {**source.whole_gpus(os.environ), "CUDA_CACHE_DISABLE": "1", "PYTHONPATH": path}


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("kind"), str) else {}
