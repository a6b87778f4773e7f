"""`gpuscan profile`: the commands on profiles."""

from typing import Annotated

import typer

from gpuscan.cli.options import Deadline, DriverRoot, Force, Format, Level, Output, Root, Settings
from gpuscan.errors import UsageError

app = typer.Typer(help="List, show, validate, compare and capture profiles.", no_args_is_help=True)


@app.command("list")
def profile_list(format_: Format = "text") -> None:
    """List the profiles that a name can mean."""
    from gpuscan.cli.output import write
    from gpuscan.profile import listing

    write(listing.render_list(format_), "")


@app.command("show")
def profile_show(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE")],
    settings: Settings = [],  # noqa: B006
    format_: Format = "text",
) -> None:
    """Show a profile with its parents' values, as it is judged by."""
    from gpuscan.cli.output import write
    from gpuscan.profile import listing

    write(listing.render_profile(name, settings, format_), "")


@app.command("validate")
def profile_validate(names: Annotated[list[str], typer.Argument(metavar="NAME|FILE...")]) -> None:
    """Tell every mistake in profiles as file:line:column; exit 2 where there is one."""
    from gpuscan.cli import commands

    raise typer.Exit(commands.validate(names))


@app.command("diff")
def profile_diff(
    first: Annotated[str, typer.Argument(metavar="NAME|FILE")],
    second: Annotated[str, typer.Argument(metavar="NAME|FILE")],
    format_: Format = "text",
) -> None:
    """Tell in which expectations two profiles differ."""
    from gpuscan.cli.output import write
    from gpuscan.profile import listing

    write(listing.render_difference(first, second, format_), "")


@app.command("capture")
def profile_capture(
    recordings: Annotated[
        list[str],
        typer.Option("--from", metavar="RECORDING", help="of good nodes: one, or three and more"),
    ] = [],  # noqa: B006
    output: Output = None,
    root: Root = "/",
    driver_root: DriverRoot = None,
    deadline: Deadline = None,
    level: Level = "passive",
    force: Force = False,
) -> None:
    """Write the profile of this node, or of recordings, that are known to be good; with a level,
    its speeds' floors, too.
    """
    from gpuscan.burnin.request import parse_options
    from gpuscan.cli import commands
    from gpuscan.cli.scanning import Machine

    if recordings and level != "passive":
        raise UsageError(
            f"--level {level} exercises this machine's GPUs, and --from names recordings: leave one of them out"
        )
    wish = parse_options(level, "", "", force=force)
    raise typer.Exit(
        commands.capture(
            recordings, Machine(None, root, driver_root or "", deadline, wish=wish), output or ""
        )
    )
