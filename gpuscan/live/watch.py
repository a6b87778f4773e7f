"""Watch the reading of a log: it ends at its deadline, and a terminal shows how far it is."""

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from gpuscan.text import printable

REDRAW_S = 1.0
MIB = 1 << 20
Read = Callable[[], int]  # the bytes read so far


class TimedFile:
    """A file or pipe that ends once *deadline_s* has passed (None: never); then *late* is set."""

    def __init__(self, file: BinaryIO, deadline_s: float | None) -> None:
        self.file, self.deadline_s = file, deadline_s
        self.began_s = time.monotonic()
        self.late = False

    def is_over(self) -> bool:
        """Return whether the deadline has passed."""
        if self.deadline_s is not None:
            self.late = self.late or time.monotonic() - self.began_s > self.deadline_s
        return self.late

    def read(self, most: int) -> bytes:
        """Return the next bytes, b"" at the end or once the deadline has passed."""
        if self.deadline_s is not None:
            left_s = max(self.began_s + self.deadline_s - time.monotonic(), 0)
            ready, _, _ = select.select([self.file], [], [], left_s)
            if not ready or self.is_over():
                self.late = True
                return b""
        return self.file.read(most)


@contextmanager
def shown(name: str, read: Read, size: int) -> Iterator[None]:
    """Show on standard error, if that is a terminal, how many bytes were *read* of *size* (0: not
    known); the line is cleared in the end.
    """
    stream = sys.stderr
    if stream is None or not stream.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        yield
        return
    over = threading.Event()

    def redraw() -> None:
        while not over.wait(REDRAW_S):
            _draw(f"{printable(name)}: {_progress(read(), size)}")

    thread = threading.Thread(target=redraw, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _draw("")


def _progress(read: int, size: int) -> str:
    """Return how far the reading is.

    >>> _progress(512 << 20, 2048 << 20), _progress(512 << 20, 0)
    ('512 of 2048 MiB read (25%)', '512 MiB read')
    """
    if not size:
        return f"{read // MIB} MiB read"
    return f"{read // MIB} of {size // MIB} MiB read ({100 * read // size}%)"


def _draw(text: str) -> None:
    try:
        print(f"\r\033[K{text}\r", end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return  # the terminal is gone: the reading goes on
