"""`gpuscan explain`: what a code, a check, an action or a hold means."""

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import REQUIRED, Declared, argument, command

app = typer.Typer()

ASKED: Declared = {
    "words": (
        argument(
            list[str],
            metavar="[xid|sxid|dcgm|exit|check|action|hold] [CODE|NAME|ID]...",
            help="a kind alone lists all of it; a code or an id alone is found by itself",
        ),
        REQUIRED,
    )
}
EXAMPLES = """
gpuscan explain xid 79
gpuscan explain 79
gpuscan explain xid 79 94 119
gpuscan explain exit 41
gpuscan explain memory.row_remap
gpuscan explain check nvlink
gpuscan explain hold
"""


@command(app, ASKED, given.FORMAT, given.STATE_DIR, examples=EXAMPLES)
def explain(words: list[str], format_: str, state_dir: str | None) -> None:
    """Explain an NVIDIA code, an exit code, a check, an action or the hold."""
    from gpuscan.cli.lookup import explanations
    from gpuscan.cli.output import tell

    tell(explanations(words, format_, state_dir or ""))
