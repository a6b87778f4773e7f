"""The command line: which commands there are, and the one place where errors end."""

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from gpuscan.cli.command import GROUP, CommandGroup
from gpuscan.cli.grouping import MORE, START
from gpuscan.errors import GpuscanError, complain, mute, used_up

if TYPE_CHECKING:
    from gpuscan.live.scanner import Scanner

# each command's module in this folder; grouping.py has their order in --help
MODULES = {
    "run": "run",
    "judge": "judge",
    "log": "log",
    "info": "info",
    "doctor": "doctor",
    "collect": "collect",
    "status": "state",
    "clear": "state",
    "history": "state",
    "swap": "swap",
    "prove": "prove",
    "diff": "diff",
    "ticket": "ticket",
    "explain": "explain",
    "checks": "checks",
    "profile": "profile",
    "schema": "schema",
    "completion": "completion",
    "help": "words",
    "version": "words",
    "complete-words": "completion",
}
EPILOG = "\n".join(["Start here:", *(f"  {line}" for line in START), "", MORE])
COMPLETION = "_GPUSCAN_COMPLETE"
GROUPS = ("history", "swap", "profile")  # commands that have commands of their own


def build_command_line(word: str = "") -> typer.Typer:
    """Return the program with the command *word* only, or with all commands if there is no such
    command: typer builds all that it is given, a millisecond each.
    """
    line = typer.Typer(
        name="gpuscan",
        cls=CommandGroup,
        callback=_program,
        epilog=EPILOG,
        add_completion=False,
        **GROUP,
    )
    words = [word] if word in MODULES else list(MODULES)
    for name in words:
        module = import_module(f"gpuscan.cli.{MODULES[name]}")
        if name in GROUPS:
            line.add_typer(getattr(module, name), name=name)
        else:
            commands = module.app.registered_commands
            line.registered_commands += [
                one for one in commands if name in (one.name, one.callback.__name__)
            ]
    return line


def _print_version(wanted: bool) -> None:
    if wanted:
        from gpuscan import __version__

        print(f"gpuscan {__version__}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Judge an NVIDIA GPU node: may it go back to work, and if not, what will fix it: a setting, a
    reboot or a part?
    """


def start(scanner: "Scanner | None") -> int:
    """Run the command line and return its exit code; *scanner* is the scan that began at start."""
    arguments = sys.argv[1:]
    os.environ.pop(COMPLETION, None)  # else typer would answer in place of every command
    try:
        if arguments[:1] == ["help"]:  # `help run` is `run --help`
            arguments = [*arguments[1:], "--help"]
        line = build_command_line("".join(arguments[:1]))
        code: Any = line(arguments, obj=scanner, prog_name="gpuscan", standalone_mode=False) or 0
    except GpuscanError as error:
        complain("\n".join(f"gpuscan: {line}" for line in str(error).split("\n")))
        code = error.verdict or _end_without_verdict(str(error), _error_codes()[0], error.written)
    except SystemExit as ended:
        code = ended.code
        if isinstance(ended.__context__, BrokenPipeError):  # typer makes exit code 1 of it
            mute()
            code = 128 + 13
    except Exception as error:  # noqa: BLE001
        # the last door: whatever comes here is our own failure, never a verdict
        code = _report_error(error)
    return code if isinstance(code, int) else int(code is not None)


def leave(code: int) -> NoReturn:
    """End with *code* at once: taking the interpreter apart would cost a tenth of a short run."""
    if "gpuscan.live.process" in sys.modules:
        from gpuscan.live.process import end_what_is_left
        from gpuscan.live.scanner import CANCEL_S, DEATH_S

        # after a usage error, the scan that began at start must not read on
        end_what_is_left(CANCEL_S, DEATH_S)
    with contextlib.suppress(OSError, AttributeError, ValueError):  # a stream may be closed
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _report_error(error: Exception) -> int:
    """Report an error and return its exit code: typer's own usage errors, and our failures."""
    show = getattr(error, "show", None)  # typer vendors the class, and may rename it
    if show is not None:
        _correct_suggestions(error)
        told = io.StringIO()
        show(told)
        complain(told.getvalue().rstrip("\n"))
        return _end_without_verdict(str(getattr(error, "message", "")), _error_codes()[0])
    short = used_up(error)
    if short:
        error.__traceback__ = None  # lets go of all that the work had in memory
        complain(f"gpuscan: cannot go on: {short}")
        return _end_without_verdict(short, _error_codes()[0])
    import traceback

    complain("".join(traceback.format_exception(error)))
    complain("gpuscan: internal error, not a verdict: please report it with the traceback above")
    return _end_without_verdict("internal error, not a verdict", _error_codes()[1])


def _correct_suggestions(error: Any) -> None:
    """Suggest only options that a slip of the fingers makes of the one that is unknown."""
    if getattr(error, "possibilities", None) and error.ctx is not None:
        from gpuscan.spelling import closest

        known = [name for one in error.ctx.command.params for name in one.opts]
        error.possibilities = closest(error.option_name, known)


def _end_without_verdict(why: str, code: int, written: Sequence[str] = ()) -> int:
    """Remove the reports of an earlier run, not those *written* by this one, tell Nagios, which
    reads only standard output, and return *code*.
    """
    from gpuscan.cli.stale import remove_reports

    remove_reports(sys.argv[1:], written)
    if _exit_style() == "nagios":
        from gpuscan.renderers.nagios import state_line
        from gpuscan.text import printable

        with contextlib.suppress(OSError, AttributeError, ValueError):  # it may be closed
            sys.stdout.write(state_line(code, printable(why)))
            sys.stdout.flush()
    return code


def _error_codes() -> tuple[int, int]:
    """Return the exit codes for a usage error and for our own failure, under the exit style that
    the command line names.
    """
    from gpuscan.model.outcome import BROKEN_STYLES

    return BROKEN_STYLES.get(_exit_style(), BROKEN_STYLES["full"])


def _exit_style() -> str:
    style = "full"
    arguments = sys.argv[1:]
    for position, argument in enumerate(arguments):
        if argument == "--exit-style":
            style = "".join(arguments[position + 1 : position + 2])
        elif argument.startswith("--exit-style="):
            style = argument.partition("=")[2]
    return style
