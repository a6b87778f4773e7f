"""`gpuscan run`: scan this node, exercise its GPUs if asked, and judge it."""

from typing import Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import command

app = typer.Typer()

EXAMPLES = """
gpuscan run
gpuscan run --profile h100-8x --level quick --collect-on-fail /var/tmp
gpuscan run --report junit=gpuscan.xml --format json --output gpuscan.json
gpuscan run --replay demo-broken
"""


@command(
    app,
    given.STARTED,
    given.SELECTION,
    given.REPLAY,
    given.SCAN,
    given.BURN_IN,
    given.OUTPUT,
    given.EVIDENCE,
    given.HISTORY,
    examples=EXAMPLES,
)
def run(**values: Any) -> int:
    """Scan this node and judge it: may it go back to work?

    Exit code 0 means yes. With --level, the GPUs are loaded and tested too.
    """
    from gpuscan.cli import pipeline, sources
    from gpuscan.cli.options import read_options

    options = read_options(values)
    source = sources.recording_file(values["replay"]) if values["replay"] else sources.this_machine
    return pipeline.run([source], options)
