"""`gpuscan judge`: judge recordings and other tools' output."""

from typing import Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import REQUIRED, Declared, argument, command

app = typer.Typer()

FILES: Declared = {
    "files": (
        argument(
            list[str],
            metavar="FILE...|-",
            help="recordings, bug reports, nvidia-smi output or logs, a folder or tar of these"
            " (each node in it is judged); - is standard input; or demo, demo-broken",
        ),
        REQUIRED,
    )
}
EXAMPLES = """
gpuscan judge node.json.gz
gpuscan judge nvidia-bug-report.log.gz --profile h100-8x
gpuscan judge demo demo-broken --format json
"""


@command(
    app,
    FILES,
    given.SELECTION,
    given.OUTPUT,
    given.TRIED,
    given.STATE_DIR,
    examples=EXAMPLES,
)
def judge(**values: Any) -> int:
    """Judge recordings or other tools' output.

    The exit code is that of the worst. With --state-dir, earlier runs are taken into account and
    this one is saved.
    """
    from gpuscan.cli import pipeline, sources
    from gpuscan.cli.options import read_options

    files = [source for file in values["files"] for source in sources.input_file(file)]
    return pipeline.run(files, read_options(values))
