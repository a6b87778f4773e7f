"""Starts worker processes and waits for what they say; the worker pool knows them only as the
protocols here.
"""

import select
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from gpuscan.burnin.workers import Worker, end_all


class WorkerProcess(Protocol):
    """One GPU's worker.

    *hello* and *error* are its own lines of these kinds, *heard_s* the monotonic time of its last
    line, *ended* how it ended (empty while it runs).
    """

    address: str
    hello: dict[str, Any]
    error: dict[str, Any]
    heard_s: float
    ended: str

    def send(self, line: Mapping[str, Any]) -> None:
        """Ask it to run a test."""

    def take(self) -> list[dict[str, Any]]:
        """Return the lines that came since the last call."""

    def kill(self) -> None:
        """End it by force."""

    def close(self) -> None:
        """Close its pipes."""


class Launcher(Protocol):
    """Where workers come from."""

    def start(self, address: str, cpus: tuple[int, ...]) -> WorkerProcess:
        """Start the worker of a GPU on some CPUs (all if none); OSError where that is not
        possible.
        """

    def wait(self, workers: Sequence[WorkerProcess], seconds: float) -> list[WorkerProcess]:
        """Wait until one of them says something or ends, for some seconds at most; return those."""

    def end(self, workers: Sequence[WorkerProcess]) -> None:
        """End them: with SIGTERM, then by force."""


class ProcessLauncher:
    """Workers as processes of this machine."""

    def start(self, address: str, cpus: tuple[int, ...]) -> WorkerProcess:
        """Start a worker."""
        return Worker(address, cpus)

    def wait(self, workers: Sequence[WorkerProcess], seconds: float) -> list[WorkerProcess]:
        """Wait on the workers' pipes."""
        poll = select.poll()
        by_descriptor = {cast(Worker, worker).fileno(): worker for worker in workers}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        return [by_descriptor[descriptor] for descriptor, _ in poll.poll(seconds * 1000)]

    def end(self, workers: Sequence[WorkerProcess]) -> None:
        """End the processes."""
        end_all([cast(Worker, worker) for worker in workers])
