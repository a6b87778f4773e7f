"""`gpuscan ticket`: what an RMA needs, from a report."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpuscan.cli.options import Output, given, one_of

if TYPE_CHECKING:
    from gpuscan.tickets.ticket import TicketInput

app = typer.Typer()


@app.command()
def ticket(
    report: Annotated[
        str,
        typer.Argument(
            metavar="[REPORT]",
            help="what gpuscan run --format json printed, an evidence folder, or -",
        ),
    ] = "",
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            metavar="SLOT",
            help="the part: slot, address, UUID, serial, index",
            callback=given("--gpu"),
        ),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format", help="text, markdown, json", callback=one_of("text", "markdown", "json")
        ),
    ] = "text",
    output: Output = None,
    state_dir: Annotated[
        str | None,
        typer.Option(
            "--state-dir", metavar="DIR", help="where the archive is", callback=given("--state-dir")
        ),
    ] = None,
) -> None:
    """Write what an RMA needs: serials, evidence, timeline, NVIDIA's policy; by default for the
    part that needs most.
    """
    from gpuscan.cli.output import write
    from gpuscan.tickets.load import load_input
    from gpuscan.tickets.ticket import build_ticket, render_ticket

    source = load_input(report, gpu or "") if report else newest_failing(state_dir or "")
    write(render_ticket(build_ticket(source, gpu or ""), format_), output or "")


def newest_failing(state_dir: str) -> "TicketInput":
    """Return the newest archived failing run of any machine, with its timeline; it says on
    standard error which that is.
    """
    from gpuscan.errors import complain
    from gpuscan.state import timeline
    from gpuscan.tickets.ticket import TicketInput

    document, rows = timeline.find_newest_failing(state_dir)
    run, host = document["run"], document["host"]
    complain(
        f"gpuscan: the newest failing run: {host.get('hostname') or 'a machine without a name'}, {run.get('started_at')}"
    )
    return TicketInput(document, rows, timeline.find_holders(document))
