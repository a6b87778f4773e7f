"""The command line: one short function a command, nothing heavy at the top, every error told in
one place.
"""

import contextlib
import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from gpuscan.cli import options as opt
from gpuscan.errors import GpuscanError, UsageError, complain, mute

LOOKS: Any = {"no_args_is_help": True, "pretty_exceptions_enable": False, "rich_markup_mode": None}
app = typer.Typer()
SWAPS = ("diff",)  # the commands of cli_swap.py


@app.command()
def run(
    context: typer.Context,
    profile: opt.ProfileName = "auto",
    settings: opt.Settings = [],  # typer reads the default, nothing changes it  # noqa: B006
    only: opt.Only = [],  # noqa: B006
    skip: opt.Skip = [],  # noqa: B006
    gpus: opt.Gpus = None,
    checks: opt.Checks = [],  # noqa: B006
    replay: opt.Replay = None,
    record: opt.Record = None,
    collect_on_fail: opt.CollectOnFail = None,
    root: opt.Root = "/",
    driver_root: opt.DriverRoot = None,
    deadline: opt.Deadline = None,
    level: opt.Level = "passive",
    duration: opt.Duration = None,
    checkpoint: opt.Checkpoint = None,
    force: opt.Force = False,
    node_context: opt.Context = "idle",
    format_: opt.ReportFormat = "text",
    output: opt.Output = None,
    report: opt.Reports = [],  # noqa: B006
    fail_on: opt.FailOn = "",
    exit_style: opt.ExitStyle = "full",
    tried: opt.Tried = [],  # noqa: B006
    settle: opt.Settle = "",
    state_dir: opt.StateDir = None,
    no_history: opt.NoHistory = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Scan this node once, exercise its GPUs where --level asks for it, and judge it."""
    from gpuscan.burnin.request import parse_options
    from gpuscan.cli import commands
    from gpuscan.cli.output import Shown, report_files
    from gpuscan.cli.scanning import Machine
    from gpuscan.engine.judging import Wanted, busy
    from gpuscan.state import place, remembering

    want = Wanted(profile, settings, only, skip, gpus or "", checks, busy(node_context))
    show = Shown(
        format_, output or "", -1 if quiet else verbose, exit_style, fail_on, report_files(report)
    )
    if no_history and state_dir:
        raise UsageError(
            "--no-history and --state-dir contradict each other: leave one of them out"
        )
    folder = "" if no_history or (replay and not state_dir) else place.state_dir(state_dir or "")
    memory = remembering.memory(folder, tried, settle)
    if replay:
        load = {
            "level": level != "passive",
            "duration": duration,
            "checkpoint": checkpoint,
            "force": force,
        }
        commands.refuse_with_replay(record, root, driver_root, collect_on_fail, **load)
        _end(commands.judge([replay], want, show, memory))
    wish = parse_options(level, duration or "", checkpoint or "", force=force, busy=want.busy)
    machine = Machine(context.obj, root, driver_root or "", deadline, wish=wish)
    _end(commands.run(machine, want, show, record or "", memory, collect_on_fail or ""))


@app.command()
def judge(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="recordings, demo or demo-broken")
    ],
    profile: opt.ProfileName = "auto",
    settings: opt.Settings = [],  # noqa: B006
    only: opt.Only = [],  # noqa: B006
    skip: opt.Skip = [],  # noqa: B006
    gpus: opt.Gpus = None,
    checks: opt.Checks = [],  # noqa: B006
    node_context: opt.Context = "idle",
    format_: opt.ReportFormat = "text",
    output: opt.Output = None,
    report: opt.Reports = [],  # noqa: B006
    fail_on: opt.FailOn = "",
    exit_style: opt.ExitStyle = "full",
    tried: opt.Tried = [],  # noqa: B006
    state_dir: opt.StateDir = None,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Judge recordings; the exit code is that of the worst. The past counts, and is stored, where
    --state-dir is given.
    """
    from gpuscan.cli import commands
    from gpuscan.cli.output import Shown, report_files
    from gpuscan.engine.judging import Wanted, busy
    from gpuscan.state import remembering

    want = Wanted(profile, settings, only, skip, gpus or "", checks, busy(node_context))
    show = Shown(
        format_, output or "", -1 if quiet else verbose, exit_style, fail_on, report_files(report)
    )
    _end(commands.judge(files, want, show, remembering.memory(state_dir or "", tried)))


@app.command()
def collect(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="where the recording goes (gzip, unless it ends in .json)"
        ),
    ],
    redact: Annotated[
        bool, typer.Option("--redact", help="replace serials, UUIDs and names by stable pseudonyms")
    ] = False,
    profile: opt.NotedProfile = None,
    cables: opt.Cables = True,
    firmware: opt.Firmware = None,
    root: opt.Root = "/",
    driver_root: opt.DriverRoot = None,
    deadline: opt.Deadline = None,
) -> None:
    """Record this node without judging it."""
    from gpuscan.cli import commands
    from gpuscan.cli.scanning import Machine

    machine = Machine(context.obj, root, driver_root or "", deadline, cables)
    _end(
        commands.collect(
            machine, file, redact=redact, profile=profile or "", firmware=firmware or ""
        )
    )


@app.command()
def info(
    context: typer.Context,
    replay: opt.Replay = None,
    root: opt.Root = "/",
    driver_root: opt.DriverRoot = None,
    deadline: opt.Deadline = None,
    format_: opt.TableFormat = "text",
    output: opt.Output = None,
) -> None:
    """Tell what is in the node."""
    from gpuscan.cli import commands
    from gpuscan.cli import info as inventory
    from gpuscan.cli.output import width, write
    from gpuscan.cli.scanning import Machine

    if replay:
        commands.refuse_with_replay(None, root, driver_root)
    recording, stopped = commands.recorded(
        replay or "", Machine(context.obj, root, driver_root or "", deadline)
    )
    write(inventory.render(recording, format_, 0 if output else width()), output or "")
    _end(128 + stopped if stopped else 0)


@app.command()
def doctor(
    context: typer.Context,
    root: opt.Root = "/",
    driver_root: opt.DriverRoot = None,
    deadline: opt.Deadline = None,
    format_: opt.Format = "text",
) -> None:
    """Tell what this user, container and driver let gpuscan see, and what would show more."""
    from gpuscan.cli import commands
    from gpuscan.cli import doctor as sight
    from gpuscan.cli.output import write
    from gpuscan.cli.scanning import Machine

    recording, stopped = commands.recorded(
        "", Machine(context.obj, root, driver_root or "", deadline)
    )
    write(sight.render(recording, format_), "")
    _end(128 + stopped if stopped else 0)


@app.command()
def schema(what: Annotated[str, typer.Argument(metavar="report|profile|recording")]) -> None:
    """Print a JSON Schema."""
    from gpuscan.cli.commands import schema as text_of
    from gpuscan.cli.output import write

    write(text_of(what), "")


@app.command()
def checks(
    action: Annotated[str, typer.Argument(metavar="list|show")] = "list",
    name: Annotated[str, typer.Argument(metavar="[ID]", help="of the check to show")] = "",
    folders: opt.Checks = [],  # noqa: B006
    format_: opt.Format = "text",
) -> None:
    """List the checks, or show one with its reasons."""
    from gpuscan.cli import reference
    from gpuscan.cli.output import write
    from gpuscan.engine.judging import all_checks

    known = all_checks(folders)
    if action == "list":
        write(reference.listed(known, format_), "")
    elif action == "show" and name:
        write(reference.shown(reference.found(known, name), format_), "")
    else:
        raise UsageError(f"checks {action}: write gpuscan checks list, or gpuscan checks show ID")


@app.command()
def explain(
    what: Annotated[str, typer.Argument(metavar="xid|sxid|dcgm|exit|check|hold")],
    name: Annotated[str, typer.Argument(metavar="[CODE|NAME|ID]")] = "",
    format_: opt.Format = "text",
    state_dir: opt.StateDir = None,
) -> None:
    """Explain a code of NVIDIA's, an exit code, a check, or the hold that stands on this node."""
    from gpuscan.cli import reference
    from gpuscan.cli.output import write
    from gpuscan.engine.judging import all_checks

    if what in ("xid", "sxid", "dcgm"):
        from gpuscan.cli import explain as explaining

        write(explaining.explained(what, name, format_), "")
    elif what == "exit":
        write(reference.exits(name, format_), "")
    elif what == "check":
        known = all_checks()
        write(
            reference.shown(reference.found(known, name), format_)
            if name
            else reference.listed(known, format_),
            "",
        )
    elif what == "hold":
        from gpuscan.state.release import render_hold

        write(render_hold(state_dir or "", format_), "")
    else:
        raise UsageError(
            f"explain {what}: what can be explained is xid, sxid, dcgm and exit [CODE], check [ID] and hold"
        )


def _version(wanted: bool) -> None:
    if wanted:
        from gpuscan import __version__

        print(f"gpuscan {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """May this NVIDIA GPU node go back to work, and if not, what will fix it: a setting, a reboot
    or a part?
    """


def _end(code: int) -> None:
    raise typer.Exit(code)


def command_line(word: str) -> typer.Typer:
    """Return the commands, or only the one that *word* calls: typer builds all that it has at
    start, a millisecond each.
    """
    line = typer.Typer(name="gpuscan", callback=_options, **LOOKS)
    if word in SWAPS:
        from gpuscan.cli import swap as cli_swap

        line.registered_commands = _called(cli_swap.app, word)
    elif word == "log":
        from gpuscan.cli import log as cli_log

        line.registered_commands = _called(cli_log.app, word)
    else:
        line.registered_commands = _called(app, word)
    if not line.registered_commands:
        from gpuscan.cli import history as cli_history
        from gpuscan.cli import log as cli_log
        from gpuscan.cli import profile as cli_profile
        from gpuscan.cli import swap as cli_swap
        from gpuscan.cli import ticket as cli_ticket

        more = (
            one
            for group in (cli_log, cli_swap, cli_history, cli_ticket)
            for one in group.app.registered_commands
        )
        line.registered_commands = [*app.registered_commands, *more]
        line.add_typer(cli_history.history, name="history")
        line.add_typer(cli_swap.swap, name="swap")
        line.add_typer(cli_profile.app, name="profile")
    return line


def _called(commands: typer.Typer, word: str) -> list[Any]:
    return [
        one
        for one in commands.registered_commands
        if one.callback and one.callback.__name__ == word
    ]


def start(scanner: Any) -> int:
    """Run the command line and return its exit code; *scanner* is the scan that has begun already,
    or None.
    """
    try:
        code = (
            command_line("".join(sys.argv[1:2]))(
                obj=scanner, prog_name="gpuscan", standalone_mode=False
            )
            or 0
        )
    except GpuscanError as error:
        complain("\n".join(f"gpuscan: {line}" for line in str(error).splitlines()))
        code = error.verdict or _broken_codes()[0]
    except SystemExit as ended:
        code = ended.code
        if isinstance(
            ended.__context__, BrokenPipeError
        ):  # typer and rich make an exit code of it that is not ours
            mute()
            code = 128 + 13
    except Exception as error:  # noqa: BLE001
        # the last door: whatever comes here is our own failure, never a verdict
        code = _told(error)
    return int(code is not None) if not isinstance(code, int) else code


def leave(code: int) -> NoReturn:
    """End with *code*, at once: taking the interpreter apart would cost a tenth of a short run."""
    if "gpuscan.live.process" in sys.modules:
        from gpuscan.live.process import end_what_is_left
        from gpuscan.live.scanner import CANCEL_S, DEATH_S

        # after a mistake on the command line, the scan that began at start must not read on
        end_what_is_left(CANCEL_S, DEATH_S)
    with contextlib.suppress(
        OSError, AttributeError, ValueError
    ):  # closed streams have nothing left to say
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _told(error: Exception) -> int:
    """Tell of an error and return its exit code: a mistake on the command line by typer's own
    words, all else as ours.
    """
    show = getattr(
        error, "show", None
    )  # typer's class lies in a package that it vendors, and may rename
    if show is not None:
        try:
            show()
        except OSError:
            mute(2)
        return _broken_codes()[0]
    import traceback

    complain("".join(traceback.format_exception(error)))
    complain("gpuscan: internal error, and no verdict: please report it with the lines above")
    return _broken_codes()[1]


def _broken_codes() -> tuple[int, int]:
    """Return the exit codes for wrong usage and for our own failures under the exit style that the
    command line names.
    """
    from itertools import pairwise

    from gpuscan.model.outcome import BROKEN_STYLES

    words = " ".join(sys.argv[1:]).replace("--exit-style=", "--exit-style ").split()
    style = dict(pairwise(words)).get("--exit-style", "full")
    return BROKEN_STYLES.get(style, BROKEN_STYLES["full"])
