"""The options that several commands share, each with the line that --help shows."""

import os
from collections.abc import Callable
from math import isfinite
from typing import Annotated, Any

import typer

from gpuscan.errors import UsageError, near_misses
from gpuscan.renderers import FORMATS


def one_of(*known: str) -> Callable[[str], str]:
    """Return what refuses every other word before any work is begun."""

    def refuse(value: str) -> str:
        if value not in known:
            raise UsageError(
                f"unknown format '{value}': {near_misses(value, list(known), 'formats')}"
            )
        return value

    return refuse


def given(flag: str) -> Callable[[Any], Any]:
    """Return what refuses an empty value: it comes from a variable that is not set, and would mean
    something else.
    """

    def refuse(value: Any) -> Any:
        if value == "":
            raise UsageError(
                f"{flag} was given nothing: is a variable unset? Leave the option out, or name something"
            )
        return value

    return refuse


def _finite(seconds: float | None) -> float | None:
    if seconds is not None and not isfinite(seconds):
        raise UsageError(f"--deadline {seconds}: write a number of seconds")
    return seconds


def _readable(words: list[str]) -> list[str]:
    """Return what was typed as UTF-8 whatever the locale is: under LC_ALL=C Python keeps such
    letters as lone surrogates.
    """
    return [os.fsencode(word).decode("utf-8", "replace") for word in words]


Format = Annotated[
    str, typer.Option("--format", help="text, json", callback=one_of("text", "json"))
]
TableFormat = Annotated[
    str, typer.Option("--format", help="text, json, csv", callback=one_of("text", "json", "csv"))
]
ReportFormat = Annotated[str, typer.Option("--format", help=", ".join(FORMATS))]
Reports = Annotated[
    list[str],
    typer.Option("--report", metavar="FORMAT=FILE", help="a further report, as junit=gpuscan.xml"),
]
Context = Annotated[
    str, typer.Option("--context", metavar="idle|busy", help="whether jobs run on the node")
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="write the result there, not to standard output",
        callback=given("--output"),
    ),
]
ProfileName = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="NAME|FILE|auto",
        help="what the node is expected to be",
        callback=given("--profile"),
    ),
]
NotedProfile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="note this profile in the recording",
        callback=given("--profile"),
    ),
]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="change one expectation", callback=_readable),
]
Only = Annotated[
    list[str], typer.Option("--only", metavar="SEL", help="run these checks only: area, id or glob")
]
Skip = Annotated[list[str], typer.Option("--skip", metavar="SEL", help="leave these checks out")]
Gpus = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="LIST",
        help="judge these GPUs only: slot, address, UUID, serial",
        callback=given("--gpus"),
    ),
]
Replay = Annotated[
    str | None,
    typer.Option(
        "--replay",
        metavar="FILE|demo|demo-broken",
        help="judge a recording, not this machine",
        callback=given("--replay"),
    ),
]
Record = Annotated[
    str | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="keep the recording of this scan",
        callback=given("--record"),
    ),
]
Cables = Annotated[
    bool,
    typer.Option(
        "--cables/--no-cables",
        help="read what each network port is cabled to, too (ibnetdiscover, lldpcli)",
    ),
]
CollectOnFail = Annotated[
    str | None,
    typer.Option(
        "--collect-on-fail",
        metavar="DIR",
        help="where it fails (exit 20 and above) keep recording, report, ticket and NVIDIA's log there",
        callback=given("--collect-on-fail"),
    ),
]
Firmware = Annotated[
    str | None,
    typer.Option(
        "--firmware",
        metavar="FILE",
        help="take in the BMC's Redfish FirmwareInventory",
        callback=given("--firmware"),
    ),
]
Checks = Annotated[
    list[str], typer.Option("--checks", metavar="DIR", help="a further folder of check modules")
]
Deadline = Annotated[
    float | None,
    typer.Option(
        "--deadline",
        metavar="SECONDS",
        min=1.0,
        max=86400.0,
        help="the report comes by then (180 where nothing is said; with --level what that takes at most)",
        callback=_finite,
    ),
]
Level = Annotated[
    str,
    typer.Option(
        "--level",
        metavar="L",
        help="passive only reads; quick (2 min), medium (9 min), long (90 min) load the GPUs",
    ),
]
Duration = Annotated[
    str | None,
    typer.Option(
        "--duration",
        metavar="D",
        help="with --level long: go on for so long (24h, 3d)",
        callback=given("--duration"),
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="keep there what a burn-in has done; one that was ended goes on from it",
        callback=given("--checkpoint"),
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="load the GPUs although other programs compute on them")
]
Root = Annotated[
    str,
    typer.Option(
        "--root",
        metavar="DIR",
        help="read /proc, /sys, /dev and /etc below this folder",
        callback=given("--root"),
    ),
]
DriverRoot = Annotated[
    str | None,
    typer.Option(
        "--driver-root",
        metavar="DIR",
        help="find NVML's library below this folder",
        callback=given("--driver-root"),
    ),
]
FailOn = Annotated[
    str, typer.Option("--fail-on", metavar="warn", help="exit 10 where there are only warnings")
]
ExitStyle = Annotated[
    str, typer.Option("--exit-style", metavar="S", help="full, simple, nagios, npd")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="one line")]
Verbose = Annotated[
    int,
    typer.Option("-v", "--verbose", count=True, help="show what passed and what was skipped, too"),
]
StateDir = Annotated[
    str | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="where verdicts and history are kept (root: /var/lib/gpuscan)",
        callback=given("--state-dir"),
    ),
]
NoHistory = Annotated[
    bool, typer.Option("--no-history", help="neither read nor store the past; a hold is not seen")
]
Tried = Annotated[
    list[str],
    typer.Option(
        "--tried",
        metavar="WORK",
        help="work done on the node before this run: reset, reboot, power-cycle, reseat, replace",
    ),
]
Settle = Annotated[
    str,
    typer.Option(
        "--settle",
        metavar="D",
        help="scan again for up to this long (90s, 5m) while something is wrong or unread",
    ),
]
MaxAge = Annotated[
    str, typer.Option("--max-age", metavar="D", help="how old the last run may be (15m, 24h, 7d)")
]
Since = Annotated[
    str,
    typer.Option(
        "--since", metavar="TIME", help="from this time on: 2026-11-28, or how long ago: 30d"
    ),
]
