"""`gpuscan doctor`: what gpuscan can read here."""

from typing import Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import command

app = typer.Typer()


@command(app, given.STARTED, given.SCAN, given.FORMAT, examples="gpuscan doctor")
def doctor(format_: str, **values: Any) -> int:
    """Show what gpuscan can read here, and how to read more.

    It depends on the user, the container and the driver.
    """
    from gpuscan.cli import visibility
    from gpuscan.cli.options import read_scan_options
    from gpuscan.cli.output import write
    from gpuscan.live.machine import scan_machine

    recording, signal = scan_machine(read_scan_options(values))
    write(visibility.render(recording, format_), "")
    return 128 + signal if signal else 0
