"""One reader as the parent sees it: its process, the keys it was asked for and has not answered,
and the bytes in transit.
"""

import json
import os
import time
from collections import deque
from collections.abc import Sequence

from gpuscan.live.child import fork_reader
from gpuscan.live.process import Child, describe_exit

# a child whose pipe closed is about to be dead; how it ended is worth waiting a moment for
STATUS_S = 0.5


class ReaderChannel:
    """The pipes to one kind of reader. Waiting and judging is the supervisor's job."""

    def __init__(self, kind: str, greeting: Sequence[object]) -> None:
        self.kind = kind
        self.child: Child | None = None
        self.asked: deque[str] = deque()
        self.since_s = 0.0  # since when the first of *asked* has been in progress (monotonic)
        self.to_send = b""
        self.given_up = ""  # why this reader is asked nothing more
        # for each child that did not answer: whether it was silent long enough to prove a hang
        self.hangs: list[bool] = []
        self.crashes = 0
        self._greeting = json.dumps(greeting).encode() + b"\n"
        self._pieces: list[bytes] = []

    def start(self, child: Child | None = None) -> None:
        """Take a child that was forked earlier, or fork one; raises OSError."""
        self.child = child or fork_reader(self.kind)
        os.set_blocking(self.child.stdin, False)
        os.set_blocking(self.child.stdout, False)
        self.to_send = self._greeting
        self._pieces = []

    def ask(self, keys: list[str]) -> None:
        """Queue keys behind those that were asked before."""
        if not self.asked:
            self.since_s = time.monotonic()
        self.asked.extend(keys)
        self.to_send += json.dumps(keys).encode() + b"\n"

    def send(self) -> None:
        """Write as much as the pipe takes. Where nobody reads it, the answers will end as well."""
        if not self.to_send or self.child is None:
            return
        try:
            self.to_send = self.to_send[os.write(self.child.stdin, self.to_send) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.to_send = b""

    def take(self) -> tuple[list[bytes], bool]:
        """Return the complete lines that arrived, and whether the child closed its end."""
        if self.child is None:
            return [], False
        data = os.read(self.child.stdout, 1 << 20)
        if b"\n" not in data:
            self._pieces.append(data)
            return [], not data
        *lines, rest = b"".join([*self._pieces, data]).split(b"\n")
        self._pieces = [rest]
        return lines, False

    def count_answer(self) -> None:
        """Count the key in progress as answered: the next one is in progress from now on."""
        self.asked.popleft()
        self.since_s = time.monotonic()

    def end(self, reap_s: float = 0.0) -> str:
        """Kill the child and forget it; return how it ended, as far as that is known after
        *reap_s*.
        """
        child, self.child = self.child, None
        return "was not there" if child is None else describe_exit(child.end(reap_s=reap_s))
