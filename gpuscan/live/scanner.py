"""The scan's own process: it reads while the command line is still being imported, and hands over
one recording.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from gpuscan.recording import Recording

DEADLINE_S = 180.0  # where nothing is said
CANCEL_S = 0.5
# how much longer than the deadline the scan's process is waited for: it never touches the machine
# itself
GRACE_S = 5.0
LONGEST_WAIT_S = 3600.0  # at a time: poll takes no more than 24 days, and a burn-in may
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
IN_VAIN = 2  # so many signals end the scan only; one more ends the program, whatever it is at


class Request(NamedTuple):
    """What to read: below which roots, within how many seconds, NVML of which GPUs only (PCI
    addresses; all if none).

    *cables* asks for the far end of each port, too, which sweeps the fabric; *keys*, if any, are
    all that is read. *load* is a burn-in (`gpuscan.burnin.scheduler.Load`), which is then all that
    is done.
    """

    root: str = "/"
    driver_root: str = ""
    deadline_s: float = DEADLINE_S
    gpus: tuple[str, ...] = ()
    cables: bool = False
    keys: tuple[str, ...] = ()
    load: Any = None


class Scanner:
    """A scan under way in a process of its own. Signals end the scan, not the program: what was
    read is judged.

    Its end is not waited for before the report is out (`end_all`): letting go of the GPUs takes
    the driver a while.
    """

    under_way: "ClassVar[list[Scanner]]" = []  # a process-wide list is what it is meant to be  # noqa: RUF012

    def __init__(self, request: Request) -> None:
        self.request = request
        self.signals: list[int] = []
        self.pipe, theirs = os.pipe()
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, STOPPING
        )  # until each side has its handlers
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _serve(request, theirs, before)
        os.close(theirs)
        self.under_way.append(self)
        for number in STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and the like mean it
                signal.signal(number, self._forward)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _forward(self, number: int, _frame: Any) -> None:
        self.signals.append(number)
        self._end(signal.SIGTERM)
        if len(self.signals) >= IN_VAIN:
            self._release()

    def _release(self) -> None:
        """Let a signal end the program again."""
        for number in STOPPING:
            if signal.getsignal(number) == self._forward:
                signal.signal(number, signal.SIG_DFL)

    def _end(self, number: int) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.kill(self.pid, number)

    def finish(self) -> "tuple[Recording, int]":
        """Wait for the recording; return it with the signal that cut it short, 0 if none did."""
        import json

        from gpuscan.errors import RecordingError
        from gpuscan.recording import Recording, restore

        data = self._received()
        if not self.signals:
            self._release()
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

    def _received(self) -> bytes:
        """Read until the scan's process closes its pipe, or is far too late."""
        import select
        import time

        ends_s = time.monotonic() + self.request.deadline_s + GRACE_S
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        pieces = []
        while (left_s := ends_s - time.monotonic()) > 0:
            if not poll.poll(min(left_s, LONGEST_WAIT_S) * 1000):
                continue
            piece = os.read(self.pipe, 1 << 20)
            if not piece:
                break
            pieces.append(piece)
        return b"".join(pieces)

    def cancel(self) -> None:
        """End the scan's process. It is given a moment to end its readers; they end with it in any
        case.
        """
        if not self.pid:
            return
        import time

        os.close(self.pipe)
        if not self.signals:
            self._release()
        self._end(signal.SIGTERM)
        ends_s = time.monotonic() + CANCEL_S
        while not _gone(self.pid):
            if time.monotonic() > ends_s:
                self._end(signal.SIGKILL)
            time.sleep(0.001)
        self.pid = 0


def end_all() -> None:
    """End every scan that was begun: nobody is left reading, nor as a zombie."""
    for scanner in Scanner.under_way:
        scanner.cancel()


def _gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:  # whoever started us ignores SIGCHLD: the kernel has collected it
        return True


def _serve(request: Request, pipe: int, mask: Collection[int]) -> None:
    """Scan, write the recording, and end without running anything of the parent's at exit."""
    code = 1
    try:
        from gpuscan.live import process as source

        source.catch_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        source.die_with_parent()
        children = source.spawn_all(
            request.driver_root
        )  # before the rest is imported: NVML's binding takes longer than all of it
        import json

        from gpuscan.errors import ProfileError
        from gpuscan.live.limits import load_limits
        from gpuscan.live.scan import scan
        from gpuscan.live.supervisor import Options
        from gpuscan.recording import dump

        try:
            limits = load_limits()
        except ProfileError:
            os._exit(2)  # the command reads the limits too, and reports the mistake
        options = Options(request.root, request.driver_root, request.deadline_s, limits)
        if request.load is not None:
            from gpuscan.burnin.scheduler import burn

            recording = burn(request.load, children, options)
        else:
            recording = scan(
                children, options, _waiting, request.gpus, cables=request.cables, keys=request.keys
            )
        with (
            contextlib.suppress(BrokenPipeError),
            os.fdopen(pipe, "wb") as out,
        ):  # cancelled: nobody wants it
            out.write(json.dumps(dump(recording), separators=(",", ":")).encode("ascii"))
        source.leave()
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())
        os._exit(code)


def _waiting(key: str, seconds: float) -> None:
    """Tell a person at the terminal what the scan waits for, and wipe it away where it waits no
    longer.
    """
    if sys.stderr is not None and sys.stderr.isatty():
        told = f"waiting for {key} ({seconds:.0f} s)" if seconds else ""
        print(f"\r\033[K{told}\r", end="", file=sys.stderr, flush=True)
