"""The scan's own process: it reads while the command line is still being imported, and hands over one recording."""

import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gpuscan.recording import Recording

DEADLINE_S = 180.0
JUDGING_S = 1.0  # what is left of the deadline for judging and telling, and a thirtieth of it at most
CANCEL_S = 0.5
GRACE_S = 5.0  # how much longer than the deadline the scan's process is waited for: it never touches the machine itself


class Request(NamedTuple):
    """What to read: below which roots, within how many seconds, NVML of which cards only (PCI addresses; all if none)."""

    root: str = "/"
    driver_root: str = ""
    deadline_s: float = DEADLINE_S
    cards: tuple[str, ...] = ()


class Scanner:
    """A scan under way in a process of its own. Signals end the scan, not the program: what was read is judged."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.signal = 0
        self.pid = 0
        self.pipe, theirs = os.pipe()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._forward)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _serve(request, theirs)
        os.close(theirs)
        if self.signal:  # it came before there was anyone to tell
            self._forward(self.signal, None)

    def _forward(self, number: int, _frame: Any) -> None:
        self.signal = self.signal or number
        if self.pid:
            _kill(self.pid, signal.SIGTERM)

    def finish(self) -> "tuple[Recording, int]":
        """Wait for the recording; return it with the signal that cut it short, 0 if none did."""
        from gpuscan.errors import RecordingError
        from gpuscan.recording import Recording, restore

        data = self._received()
        try:
            recording = restore(json.loads(data), "the scan")
        except (ValueError, RecordingError):
            print("gpuscan: the scan's process died before it could hand over what it had read", file=sys.stderr)
            recording = Recording({}, ["*"])
        if self.signal:
            recording.meta["ended_by_signal"] = int(self.signal)
        return recording, self.signal or int(recording.meta.get("ended_by_signal", 0))

    def _received(self) -> bytes:
        """Read until the scan's process closes its pipe, or is far too late."""
        import select
        import time

        ends_s = time.monotonic() + self.request.deadline_s + GRACE_S
        pieces = []
        while (left_s := ends_s - time.monotonic()) > 0:
            ready, _, _ = select.select([self.pipe], [], [], left_s)
            piece = os.read(self.pipe, 1 << 20) if ready else b""
            if not piece:
                break
            pieces.append(piece)
        self.cancel()
        return b"".join(pieces)

    def cancel(self) -> None:
        """End the scan's process. It is given a moment to end its readers; they end with it in any case."""
        import time

        if not self.pid:
            return
        os.close(self.pipe)
        _kill(self.pid, signal.SIGTERM)
        ends_s = time.monotonic() + CANCEL_S
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > ends_s:
                _kill(self.pid, signal.SIGKILL)
            time.sleep(0.001)
        self.pid = 0


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(pid, number)


def _serve(request: Request, pipe: int) -> None:
    """Scan, write the recording, and end without running anything of the parent's at exit."""
    code = 1
    try:
        from gpuscan.recording import dump
        from gpuscan.source.guard import Options
        from gpuscan.source.live import limits_from, scan

        limits = limits_from(os.environ.get("GPUSCAN_LIMITS", ""))
        deadline_s = request.deadline_s - min(JUDGING_S, request.deadline_s / 30)
        options = Options(request.root, request.driver_root, deadline_s, limits)
        recording, _ = scan(None, options, _waiting, request.cards)
        with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "wb") as out:  # cancelled: nobody wants it
            out.write(json.dumps(dump(recording), separators=(",", ":")).encode("ascii"))
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())
        os._exit(code)


def _waiting(key: str, seconds: float) -> None:
    """Tell a person at the terminal what the scan waits for."""
    if sys.stderr.isatty():
        print(f"\r\033[Kwaiting for {key} ({seconds:.0f} s)\r", end="", file=sys.stderr, flush=True)
