"""The commands that ask the state: status, clear, history."""

from typing import Annotated, Any

import typer

from gpuscan.cli import options as opt
from gpuscan.errors import UsageError

LOOKS: Any = {"no_args_is_help": True, "pretty_exceptions_enable": False, "rich_markup_mode": None}
app = typer.Typer()
history = typer.Typer(help="What was found, when and on which part.", **LOOKS)


@app.command()
def status(
    max_age: opt.MaxAge = "24h",
    profile: Annotated[
        str,
        typer.Option("--profile", metavar="P", help="the last run must have been by this profile"),
    ] = "",
    on_incomplete: Annotated[
        str,
        typer.Option(
            "--on-incomplete",
            metavar="pass",
            help="exit 0 where nothing is known, unless a hold or a swap may stand",
        ),
    ] = "",
    format_: Annotated[
        str, typer.Option("--format", help="text, oneline (at most 80 bytes), json")
    ] = "text",
    state_dir: opt.StateDir = None,
    root: opt.Root = "/",
    exit_style: opt.ExitStyle = "full",
) -> None:
    """Tell the stored verdict and the hold of this node, at once; nothing is read anew."""
    from gpuscan.cli.output import write
    from gpuscan.durations import parse_duration
    from gpuscan.errors import near_misses
    from gpuscan.state import status as stored

    for flag, word, known in (
        ("--format", format_, stored.FORMATS),
        ("--exit-style", exit_style, stored.STYLES),
        ("--on-incomplete", on_incomplete, ("", "pass")),
    ):
        if word not in known:
            raise UsageError(
                f"{flag} {word}: {near_misses(word, [one for one in known if one], 'words')}"
            )
    max_age_s = parse_duration(max_age)
    if max_age_s is None:
        raise UsageError(f"--max-age {max_age}: write a duration as 15m, 24h or 7d")
    found = stored.answer(state_dir or "", root, max_age_s, profile, on_incomplete == "pass")
    write(stored.render(found, format_), "")
    raise typer.Exit(stored.exit_code(found, exit_style))


@app.command()
def clear(
    reason: Annotated[
        str,
        typer.Option("--reason", metavar="TEXT", help="why the hold may go; kept in the archive"),
    ] = "",
    state_dir: opt.StateDir = None,
    root: opt.Root = "/",
) -> None:
    """Lift the hold of this node, with a reason that is archived."""
    from gpuscan.cli.output import write
    from gpuscan.state.release import clear_hold

    write(clear_hold(state_dir or "", root, reason), "")


@history.command("list")
def list_(
    since: opt.Since = "",
    part: Annotated[
        str, typer.Option("--part", metavar="P", help="only what was found on it: slot or serial")
    ] = "",
    check: Annotated[
        str,
        typer.Option("--check", metavar="C", help="only what this check found: area, id or glob"),
    ] = "",
    format_: opt.Format = "text",
    state_dir: opt.StateDir = None,
) -> None:
    """List the runs that are stored, newest first."""
    from gpuscan.cli.output import write
    from gpuscan.state.history import render_runs

    write(render_runs(state_dir or "", since, part, check, format_), "")


@history.command()
def export(
    since: opt.Since = "", output: opt.Output = None, state_dir: opt.StateDir = None
) -> None:
    """Write all that is stored as JSON lines: runs with their reports, parts, events."""
    from gpuscan.cli.output import write
    from gpuscan.state.history import export_lines

    write("".join(export_lines(state_dir or "", since)), output or "")
