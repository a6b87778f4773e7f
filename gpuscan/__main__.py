"""Starts gpuscan: a live command begins its scan before anything heavy is imported, then the
command line takes over.
"""

import gc
import os
import signal
import sys

LIVE_COMMANDS = ("run", "collect", "info", "doctor")
# with one of these the scan reads something else, or nothing at all
NARROWING_OPTIONS = (
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
    _keep_standard_streams_taken()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # without a scan, it just ends the program: no traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # in one short run, collecting garbage costs more than it frees
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from gpuscan import __version__

        print(f"gpuscan {__version__}")
        return
    if arguments[:1] == ["status"]:
        _answer_status(arguments[1:])
    scanner = None
    if _scans_whole_machine(arguments):
        from gpuscan.live.scanner import Request, Scanner

        scanner = Scanner(Request(cables=arguments[0] == "collect"))
    from gpuscan.cli.app import leave, start

    leave(start(scanner))


def _answer_status(arguments: list[str]) -> None:
    """Answer `status` and end, without importing the command line; return where the options need
    it.
    """
    from gpuscan.state.status import told

    try:
        code = told(arguments)
    except BrokenPipeError:
        code = 128 + 13
    if code is not None:
        os._exit(code)


def _keep_standard_streams_taken() -> None:
    """Open /dev/null in place of each closed standard stream: otherwise the next file that is opened
    would get its number, and everything that is printed there.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    if sys.stderr is None:
        # otherwise print() and typer fall back to standard output
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _scans_whole_machine(arguments: list[str]) -> bool:
    """Guess from the bare arguments whether the default scan is wanted. Options that change what is
    read have their scan begun later, once they have been parsed.
    """
    narrows = any(argument.startswith(NARROWING_OPTIONS) for argument in arguments)
    return bool(arguments) and arguments[0] in LIVE_COMMANDS and not narrows


if __name__ == "__main__":
    main()
