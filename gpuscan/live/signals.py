"""Signals that ask a process to stop: what was read so far is wanted, so they end the work and not
the process.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # SIGHUP: the ssh session is gone

received: list[int] = []  # the stop signals that came to this process, in their order
Handlers = dict[signal.Signals, Any]


def record_stop_signals() -> None:
    """Record stop signals in `received` from now on, in a process of our own such as the scan's.

    A signal that our parent process ignores (nohup) stays ignored, except for SIGTERM, which our
    parent process sends itself. SIGCHLD gets its default: where it is ignored, the kernel reaps
    our children and their exit codes are lost.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    handle_stop_signals(_record, even_ignored=(signal.SIGTERM,))


@contextmanager
def recorded_stop_signals() -> Iterator[None]:
    """Record stop signals in `received` within this block only: slow work looks there and is cut
    short, instead of leaving half of its files behind.
    """
    before = handle_stop_signals(_record)
    try:
        yield
    finally:
        received.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def handle_stop_signals(
    handler: Callable[[int, Any], None], *, even_ignored: tuple[signal.Signals, ...] = ()
) -> Handlers:
    """Install *handler* for every stop signal that is not ignored; return the previous handlers."""
    return {
        number: signal.signal(number, handler)
        for number in STOP_SIGNALS
        if number in even_ignored or signal.getsignal(number) is not signal.SIG_IGN
    }


def restore_stop_signals(handler: Callable[[int, Any], None]) -> None:
    """Give the stop signals that *handler* holds their default again: they end the process."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) == handler:
            signal.signal(number, signal.SIG_DFL)


def reset_stop_signals() -> None:
    """Let stop signals end this process, whatever it inherited; called in a new child process."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _record(number: int, _frame: Any) -> None:
    received.append(number)
