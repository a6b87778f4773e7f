"""`gpuscan ticket`: what an RMA needs, from a report."""

from typing import TYPE_CHECKING

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import Declared, argument, choice, command, option

if TYPE_CHECKING:
    from gpuscan.tickets.ticket import TicketInput

app = typer.Typer()

ASKED: Declared = {
    "report": (
        argument(
            metavar="[REPORT]",
            help="a report written with --format json, an evidence folder, or - for standard"
            " input; without it the newest failing run of the archive",
        ),
        "",
    ),
    "gpu": (
        option(
            "--gpu",
            type_=str | None,
            panel=given.JUDGED,
            metavar="PART",
            help="the part: slot, address, UUID, serial number or index"
            " (default: the one that needs most)",
        ),
        None,
    ),
}
FORMAT: Declared = {
    "format_": (
        option("--format", type_=choice("text", "markdown", "json"), panel=given.OUTPUT_PANEL),
        "text",
    )
}
EXAMPLES = """
gpuscan ticket report.json --gpu SXM6
gpuscan ticket --format markdown --output ticket.md
"""


@command(app, ASKED, FORMAT, given.FILE_OUTPUT, given.STATE_DIR, examples=EXAMPLES)
def ticket(
    report: str, gpu: str | None, format_: str, output: str | None, state_dir: str | None
) -> None:
    """Write an RMA ticket for a failed part.

    It holds serial numbers, evidence, a timeline and NVIDIA's policy.
    """
    from gpuscan.cli.output import write
    from gpuscan.tickets.load import load_input
    from gpuscan.tickets.ticket import build_ticket, render_ticket

    source = (
        load_input(report, gpu or "") if report else load_newest_failure(state_dir or "", gpu or "")
    )
    write(render_ticket(build_ticket(source, gpu or ""), format_), output or "")


def load_newest_failure(state_dir: str, gpu: str) -> "TicketInput":
    """Return the newest failing run in the archive, with its timeline, and name it on standard
    error.
    """
    from gpuscan.errors import complain
    from gpuscan.state import timeline
    from gpuscan.tickets.load import from_archive
    from gpuscan.tickets.ticket import TicketInput

    stored, rows, proofs = timeline.find_newest_failing(state_dir)
    document = from_archive(stored, gpu)
    host = document["host"].get("hostname") or "a machine without a host name"
    complain(f"gpuscan: newest failing run: {host}, {document['run'].get('started_at')}")
    return TicketInput(document, rows, timeline.find_holders(document), proofs=proofs)
