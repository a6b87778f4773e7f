"""`gpuscan explain`: what a code, a check or a hold means."""

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import REQUIRED, Declared, argument, choice, command

app = typer.Typer()

ASKED: Declared = {
    "what": (argument(choice("xid", "sxid", "dcgm", "exit", "check", "hold")), REQUIRED),
    "name": (
        argument(metavar="[CODE|NAME|ID]", help="all codes or checks are listed without it"),
        "",
    ),
}
EXAMPLES = """
gpuscan explain xid 79
gpuscan explain exit 41
gpuscan explain check memory.row_remap
gpuscan explain hold
"""


@command(app, ASKED, given.FORMAT, given.STATE_DIR, examples=EXAMPLES)
def explain(what: str, name: str, format_: str, state_dir: str | None) -> None:
    """Explain an NVIDIA code, an exit code, a check or the hold."""
    from gpuscan.cli.output import write

    write(_explanation(what, name, format_, state_dir or ""), "")


def _explanation(what: str, name: str, format_: str, state_dir: str) -> str:
    if what == "hold":
        from gpuscan.state.release import render_hold

        return render_hold(state_dir, format_)
    if what in ("xid", "sxid", "dcgm"):
        from gpuscan.cli import codes

        return codes.render(what, name, format_)
    from gpuscan.cli import reference

    if what == "exit":
        return reference.render_exit_codes(name, format_)
    from gpuscan.engine.judging import all_checks

    known = all_checks()
    if name:
        return reference.render_check(reference.find_check(known, name), format_)
    return reference.render_checks(known, format_)
