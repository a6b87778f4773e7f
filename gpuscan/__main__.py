"""The start: a live command begins its scan before anything heavy is imported, then the command
line takes over.
"""

import gc
import os
import signal
import sys

LIVE = ("run", "collect", "info", "doctor")
NOT_ALL = (
    "--no-cables",
    "--replay",
    "--root",
    "--driver-root",
    "--deadline",
    "--gpus",
    "--help",
    "-h",
)


def main() -> None:
    """Run gpuscan."""
    _hold_the_standard_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # without a scan to end, it ends the program and needs no traceback
    gc.disable()  # one short run; collecting its garbage would cost more than it frees
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from gpuscan import __version__

        print(f"gpuscan {__version__}")
        return
    if arguments[:1] == ["status"]:
        _answer_at_once(arguments[1:])
    scanner = None
    if _scans_all_of_this_machine(arguments):
        from gpuscan.live.scanner import Request, Scanner

        scanner = Scanner(Request(cables=arguments[0] == "collect"))
    from gpuscan.cli.app import leave, start

    leave(start(scanner))


def _answer_at_once(arguments: list[str]) -> None:
    """Answer `status` without the command line; what is more than plain words is left to it."""
    from gpuscan.state.status import told

    try:
        code = told(arguments)
    except BrokenPipeError:
        code = 128 + 13
    if code is not None:
        os._exit(code)


def _hold_the_standard_streams() -> None:
    """Where one is closed, keep its number taken: the next file opened would get it, and whatever
    is printed there.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # print() and typer would turn to stdout  # noqa: SIM115


def _scans_all_of_this_machine(arguments: list[str]) -> bool:
    """Guess from the bare words. Whatever changes what is read begins its scan later, when it has
    been understood.
    """
    others = any(word.startswith(NOT_ALL) for word in arguments)
    return bool(arguments) and arguments[0] in LIVE and not others


if __name__ == "__main__":
    main()
