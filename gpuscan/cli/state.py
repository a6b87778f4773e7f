"""The commands on saved state: `gpuscan status`, `clear` and `history`."""

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import GROUP, CommandGroup, Declared, choice, command, option
from gpuscan.durations import parse_moment, read_duration
from gpuscan.state import status as stored

app = typer.Typer()
history = typer.Typer(
    cls=CommandGroup, help="Show what was found, when and on which part.", **GROUP
)

ASKED: Declared = {
    "max_age": (
        option(
            "--max-age",
            panel=given.JUDGED,
            metavar="D",
            refuse_blank=False,
            help="the oldest run that counts (15m, 24h, 7d)",
        ),
        stored.DEFAULTS["--max-age"],
    ),
    "profile": (
        option(
            "--profile",
            panel=given.JUDGED,
            metavar="NAME",
            refuse_blank=False,
            help="the last run must have used this profile",
        ),
        stored.DEFAULTS["--profile"],
    ),
    "on_incomplete": (
        option(
            "--on-incomplete",
            type_=choice(*stored.CHOICES["--on-incomplete"]) | None,
            panel=given.JUDGED,
            help="exit 0 if there is no usable run, unless there may be a hold or a swap",
        ),
        None,
    ),
    "format_": (
        option(
            "--format",
            type_=choice(*stored.CHOICES["--format"]),
            panel=given.OUTPUT_PANEL,
            help="oneline is at most 80 bytes",
        ),
        stored.DEFAULTS["--format"],
    ),
}
CLEAR_REASON: Declared = {
    "reason": (
        option(
            "--reason",
            panel=given.HISTORY_PANEL,
            metavar="TEXT",
            refuse_blank=False,
            help="why the hold may be lifted; kept in the archive",
        ),
        "",
    )
}
FILTER: Declared = {
    "part": (
        option(
            "--part",
            panel=given.HISTORY_PANEL,
            metavar="PART",
            refuse_blank=False,
            help="only findings on this part: slot or serial number",
        ),
        "",
    ),
    "check": (
        option(
            "--check",
            panel=given.HISTORY_PANEL,
            metavar="SEL",
            refuse_blank=False,
            help="only findings of this check: area, id or glob",
        ),
        "",
    ),
}


@command(
    app,
    ASKED,
    given.EXIT_STYLE,
    given.STATE_DIR,
    given.ROOT,
    examples="gpuscan status --format oneline\ngpuscan status --max-age 15m --exit-style nagios",
)
def status(
    max_age: str,
    profile: str,
    on_incomplete: str | None,
    format_: str,
    exit_style: str,
    state_dir: str | None,
    root: str,
) -> int:
    """Print the last verdict and the hold, without scanning."""
    from gpuscan.cli.output import tell
    from gpuscan.errors import UsageError, complain

    max_age_s = read_duration("--max-age", max_age, "15m, 24h or 7d")
    answer = stored.answer(state_dir or "", root, max_age_s, profile, on_incomplete == "pass")
    try:
        tell(stored.render(answer, format_))
    except UsageError as error:  # a prolog goes by the exit code, which is known all the same
        complain(f"gpuscan: {error}")
    return stored.exit_code(answer, exit_style)


@command(
    app,
    CLEAR_REASON,
    given.STATE_DIR,
    given.ROOT,
    examples='gpuscan clear --reason "SXM6 replaced, ticket 4711"',
)
def clear(reason: str, state_dir: str | None, root: str) -> None:
    """Lift this node's hold; the reason goes into the archive."""
    from gpuscan.cli.output import tell
    from gpuscan.state.release import clear_hold

    tell(clear_hold(state_dir or "", root, reason))


@command(
    history,
    given.SINCE,
    FILTER,
    given.FORMAT,
    given.STATE_DIR,
    name="list",
    examples="gpuscan history list --since 30d --part SXM6",
)
def list_(since: str, part: str, check: str, format_: str, state_dir: str | None) -> None:
    """List the saved runs, newest first."""
    from gpuscan.cli.output import tell
    from gpuscan.state.history import render_runs

    parse_moment("--since", since)  # a mistake is told before the archive is opened
    tell(render_runs(state_dir or "", since, part, check, format_))


@command(
    history,
    given.SINCE,
    given.FILE_OUTPUT,
    given.STATE_DIR,
    examples="gpuscan history export --since 30d --output runs.jsonl",
)
def export(since: str, output: str | None, state_dir: str | None) -> None:
    """Write everything that is saved as JSON lines: runs with their reports, parts, events."""
    from gpuscan.cli.output import write
    from gpuscan.state.history import export_lines

    parse_moment("--since", since)
    write("".join(export_lines(state_dir or "", since)), output or "")
