"""`gpuscan swap`: change a part; hold the node before, prove it after."""

from collections.abc import Sequence
from typing import Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import (
    GROUP,
    CommandGroup,
    Declared,
    choice,
    command,
    list_option,
    option,
)
from gpuscan.durations import read_duration
from gpuscan.model.outcome import LEVELS

swap = typer.Typer(
    cls=CommandGroup, help="Change a part: hold the node before, prove it after.", **GROUP
)

ASKED: Declared = {
    "ticket": (
        option(
            "--ticket",
            panel=given.SWAP_PANEL,
            metavar="T",
            refuse_blank=False,
            help="the ticket of this work [required]",
        ),
        "",
    ),
    "part": (
        list_option(
            "--part",
            panel=given.SWAP_PANEL,
            metavar="PART,...",
            help="a part to change: gpu:SLOT, nic:NAME, cable:PORT, disk:NAME, baseboard, tray;"
            " with =reseated one that comes back [required]",
        ),
        [],
    ),
    "bug_report": (
        option(
            "--bug-report",
            panel=given.OUTPUT_PANEL,
            metavar="D",
            refuse_blank=False,
            help="time limit for nvidia-bug-report.sh (0: do not run it)",
        ),
        "2m",
    ),
    "again": (
        option(
            "--again",
            type_=bool,
            panel=given.SWAP_PANEL,
            help="record the node anew for a ticket that is begun already",
        ),
        False,
    ),
}
SWAP_LEVEL: Declared = {
    "level": (
        option(
            "--level",
            type_=choice(*LEVELS) | None,
            panel=given.BURN_IN_PANEL,
            help="how hard to test (default: quick if the extra `burnin` is installed, else"
            " passive)",
        ),
        None,
    )
}
BEGIN_EXAMPLES = """
gpuscan swap begin --ticket 4711 --part gpu:SXM6
gpuscan swap begin --ticket 4712 --part cable:mlx5_3/1=reseated
"""
VERIFY_EXAMPLES = """
gpuscan swap verify
gpuscan swap verify --settle 5m --level medium
gpuscan swap verify --expect gpu:SXM6 --known-bad bad-serials.txt
"""


@command(
    swap,
    ASKED,
    given.PROFILE,
    given.NODE_CONTEXT,
    given.REPLAY,
    given.SCAN,
    given.FORMAT,
    given.STATE_DIR,
    examples=BEGIN_EXAMPLES,
)
def begin(ticket: str, part: Sequence[str], bug_report: str, again: bool, **values: Any) -> None:
    """Record the node, save the evidence, print which part to pull, and hold the node until
    `swap verify` passes.

    With --replay it is a drill: a recording is read, and only what --state-dir names is written.
    """
    from gpuscan.cli.options import read_options
    from gpuscan.cli.output import tell
    from gpuscan.swap import session

    bug_report_s = read_duration("--bug-report", bug_report, "90s or 5m, or 0")
    options = read_options({**values, "cables": True})
    asked = session.Asked(
        ticket, part, bug_report_s, values["format_"], again, values["replay"] or ""
    )
    tell(session.begin(options.scan, options.selection, options.history, asked))


@command(
    swap,
    given.SWAP_EXPECTATIONS,
    given.PROFILE,
    given.CHECKS,
    given.NODE_CONTEXT,
    given.REPLAY,
    given.REQUIRE_FULL,
    given.SCAN,
    SWAP_LEVEL,
    given.FORCE,
    given.OUTPUT,
    given.SETTLE,
    given.TRIED,
    given.STATE_DIR,
    examples=VERIFY_EXAMPLES,
)
def verify(**values: Any) -> int:
    """Judge the node against what it was before the swap, and exercise its GPUs.

    Only a pass lifts the hold. With --replay it is a drill on a recording.
    """
    from gpuscan.cli import pipeline, sources
    from gpuscan.cli.options import read_options, read_swap_options

    swap_options, replay = read_swap_options(values), values["replay"]
    source = (
        sources.swap_drill(replay, swap_options)
        if replay
        else sources.swap_verification(swap_options)
    )
    return pipeline.run([source], read_options({**values, "cables": True}))
