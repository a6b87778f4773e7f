"""The command line: one short function a command, nothing heavy at the top, every error told in one place."""

import contextlib
import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from gpuscan.errors import GpuscanError

app = typer.Typer(
    name="gpuscan",
    help="May this NVIDIA GPU node go back to work, and if not, what will fix it: a setting, a reboot or a part?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
Format = Annotated[str, typer.Option("--format", help="text, json")]
Output = Annotated[str, typer.Option("--output", metavar="FILE", help="write the result there, not to standard output")]
ProfileName = Annotated[str, typer.Option("--profile", metavar="NAME|FILE|auto", help="what the node is expected to be")]
Settings = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="change one expectation")]
Only = Annotated[list[str], typer.Option("--only", metavar="SEL", help="run these checks only: area, id or glob")]
Skip = Annotated[list[str], typer.Option("--skip", metavar="SEL", help="leave these checks out")]
Gpus = Annotated[str, typer.Option("--gpus", metavar="LIST", help="judge these cards only: slot, address, UUID, serial")]
Checks = Annotated[list[str], typer.Option("--checks", metavar="DIR", help="a further folder of check modules")]
Deadline = Annotated[float, typer.Option("--deadline", metavar="SECONDS", min=1.0, help="the report comes by then")]
Root = Annotated[str, typer.Option("--root", metavar="DIR", help="read /proc, /sys, /dev and /etc below this folder")]
DriverRoot = Annotated[str, typer.Option("--driver-root", metavar="DIR", help="find NVML's library below this folder")]
FailOn = Annotated[str, typer.Option("--fail-on", metavar="warn", help="exit 10 where there are only warnings")]
ExitStyle = Annotated[str, typer.Option("--exit-style", metavar="S", help="full, simple, nagios, npd")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="one line")]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, help="show what passed and what was skipped, too")]


@app.command()
def run(
    context: typer.Context,
    profile: ProfileName = "auto",
    settings: Settings = [],  # noqa: B006  # typer reads the default, nothing changes it
    only: Only = [],  # noqa: B006
    skip: Skip = [],  # noqa: B006
    gpus: Gpus = "",
    checks: Checks = [],  # noqa: B006
    replay: Annotated[str, typer.Option(metavar="FILE|demo|demo-broken", help="judge a recording, not this machine")] = "",
    record: Annotated[str, typer.Option(metavar="FILE", help="keep the recording of this scan")] = "",
    root: Root = "/",
    driver_root: DriverRoot = "",
    deadline: Deadline = 180.0,
    format_: Format = "text",
    output: Output = "",
    fail_on: FailOn = "",
    exit_style: ExitStyle = "full",
    no_history: Annotated[bool, typer.Option("--no-history", help="store nothing (nothing is stored yet)")] = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Scan this node once and judge it."""
    from gpuscan import commands

    want = commands.Wanted(profile, settings, only, skip, gpus, checks)
    show = commands.Shown(format_, output, -1 if quiet else verbose, exit_style, fail_on)
    if replay:
        _end(commands.judge([replay], want, show))
    machine = commands.Machine(context.obj, root, driver_root, deadline)
    _end(commands.run(machine, want, show, record))


@app.command()
def judge(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="recordings, demo or demo-broken")],
    profile: ProfileName = "auto",
    settings: Settings = [],  # noqa: B006
    only: Only = [],  # noqa: B006
    skip: Skip = [],  # noqa: B006
    gpus: Gpus = "",
    checks: Checks = [],  # noqa: B006
    format_: Format = "text",
    output: Output = "",
    fail_on: FailOn = "",
    exit_style: ExitStyle = "full",
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Judge recordings; the exit code is that of the worst."""
    from gpuscan import commands

    want = commands.Wanted(profile, settings, only, skip, gpus, checks)
    _end(commands.judge(files, want, commands.Shown(format_, output, -1 if quiet else verbose, exit_style, fail_on)))


@app.command()
def collect(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="where the recording goes (gzip, unless it ends in .json)")],
    redact: Annotated[bool, typer.Option("--redact", help="replace serials, UUIDs and names by stable pseudonyms")] = False,
    profile: Annotated[str, typer.Option(metavar="NAME", help="note this profile in the recording")] = "",
    root: Root = "/",
    driver_root: DriverRoot = "",
    deadline: Deadline = 180.0,
) -> None:
    """Record this node without judging it."""
    from gpuscan import commands

    _end(commands.collect(commands.Machine(context.obj, root, driver_root, deadline), file, redact=redact, profile=profile))


@app.command()
def info(
    context: typer.Context,
    replay: Annotated[str, typer.Option(metavar="FILE", help="of a recording, not of this machine")] = "",
    root: Root = "/",
    driver_root: DriverRoot = "",
    deadline: Deadline = 180.0,
    format_: Annotated[str, typer.Option("--format", help="text, json, csv")] = "text",
    output: Output = "",
) -> None:
    """Tell what is in the node."""
    from gpuscan import commands, inventory

    recording, stopped = commands.recorded(replay, commands.Machine(context.obj, root, driver_root, deadline))
    commands.write(inventory.render(recording, format_), output)
    _end(128 + stopped if stopped else 0)


@app.command()
def doctor(
    context: typer.Context,
    root: Root = "/",
    driver_root: DriverRoot = "",
    deadline: Deadline = 180.0,
    format_: Format = "text",
) -> None:
    """Tell what this user, container and driver let gpuscan see, and what would show more."""
    from gpuscan import commands, sight

    recording, stopped = commands.recorded("", commands.Machine(context.obj, root, driver_root, deadline))
    commands.write(sight.render(recording, format_), "")
    _end(128 + stopped if stopped else 0)


@app.command()
def schema(what: Annotated[str, typer.Argument(metavar="report|profile|recording")]) -> None:
    """Print a JSON Schema."""
    from gpuscan import commands

    commands.write(commands.schema(what), "")


def _version(wanted: bool) -> None:
    if wanted:
        from gpuscan import __version__

        print(f"gpuscan {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")] = False,
) -> None:
    """Say what every command shares."""


def _end(code: int) -> None:
    raise typer.Exit(code)


def _only_what_is_called(words: list[str]) -> None:
    """Leave the other commands out: typer builds every one of them at start, a millisecond each."""
    called = [one for one in app.registered_commands if one.callback and words == [one.callback.__name__]]
    app.registered_commands = called or app.registered_commands


def start(scanner: Any) -> int:
    """Run the command line and return its exit code; *scanner* is the scan that has begun already, or None."""
    _only_what_is_called(sys.argv[1:2])
    try:
        code = app(obj=scanner, prog_name="gpuscan", standalone_mode=False) or 0
    except GpuscanError as error:
        print(*(f"gpuscan: {line}" for line in str(error).splitlines()), sep="\n", file=sys.stderr)
        code = _broken_codes()[0]
    except SystemExit as ended:
        code = ended.code
        if isinstance(ended.__context__, BrokenPipeError):  # typer and rich make an exit code of it that is not ours
            from gpuscan.commands import mute

            mute()
            code = 128 + 13
    except Exception as error:  # noqa: BLE001  # the last door: whatever comes here is our own failure, never a verdict
        code = _told(error)
    return int(code is not None) if not isinstance(code, int) else code


def leave(code: int) -> NoReturn:
    """End with *code*, at once: taking the interpreter apart would cost a tenth of a short run."""
    if "gpuscan.source.scanner" in sys.modules:
        from gpuscan.source.scanner import end_all

        end_all()  # a mistake on the command line leaves nobody reading, either
    with contextlib.suppress(OSError, AttributeError, ValueError):  # closed streams have nothing left to say
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _told(error: Exception) -> int:
    """Tell of an error and return its exit code: a mistake on the command line by typer's own words, all else as ours."""
    show = getattr(error, "show", None)  # typer's class lies in a package that it vendors, and may rename
    if show is not None:
        show()
        return _broken_codes()[0]
    import traceback

    traceback.print_exception(error)
    print("gpuscan: internal error, and no verdict: please report it with the lines above", file=sys.stderr)
    return _broken_codes()[1]


def _broken_codes() -> tuple[int, int]:
    """Return the exit codes for wrong usage and for our own failures under the exit style that the command line names."""
    from itertools import pairwise

    from gpuscan.outcome import BROKEN_STYLES

    words = " ".join(sys.argv[1:]).replace("--exit-style=", "--exit-style ").split()
    style = dict(pairwise(words)).get("--exit-style", "full")
    return BROKEN_STYLES.get(style, BROKEN_STYLES["full"])
