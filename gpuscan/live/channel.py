"""One reader as the parent sees it: its child, what it was asked and has not answered, bytes under
way.
"""

import json
import os
import signal
import time
from collections import deque
from collections.abc import Sequence

from gpuscan.live.process import Child, kill, reap, spawn

STATUS_S = 0.5  # a child whose pipe closed is about to be dead: how it ended is worth this moment


class Desk:
    """The pipes to one kind of reader. Nothing here waits or judges; that is the guard's part."""

    def __init__(self, kind: str, greeting: Sequence[object]) -> None:
        self.kind = kind
        self.child: Child | None = None
        self.asked: deque[str] = deque()
        self.since_s = 0.0  # when the first key asked began to be the one under way (monotonic)
        self.to_send = b""
        self.given_up = ""  # why this reader is asked nothing more
        self.hangs: list[
            bool
        ] = []  # for each child that gave no answer: was it long enough to prove a hang?
        self.crashes = 0
        self._greeting = json.dumps(greeting).encode() + b"\n"
        self._pieces: list[bytes] = []

    def start(self, child: Child | None = None) -> None:
        """Take a child that was forked earlier, or fork one; raises OSError where that cannot be
        done.
        """
        self.child = child or spawn(self.kind)
        self.to_send = self._greeting
        self._pieces = []

    def ask(self, keys: list[str]) -> None:
        """Queue keys behind those that were asked before."""
        if not self.asked:
            self.since_s = time.monotonic()
        self.asked.extend(keys)
        self.to_send += json.dumps(keys).encode() + b"\n"

    def send(self) -> None:
        """Write what the pipe takes. Where nobody reads any more, the end of the answers will
        tell.
        """
        if not self.to_send or self.child is None:
            return
        try:
            self.to_send = self.to_send[os.write(self.child.requests, self.to_send) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.to_send = b""

    def take(self) -> tuple[list[bytes], bool]:
        """Return the whole lines that came, and whether the child closed its end."""
        if self.child is None:
            return [], False
        data = os.read(self.child.answers, 1 << 20)
        if b"\n" not in data:
            self._pieces.append(data)
            return [], not data
        *lines, rest = b"".join([*self._pieces, data]).split(b"\n")
        self._pieces = [rest]
        return lines, False

    def answered(self) -> None:
        """Count the key under way as answered: the next one is under way from now on."""
        self.asked.popleft()
        self.since_s = time.monotonic()

    def end(self, patience_s: float = 0.0) -> str:
        """Kill the child and forget it; return how it ended, as far as that is known after
        *patience_s*.
        """
        child, self.child = self.child, None
        if child is None:
            return "was not there"
        os.close(child.requests)
        os.close(child.answers)
        kill(child.pid)
        status = reap(child.pid, patience_s)
        if status is None:
            return "closed its pipe"
        if os.WIFSIGNALED(status):
            return f"was killed by {_signal_name(os.WTERMSIG(status))}"
        return f"exited with code {os.WEXITSTATUS(status)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
