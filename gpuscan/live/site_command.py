"""Runs the site's own command on a verdict: it pages, drains, cordons, migrates."""

import os
import shlex
from collections.abc import Mapping, Sequence

from gpuscan.errors import UsageError
from gpuscan.live import signals
from gpuscan.live.command import run_command
from gpuscan.live.process import STDOUT
from gpuscan.live.trusted import NotOnPathError, find_program, trusted

LIMIT_S = 60.0
GRACE_S = 2.0
MOST_OUTPUT_BYTES = 4096
OPTION = "--on-verdict"


def read_command(text: str) -> tuple[str, ...]:
    """Return a command line's words, the first the program's path, without a shell.

    Raises UsageError where there is no such program, or as root where another user may change it.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{OPTION}: {error}: quote it for a shell") from None
    if not words:
        raise UsageError(f"{OPTION}: no command: name the program to run")
    try:
        return (find_program(words[0], os.environ), *words[1:])
    except NotOnPathError:
        raise UsageError(f"{OPTION}: {words[0]}: no such program on PATH") from None
    except OSError as error:
        raise UsageError(f"{OPTION}: {words[0]}: {error.strerror or error}") from None


def run_on_verdict(
    command: Sequence[str], report: bytes, facts: Mapping[str, str], limit_s: float = LIMIT_S
) -> tuple[str, str]:
    """Run a command with a report on its standard input and *facts* in its environment, for at
    most *limit_s*; return what became of it (`notify ended with 0`) and the last it printed.
    """
    name = os.path.basename(command[0])
    source = os.memfd_create("report")  # a pipe would fill up before a slow command reads it
    try:
        os.write(source, report)
        os.lseek(source, 0, os.SEEK_SET)
        with signals.recorded_stop_signals():  # they end the command: the verdict stands
            done = run_command(
                command,
                {**trusted(os.environ), **facts},
                limit_s,
                most_bytes=(MOST_OUTPUT_BYTES, 0),
                go_on=lambda: not signals.received,
                grace_s=GRACE_S,
                stdin=source,
                stderr=STDOUT,
            )
    except TimeoutError:
        return f"{name} was ended after {limit_s:g} s", ""
    except InterruptedError:
        return f"{name} was ended by a signal", ""
    except OSError as error:
        return f"{name} could not be started: {error.strerror or error}", ""
    finally:
        os.close(source)
    how = f"was ended by signal {-done.code}" if done.code < 0 else f"ended with {done.code}"
    return f"{name} {how}", done.stdout.decode("utf-8", "replace")
