"""Runs a program to its end, within a limit, and keeps the last of its output."""

import os
import select
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from gpuscan.live.process import DEVNULL, PIPE, REAP_S, SHORTEST_POLL_S, Child, start_program

CHECK_S = 0.2  # between two looks at the clock and at whether the work goes on
BLOCK = 1 << 16


class Finished(NamedTuple):
    """A program that ran to its end: exit code, and the last bytes of both outputs."""

    code: int
    stdout: bytes
    stderr: bytes


def run_command(
    command: Sequence[str],
    env: Mapping[str, str],
    limit_s: float,
    *,
    most_bytes: tuple[int, int],
    go_on: Callable[[], bool] = lambda: True,
    grace_s: float = 0.0,
    reap_s: float = REAP_S,
    stdin: int = DEVNULL,
    stderr: int = PIPE,
    cwd: str | None = None,
    own_group: bool = True,
) -> Finished:
    """Run a program to its end and keep the last *most_bytes* of standard output and error.

    Raises OSError where it cannot be started, TimeoutError after *limit_s*, InterruptedError where
    *go_on* returned False. In every case the program and its group are ended.
    """
    child = start_program(command, env, stdin=stdin, stderr=stderr, cwd=cwd, own_group=own_group)
    try:
        outputs = collect_outputs(child, limit_s, most_bytes, go_on)
    finally:
        code = child.end(grace_s, reap_s)
    return Finished(0 if code is None else code, *outputs)


def collect_outputs(
    child: Child,
    limit_s: float,
    most_bytes: tuple[int, int],
    go_on: Callable[[], bool] = lambda: True,
) -> tuple[bytes, bytes]:
    """Return the last bytes of both outputs once the child has ended; raises as `run_command`.

    A grandchild may hold the pipes open: nobody waits for the end of the output.
    """
    ends_s = time.monotonic() + limit_s
    outputs = [_Output(child.stdout, most_bytes[0]), _Output(child.stderr, most_bytes[1])]
    while not child.has_ended():
        left_s = ends_s - time.monotonic()
        if not go_on():
            raise InterruptedError
        if left_s <= 0:
            raise TimeoutError
        _read_ready([output for output in outputs if output.is_open], min(left_s, CHECK_S))
    for output in outputs:
        while output.is_open and output.read():
            pass
    return bytes(outputs[0].kept), bytes(outputs[1].kept)


class _Output:
    """The last *most* bytes of one pipe."""

    def __init__(self, descriptor: int, most: int) -> None:
        self.descriptor, self.most = descriptor, most
        self.is_open = descriptor >= 0
        self.kept = bytearray()
        if self.is_open:
            os.set_blocking(descriptor, False)

    def read(self) -> bool:
        """Read what is there; return whether there may be more."""
        try:
            piece = os.read(self.descriptor, BLOCK)
        except BlockingIOError:
            return False
        self.kept += piece
        del self.kept[: -self.most]
        self.is_open = bool(piece)
        return self.is_open


def _read_ready(outputs: Collection[_Output], wait_s: float) -> None:
    if not outputs:
        time.sleep(SHORTEST_POLL_S)  # both pipes are closed: the process is about to end
        return
    by_descriptor = {output.descriptor: output for output in outputs}
    poll = select.poll()
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    for descriptor, _ in poll.poll(wait_s * 1000):
        by_descriptor[descriptor].read()
