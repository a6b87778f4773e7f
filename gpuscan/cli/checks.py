"""`gpuscan checks`: which checks there are, and what one of them looks at."""

from collections.abc import Sequence

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import Declared, argument, choice, command

app = typer.Typer()

ASKED: Declared = {
    "action": (argument(choice("list", "show")), "list"),
    "name": (argument(metavar="[ID]", help="the check to show"), ""),
}
EXAMPLES = """
gpuscan checks
gpuscan checks show memory.row_remap
gpuscan checks list --checks ./site-checks
"""


@command(app, ASKED, given.CHECKS, given.FORMAT, examples=EXAMPLES)
def checks(action: str, name: str, checks: Sequence[str], format_: str) -> None:
    """List the checks, or show one with its reasons.

    That is why it matters, what fixes a failure, and who says so.
    """
    from gpuscan.cli import reference
    from gpuscan.cli.output import terminal_width, write
    from gpuscan.engine.judging import all_checks
    from gpuscan.errors import UsageError

    known = all_checks(checks)
    if action == "list":
        write(reference.render_checks(known, format_, terminal_width()), "")
    elif name:
        write(reference.render_check(reference.find_check(known, name), format_), "")
    else:
        raise UsageError("checks show: no check named; write gpuscan checks show ID")
