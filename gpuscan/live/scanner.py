"""The scan runs in a process of its own: it reads while the command line is still being imported,
and hands over one recording.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuscan.live.process import die_with_parent, end_what_is_left, fork
from gpuscan.live.signals import (
    STOP_SIGNALS,
    handle_stop_signals,
    record_stop_signals,
    restore_stop_signals,
)

if TYPE_CHECKING:
    from gpuscan.live.process import Child
    from gpuscan.live.supervisor import ReadOptions
    from gpuscan.recording import Recording

DEADLINE_S = 180.0  # without --deadline
CANCEL_S = 0.5  # for a scan's process to end its readers
DEATH_S = 5.0  # to be gone after SIGKILL: it never touches the machine, so it cannot hang
# how much longer than the deadline the scan's process is waited for: it never touches the machine
# itself
GRACE_S = 5.0
LONGEST_WAIT_S = 3600.0  # poll takes no more than 24 days, and a burn-in may be longer
IGNORED_SIGNALS = 2  # so many signals end only the scan; one more ends the program


class Request(NamedTuple):
    """What to read: below which roots, within how many seconds, NVML of which GPUs only (PCI
    addresses; all GPUs if empty).

    *cables* asks for the far end of each port too, which sweeps the fabric; *keys*, if any, are all
    that is read. *load* is a burn-in, which is run instead of the scan: it is called with the
    readers and returns its recording.
    """

    root: str = "/"
    driver_root: str = ""
    deadline_s: float = DEADLINE_S
    gpus: tuple[str, ...] = ()
    cables: bool = False
    keys: tuple[str, ...] = ()
    load: "Callable[[Mapping[str, Child], ReadOptions], Recording] | None" = None


class Scanner:
    """A scan that runs in a process of its own. Signals end the scan and not the program: what was
    read is judged.

    The report does not wait for that process to end (`end_what_is_left` does, later): the driver
    takes a while to release the GPUs.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.signals: list[int] = []
        # blocked until each side has its handlers
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        self.child = fork(lambda _, pipe: _serve(request, pipe, mask))
        handle_stop_signals(self._forward)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _forward(self, number: int, _frame: Any) -> None:
        self.signals.append(number)
        self.child.signal(signal.SIGTERM)
        if len(self.signals) >= IGNORED_SIGNALS:
            restore_stop_signals(self._forward)

    def finish(self) -> "tuple[Recording, int]":
        """Wait for the recording; return it with the signal that cut it short, 0 if none did."""
        import json

        from gpuscan.errors import RecordingError
        from gpuscan.recording import Recording, restore

        data = self._receive()
        self._release_signals()
        try:
            recording = restore(json.loads(data), "the scan")
        except (ValueError, RecordingError):
            print(
                "gpuscan: the scan's process died before it could hand over what it had read",
                file=sys.stderr,
            )
            recording = Recording({}, ["*"])
        number = int(self.signals[0]) if self.signals else 0
        if number:
            recording.meta = recording.meta._replace(ended_by_signal=number)
        return recording, number or int(recording.meta.ended_by_signal or 0)

    def _release_signals(self) -> None:
        """Let the next signal end the program; after one that ended the scan, the report comes
        first.
        """
        if not self.signals:
            restore_stop_signals(self._forward)

    def _receive(self) -> bytes:
        """Read until the scan's process closes its pipe, or is far too late."""
        import select
        import time

        ends_s = time.monotonic() + self.request.deadline_s + GRACE_S
        poll = select.poll()
        poll.register(self.child.stdout, select.POLLIN)
        pieces = []
        while (left_s := ends_s - time.monotonic()) > 0:
            if not poll.poll(min(left_s, LONGEST_WAIT_S) * 1000):
                continue
            piece = os.read(self.child.stdout, 1 << 20)
            if not piece:
                break
            pieces.append(piece)
        return b"".join(pieces)

    def cancel(self) -> None:
        """End the scan's process. It gets a moment to end its readers; they end with it in any
        case.
        """
        self.child.close()
        self._release_signals()
        self.child.end(CANCEL_S, DEATH_S)


def _serve(request: Request, pipe: int, mask: Collection[int]) -> None:
    """Scan, write the recording, and end without running anything of the parent's at exit."""
    code = 1
    try:
        record_stop_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        die_with_parent()
        # before the rest is imported: importing NVML's binding takes longer than all of it
        from gpuscan.live.child import fork_readers

        readers = fork_readers(request.driver_root)
        import json

        from gpuscan.errors import ProfileError
        from gpuscan.live.limits import load_limits
        from gpuscan.live.scan import scan
        from gpuscan.live.supervisor import ReadOptions
        from gpuscan.recording import dump

        try:
            limits = load_limits()
        except ProfileError:
            os._exit(2)  # the command reads the limits too, and reports the mistake
        options = ReadOptions(request.root, request.driver_root, request.deadline_s, limits)
        if request.load is not None:
            recording = request.load(readers, options)
        else:
            recording = scan(
                readers,
                options,
                _show_waiting,
                request.gpus,
                cables=request.cables,
                keys=request.keys,
            )
        # a broken pipe: the scan was cancelled, and nobody wants the recording
        with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "wb") as out:
            out.write(json.dumps(dump(recording), separators=(",", ":")).encode("ascii"))
        end_what_is_left()
        code = 0
    finally:
        if code:
            _report_death()
        os._exit(code)


def _report_death() -> None:
    """Say in a line that this machine has no more of something; show the rest as our own fault."""
    from gpuscan.errors import complain, used_up

    kind, error, trace = sys.exc_info()
    if kind is None or error is None:
        return
    short = used_up(error)
    if short:
        complain(f"gpuscan: the scan's process: {short}")
    else:
        sys.excepthook(kind, error, trace)


def _show_waiting(key: str, seconds: float) -> None:
    """Show a person at the terminal what the scan waits for; clear the line once it no longer
    waits.
    """
    from gpuscan.text import printable

    if sys.stderr is not None and sys.stderr.isatty():
        text = f"waiting for {printable(key)} ({seconds:.0f} s)" if seconds else ""
        print(f"\r\033[K{text}\r", end="", file=sys.stderr, flush=True)
