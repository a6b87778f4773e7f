"""Time and signals as a burn-in sees them: the machine's own, or a test's."""

import time
from collections.abc import Callable
from typing import NamedTuple

from gpuscan.live import signals


class Clock(NamedTuple):
    """*now* is monotonic and *wall* since the epoch, both in seconds; *interrupted* says whether a
    signal asked the burn-in to end.
    """

    now: Callable[[], float]
    sleep: Callable[[float], None]
    wall: Callable[[], float]
    interrupted: Callable[[], bool]


def real_clock() -> Clock:
    """Return this machine's clock, and the signals that this process received."""
    return Clock(time.monotonic, time.sleep, time.time, lambda: bool(signals.received))
