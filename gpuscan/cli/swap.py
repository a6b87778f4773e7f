"""`gpuscan diff` and `gpuscan swap`: the commands on swaps."""

from typing import Annotated, Any

import typer

from gpuscan.cli import options as opt
from gpuscan.errors import UsageError

LOOKS: Any = {"no_args_is_help": True, "pretty_exceptions_enable": False, "rich_markup_mode": None}
app = typer.Typer()
swap = typer.Typer(help="Change a part: hold the node before, prove it after.", **LOOKS)

Before = Annotated[str, typer.Argument(metavar="BEFORE", help="the recording from before the swap")]
After = Annotated[str, typer.Argument(metavar="AFTER", help="the recording from after it")]
Expect = Annotated[
    list[str],
    typer.Option(
        "--expect",
        metavar="PART",
        help="gpu:SLOT, nic:NAME, cable:PORT, disk:NAME, baseboard, tray, or none",
    ),
]
KnownBad = Annotated[
    str | None,
    typer.Option(
        "--known-bad",
        metavar="FILE",
        help="serials of bad parts, one a line",
        callback=opt.given("--known-bad"),
    ),
]
ExpectedParts = Annotated[
    str | None,
    typer.Option(
        "--expected-parts",
        metavar="FILE",
        help="YAML or JSON: the serial in each slot",
        callback=opt.given("--expected-parts"),
    ),
]
Firmware = Annotated[
    str | None,
    typer.Option(
        "--firmware-inventory",
        metavar="FILE",
        help="the BMC's Redfish FirmwareInventory as JSON",
        callback=opt.given("--firmware-inventory"),
    ),
]


@app.command()
def diff(
    before: Before,
    after: After,
    expect: Expect = [],  # typer reads the default, nothing changes it  # noqa: B006
    known_bad: KnownBad = None,
    expected_parts: ExpectedParts = None,
    firmware_inventory: Firmware = None,
    profile: opt.ProfileName = "auto",
    settings: opt.Settings = [],  # noqa: B006
    only: opt.Only = [],  # noqa: B006
    skip: opt.Skip = [],  # noqa: B006
    checks: opt.Checks = [],  # noqa: B006
    node_context: opt.Context = "idle",
    format_: opt.ReportFormat = "text",
    output: opt.Output = None,
    report: opt.Reports = [],  # noqa: B006
    fail_on: opt.FailOn = "",
    exit_style: opt.ExitStyle = "full",
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Judge a node after a swap beside its recording from before: the right part changed, it fits,
    the fault is gone.
    """
    from gpuscan.cli import commands
    from gpuscan.cli.output import Shown, report_files
    from gpuscan.engine.judging import Wanted, busy
    from gpuscan.swap.compare import SwapOptions

    want = Wanted(profile, settings, only, skip, "", checks, busy(node_context))
    wish = SwapOptions(expect, known_bad or "", expected_parts or "", firmware_inventory or "")
    show = Shown(
        format_, output or "", -1 if quiet else verbose, exit_style, fail_on, report_files(report)
    )
    raise typer.Exit(commands.diff(before, after, want, wish, show))


@swap.command()
def begin(
    ticket: Annotated[
        str, typer.Option("--ticket", metavar="T", help="what the work is known by")
    ] = "",
    part: Annotated[
        list[str],
        typer.Option(
            "--part",
            metavar="PART",
            help="gpu:SLOT, nic:NAME, cable:PORT, disk:NAME, baseboard, tray",
        ),
    ] = [],  # noqa: B006
    bug_report: Annotated[
        str,
        typer.Option(
            "--bug-report",
            metavar="D",
            help="how long nvidia-bug-report.sh may take; 0: it is not run",
        ),
    ] = "2m",
    profile: opt.ProfileName = "auto",
    settings: opt.Settings = [],  # noqa: B006
    node_context: opt.Context = "idle",
    root: opt.Root = "/",
    driver_root: opt.DriverRoot = None,
    deadline: opt.Deadline = None,
    state_dir: opt.StateDir = None,
    format_: opt.Format = "text",
) -> None:
    """Record the node, keep the evidence, tell what to pull, and hold the node until the swap is
    proven.
    """
    from gpuscan.cli.scanning import Machine
    from gpuscan.durations import parse_duration
    from gpuscan.engine.judging import Wanted, busy
    from gpuscan.state import place, remembering
    from gpuscan.swap import session as swapping

    bug_report_s = parse_duration(bug_report)
    if bug_report_s is None:
        raise UsageError(f"--bug-report {bug_report}: write a duration as 90s or 5m, or 0")
    want = Wanted(profile, settings, busy=busy(node_context))
    machine = Machine(None, root, driver_root or "", deadline, cables=True)
    asked = swapping.Asked(ticket, part, bug_report_s, format_)
    raise typer.Exit(
        swapping.begin(
            machine, want, remembering.memory(place.state_dir(state_dir or ""), ()), asked
        )
    )


@swap.command()
def verify(
    expect: Expect = [],  # noqa: B006
    known_bad: KnownBad = None,
    expected_parts: ExpectedParts = None,
    firmware_inventory: Firmware = None,
    settle: opt.Settle = "",
    tried: opt.Tried = [],  # noqa: B006
    profile: opt.ProfileName = "auto",
    settings: opt.Settings = [],  # noqa: B006
    checks: opt.Checks = [],  # noqa: B006
    node_context: opt.Context = "idle",
    root: opt.Root = "/",
    driver_root: opt.DriverRoot = None,
    deadline: opt.Deadline = None,
    level: opt.Level = "",
    force: opt.Force = False,
    state_dir: opt.StateDir = None,
    format_: opt.ReportFormat = "text",
    output: opt.Output = None,
    report: opt.Reports = [],  # noqa: B006
    fail_on: opt.FailOn = "",
    exit_style: opt.ExitStyle = "full",
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Judge the node beside what it was when the swap began, and exercise its GPUs; only a pass
    lifts the hold.

    The level is quick where the burn-in is installed (extra `burnin`), else passive.
    """
    from gpuscan.burnin.request import default_swap_level, parse_options
    from gpuscan.cli.output import Shown, report_files
    from gpuscan.cli.scanning import Machine
    from gpuscan.engine.judging import Wanted, busy
    from gpuscan.state import place, remembering
    from gpuscan.swap import session as swapping
    from gpuscan.swap.compare import SwapOptions

    want = Wanted(profile, settings, checks=checks, busy=busy(node_context))
    wish = SwapOptions(expect, known_bad or "", expected_parts or "", firmware_inventory or "")
    show = Shown(
        format_, output or "", -1 if quiet else verbose, exit_style, fail_on, report_files(report)
    )
    load = parse_options(level or default_swap_level(), "", "", force=force, busy=want.busy)
    machine = Machine(None, root, driver_root or "", deadline, cables=True, wish=load)
    memory = remembering.memory(place.state_dir(state_dir or ""), tried, settle)
    raise typer.Exit(swapping.verify(machine, want, memory, wish, show))
