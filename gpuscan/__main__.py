"""The entry point: a command that scans starts its scan before anything heavy is imported."""

import contextlib
import gc
import os
import signal
import sys

from gpuscan.cli.flags import starts_a_scan


def main() -> None:
    """Run gpuscan."""
    try:
        _run()
    except MemoryError:  # so little is left that it cannot even be reported as an error is
        os.write(2, b"gpuscan: cannot go on: Cannot allocate memory\n")
        os._exit(2)


def _run() -> None:
    _keep_standard_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends the program, without a traceback
    gc.disable()  # in one short run collecting garbage costs more than it frees
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from gpuscan import __version__

        with contextlib.suppress(OSError):  # the command line below says why it failed
            print(f"gpuscan {__version__}", flush=True)
            return
    if arguments[:1] == ["status"]:
        _answer_at_once(arguments[1:])
    scanner = None
    if starts_a_scan(arguments):
        from gpuscan.live.scanner import Request, Scanner

        scanner = Scanner(Request(cables=arguments[0] == "collect"))
    from gpuscan.cli.app import leave, start

    leave(start(scanner))


def _answer_at_once(arguments: list[str]) -> None:
    """Answer `status` without importing typer; whatever else than plain options is left to it."""
    from gpuscan.state.status import print_status

    try:
        code = print_status(arguments)
    except BrokenPipeError:
        code = 128 + 13
    if code is not None:
        os._exit(code)


def _keep_standard_streams() -> None:
    """Open /dev/null for each closed standard stream: otherwise the next file to be opened gets
    its number, and what is printed there.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    if sys.stderr is None:
        # without it print() and typer would write to standard output
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    main()
