"""`gpuscan checks`: which checks there are, and what one of them looks at."""

from collections.abc import Sequence

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import Declared, argument, choice, command

app = typer.Typer()

ASKED: Declared = {
    "action": (argument(choice("list", "show")), "list"),
    "names": (
        argument(
            list[str],
            metavar="[AREA|ID|GLOB...]",
            help="list: only these checks; show: the checks to show",
        ),
        [],
    ),
}
EXAMPLES = """
gpuscan checks
gpuscan checks list nvlink
gpuscan checks show memory.row_remap
gpuscan checks list --checks ./site-checks
"""


@command(app, ASKED, given.CHECKS, given.FORMAT, examples=EXAMPLES)
def checks(action: str, names: Sequence[str], checks: Sequence[str], format_: str) -> None:
    """List the checks, or show one with its reasons.

    That is why it matters, what fixes a failure, and who says so. A check whose severity is fail
    makes the verdict that its action asks for; one that warns never does.
    """
    from gpuscan.cli import reference
    from gpuscan.cli.output import tell, terminal_width, write
    from gpuscan.engine.judging import all_checks
    from gpuscan.errors import UsageError

    known = all_checks(checks)
    if action == "list":
        chosen = reference.select_checks(known, names)
        write(reference.render_checks(chosen, format_, terminal_width()), "")
    elif names:
        tell(reference.render_named(known, names, format_))
    else:
        raise UsageError("checks show: no check named; write gpuscan checks show ID")
