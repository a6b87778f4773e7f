"""`gpuscan log`: the command on kernel logs."""

from typing import Annotated

import typer

from gpuscan.cli import options as opt

app = typer.Typer()

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE|-", help="a kernel log of any shape, also packed; - is standard input"
    ),
]
Boot = Annotated[
    str,
    typer.Option(
        "--boot", metavar="current|all", help="what of it counts: from its last boot on, or all"
    ),
]


@app.command()
def log(
    file: File,
    boot: Boot = "current",
    profile: opt.ProfileName = "auto",
    settings: opt.Settings = [],  # typer reads the default, nothing changes it  # noqa: B006
    only: opt.Only = [],  # noqa: B006
    skip: opt.Skip = [],  # noqa: B006
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
    """Judge a kernel log alone: dmesg, journalctl, syslog or /dev/kmsg, plain or packed, of a file
    or a pipe.
    """
    from gpuscan.live.logfile import LogFile

    with LogFile(file) as source:  # grep begins while the rest is imported
        from gpuscan.cli import fromlog
        from gpuscan.cli.output import Shown, report_files
        from gpuscan.engine.judging import Wanted, busy
        from gpuscan.state import remembering

        want = Wanted(profile, settings, only, skip, "", checks, busy(node_context))
        show = Shown(
            format_,
            output or "",
            -1 if quiet else verbose,
            exit_style,
            fail_on,
            report_files(report),
        )
        raise typer.Exit(
            fromlog.log(source, boot, want, show, remembering.memory(state_dir or "", tried))
        )
