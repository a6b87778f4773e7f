"""The deadline of a run after its reading: what is left of it bounds what is made of the readings.

Ceilings keep that short; this is for what they do not foresee, such as a check that never ends.
Writing the report is not bounded: a reader that is slow may be a person with a pager, and by then
the verdict is known.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuscan.errors import complain
from gpuscan.live.process import end_what_is_left
from gpuscan.live.scanner import GRACE_S


@contextmanager
def bounded(began_s: float, deadline_s: float) -> Iterator[None]:
    """End this process as incomplete where the block still runs GRACE_S after the deadline of a
    scan that began at *began_s* (monotonic time).
    """

    def late(_number: int, _frame: Any) -> None:
        from gpuscan.model.outcome import EXIT_INCOMPLETE

        complain(
            f"gpuscan: incomplete: the node was read, but not judged within {deadline_s:g} s;"
            " a longer --deadline gives it more time"
        )
        end_what_is_left()
        os._exit(EXIT_INCOMPLETE)

    before = signal.signal(signal.SIGALRM, late)
    left_s = began_s + deadline_s + GRACE_S - time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, max(left_s, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
