"""`gpuscan prove`: exercise what brings back the faults that this node is held for."""

from typing import Any

import typer

from gpuscan.cli import parameters as given
from gpuscan.cli.command import Declared, command, list_option, option
from gpuscan.durations import read_duration
from gpuscan.errors import UsageError

app = typer.Typer()
PANEL = "Proof"
MOST = 0.999999  # a confidence that a finite proof can give

ASKED: Declared = {
    "hold": (
        option(
            "--hold",
            type_=bool,
            panel=PANEL,
            help="all that this node is held for (the default without --part)",
        ),
        False,
    ),
    "part": (
        list_option(
            "--part",
            panel=PANEL,
            metavar="PART,...",
            help="only what these parts are held for: gpu:SLOT, port:NAME; one that is not held is"
            " exercised for its last fault",
        ),
        [],
    ),
    "time": (
        option(
            "--time",
            type_=str | None,
            panel=PANEL,
            metavar="D",
            help="how long to exercise, e.g. 20m or 2h (default 10m)",
        ),
        None,
    ),
    "confidence": (
        option(
            "--confidence",
            type_=float | None,
            panel=PANEL,
            metavar="C",
            help="exercise until a fault at the rate of before would have shown with this"
            " probability, e.g. 0.99",
        ),
        None,
    ),
}
EXAMPLES = """
gpuscan prove
gpuscan prove --part gpu:SXM4 --time 30m
gpuscan prove --confidence 0.99 --report junit=proof.xml
"""


@command(
    app,
    ASKED,
    given.PROFILE,
    given.CHECKS,
    given.SCAN,
    given.FORCE,
    given.OUTPUT,
    given.EVIDENCE,
    given.TRIED,
    given.STATE_DIR,
    examples=EXAMPLES,
)
def prove(**values: Any) -> int:
    """Exercise the parts that this node is held for, and say whether their faults show again.

    The very test, pair and load at which a fault showed, beside the neighbours as a control.
    """
    from gpuscan.burnin.proving import Wish
    from gpuscan.cli import pipeline, sources
    from gpuscan.cli.options import read_options

    options = read_options({**values, "node_context": "idle"})
    if values["time"] and values["confidence"] is not None:
        raise UsageError("--time and --confidence each set the length: give one of them")
    wish = Wish(
        _read_time(values["time"]),
        _read_confidence(values["confidence"]),
        force=values["force"],
        parts=tuple(values["part"]),
        hold=values["hold"],
    )
    return pipeline.run([sources.proof(wish)], options)


def _read_time(value: str | None) -> float:
    if value is None:
        return 0.0
    time_s = read_duration("--time", value, "20m or 2h")
    if not time_s:
        raise UsageError(f"--time {value}: nothing can be exercised in no time; write it like 20m")
    return time_s


def _read_confidence(value: float | None) -> float:
    if value is None:
        return 0.0
    if not 0.0 < value <= MOST:
        raise UsageError(
            f"--confidence {value:g}: give a probability above 0 and below 1, e.g. 0.99"
        )
    return value
