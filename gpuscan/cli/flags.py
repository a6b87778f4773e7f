"""Command words and flags that are needed before typer is imported; options.py uses the same."""

SCAN_COMMANDS = ("run", "collect", "info", "doctor")  # they scan this machine, and start at once

ROOT = "--root"
DRIVER_ROOT = "--driver-root"
DEADLINE = "--deadline"
GPUS = "--gpus"
REPLAY = "--replay"
NO_CABLES = "--no-cables"
HELP = ("--help", "-h")
# with one of these the scan that would start at once is the wrong one, or none is needed
CHANGES_THE_SCAN = (ROOT, DRIVER_ROOT, DEADLINE, GPUS, REPLAY, NO_CABLES, *HELP)


def starts_a_scan(arguments: list[str]) -> bool:
    """Return whether a command line asks for a plain scan of all of this machine."""
    if not arguments or arguments[0] not in SCAN_COMMANDS:
        return False
    return not any(argument.startswith(CHANGES_THE_SCAN) for argument in arguments)
