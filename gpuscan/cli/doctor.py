"""`gpuscan doctor`: what gpuscan can read here."""

from typing import Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import command

app = typer.Typer()


@command(app, given.STARTED, given.SCAN, given.FORMAT, given.STATE_DIR, examples="gpuscan doctor")
def doctor(format_: str, state_dir: str | None, **values: Any) -> int:
    """Show what gpuscan can read here, how to read more, and where it stores what.

    It depends on the user, the container and the driver. The exit code is 3 where
    nothing can be read by NVML, of the PCI bus or of the kernel log: then there is no verdict.
    """
    from gpuscan.cli import visibility
    from gpuscan.cli.options import read_scan_options
    from gpuscan.cli.output import tell
    from gpuscan.live.machine import scan_machine
    from gpuscan.model.outcome import EXIT_INCOMPLETE, EXIT_OK
    from gpuscan.state.footprint import measure

    state = measure(state_dir or "", values["root"])
    recording, signal = scan_machine(read_scan_options(values))
    tell(visibility.render(recording, format_, state))
    if signal:
        return 128 + signal
    return EXIT_OK if visibility.can_judge(recording) else EXIT_INCOMPLETE
