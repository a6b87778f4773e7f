"""`gpuscan info`: what is in the node."""

from typing import Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import Declared, choice, command, option

app = typer.Typer()

FORMAT: Declared = {
    "format_": (
        option("--format", type_=choice("text", "json", "csv"), panel=given.OUTPUT_PANEL),
        "text",
    )
}
EXAMPLES = """
gpuscan info
gpuscan info --replay demo --format csv
"""


@command(app, given.STARTED, given.REPLAY, given.SCAN, FORMAT, given.FILE_OUTPUT, examples=EXAMPLES)
def info(replay: str | None, format_: str, output: str | None, **values: Any) -> int:
    """List the parts of the node.

    Host, driver, GPUs, network ports and adapters, and disks, without judging them.
    """
    from gpuscan.cli import inventory
    from gpuscan.cli.options import read_scan_options, refuse_scan_options
    from gpuscan.cli.output import terminal_width, write
    from gpuscan.importers.load import open_recording
    from gpuscan.live.machine import scan_machine

    signal = 0
    if replay:
        refuse_scan_options(values)
        recording = open_recording(replay)
    else:
        recording, signal = scan_machine(read_scan_options(values))
    write(inventory.render(recording, format_, 0 if output else terminal_width()), output or "")
    return 128 + signal if signal else 0
