"""`gpuscan diff`: judge a node after a swap against its recording from before."""

from typing import Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import REQUIRED, Declared, argument, command

app = typer.Typer()

RECORDINGS: Declared = {
    "before": (argument(metavar="BEFORE", help="the recording from before the swap"), REQUIRED),
    "after": (argument(metavar="AFTER", help="the recording from after the swap"), REQUIRED),
}
EXAMPLES = """
gpuscan diff before.json.gz after.json.gz --expect gpu:SXM6
"""


@command(
    app,
    RECORDINGS,
    given.SWAP_EXPECTATIONS,
    given.PROFILE,
    given.SELECTORS,
    given.CHECKS,
    given.NODE_CONTEXT,
    given.REQUIRE_FULL,
    given.OUTPUT,
    examples=EXAMPLES,
)
def diff(**values: Any) -> int:
    """Judge a swap by the recordings before and after it.

    Was the right part changed, does it fit, and is the fault gone?
    """
    from gpuscan.cli import pipeline, sources
    from gpuscan.cli.options import read_options, read_swap_options

    swap = read_swap_options(values)
    source = sources.comparison(values["before"], values["after"], swap)
    return pipeline.run([source], read_options(values))
