"""`gpuscan help` and `gpuscan version`: what people type before they know the options."""

import typer

from gpuscan.cli.command import Declared, argument, command

app = typer.Typer()

WORDS: Declared = {
    "words": (argument(list[str], metavar="[COMMAND...]", help="the command to show"), [])
}


@command(app, WORDS, name="help", examples="gpuscan help run\ngpuscan help swap begin")
def help_(words: list[str]) -> None:
    """Show the options of a command, as COMMAND --help does."""
    raise AssertionError(f"start() shows the help of {words}")


@command(app, name="version", examples="gpuscan version")
def version() -> None:
    """Print the version."""
    from gpuscan import __version__

    print(f"gpuscan {__version__}")
