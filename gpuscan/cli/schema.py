"""`gpuscan schema`: the JSON Schemas of what gpuscan reads and writes."""

import typer

from gpuscan.cli.command import REQUIRED, argument, choice, command

app = typer.Typer()

SCHEMAS = ("report", "profile", "recording")
SCHEMA = {"name": (argument(choice(*SCHEMAS)), REQUIRED)}


@command(app, SCHEMA, examples="gpuscan schema report > report.schema.json")
def schema(name: str) -> None:
    """Print the JSON Schema of a report, profile or recording."""
    from gpuscan.cli.output import write
    from gpuscan.files import schema_text

    write(schema_text(name), "")
