"""The options that several commands share, in the groups that --help shows."""

import os
import re
from typing import Any

import typer

from gpuscan.cli import flags
from gpuscan.cli.command import BLANK, REQUIRED, Declared, choice, list_option, option
from gpuscan.durations import read_duration
from gpuscan.errors import UsageError
from gpuscan.model.outcome import EXIT_STYLES, LEVELS, WORK
from gpuscan.renderers import FORMATS

JUDGED = "What is judged"
INPUT = "Input"
BURN_IN_PANEL = "Burn-in"
OUTPUT_PANEL = "Output"
HISTORY_PANEL = "History"
SWAP_PANEL = "Swap"

SHORTEST_S, LONGEST_S = 1.0, 86_400.0  # of a deadline


def _read_deadline(value: str | None) -> float | None:
    """Return the seconds of `--deadline`; typer hands them on in place of the text."""
    if value is None:
        return None
    if not value:
        raise UsageError(BLANK.format(flags.DEADLINE))
    seconds = read_duration(flags.DEADLINE, value, "300, 90s or 5m")
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise UsageError(f"{flags.DEADLINE} {value}: it must be between 1s and 1d")
    return seconds


def _decode(values: list[str]) -> list[str]:
    """Decode arguments as UTF-8 in any locale: under LC_ALL=C Python keeps such letters as lone
    surrogates.
    """
    return [os.fsencode(value).decode("utf-8", "replace") for value in values]


def _split_reports(values: list[str]) -> list[str]:
    """Split `junit=a.xml,json=b.json`; a comma that no format follows belongs to a file's name."""
    pattern = f",(?=(?:{'|'.join(FORMATS)})=)"
    return [report for value in values for report in re.split(pattern, value)]


def _judged(*names: str, **more: Any) -> Any:
    return option(*names, panel=JUDGED, **more)


def _burn_in(*names: str, **more: Any) -> Any:
    return option(*names, panel=BURN_IN_PANEL, **more)


def _output(*names: str, **more: Any) -> Any:
    return option(*names, panel=OUTPUT_PANEL, **more)


def _history(*names: str, **more: Any) -> Any:
    return option(*names, panel=HISTORY_PANEL, **more)


def _input(*names: str, **more: Any) -> Any:
    return option(*names, panel=INPUT, **more)


def _swap(*names: str, **more: Any) -> Any:
    return option(*names, panel=SWAP_PANEL, **more)


FIRMWARE_HELP = "the BMC's Redfish FirmwareInventory as JSON"

STARTED: Declared = {"context": (typer.Context, REQUIRED)}  # brings the scan that began at start
PROFILE: Declared = {
    "profile": (
        _judged(
            "--profile",
            metavar="NAME|FILE|auto",
            help="the profile to judge by; auto picks one from the hardware",
        ),
        "auto",
    ),
    "settings": (
        _judged(
            "--set",
            type_=list[str],
            metavar="KEY=VALUE",
            callback=_decode,
            help="override one profile key, e.g. gpu.count=4",
        ),
        [],
    ),
}
SELECTORS: Declared = {
    "only": (
        list_option(
            "--only",
            panel=JUDGED,
            metavar="SEL,...",
            help="run only these checks: areas, ids or globs (gpuscan checks list)",
        ),
        [],
    ),
    "skip": (
        list_option("--skip", panel=JUDGED, metavar="SEL,...", help="leave these checks out"),
        [],
    ),
}
CHOSEN_GPUS: Declared = {
    "gpus": (
        list_option(
            flags.GPUS,
            panel=JUDGED,
            metavar="GPU,...",
            help="judge only these GPUs: slot, PCI address, UUID or serial",
        ),
        [],
    )
}
CHECKS: Declared = {
    "checks": (
        list_option(
            "--checks",
            paths=True,
            panel=JUDGED,
            metavar="DIR,...",
            help="also load checks from these folders",
        ),
        [],
    )
}
NODE_CONTEXT: Declared = {
    "node_context": (
        _judged(
            "--context",
            type_=choice("idle", "busy"),
            help="busy: jobs are running, so what they cause is only a warning",
        ),
        "idle",
    )
}
REQUIRE_FULL: Declared = {
    "require_full": (
        _judged(
            "--require-full",
            type_=bool,
            help="exit 3 instead of 0 if anything of the node was not judged (partial)",
        ),
        False,
    )
}
SELECTION: Declared = PROFILE | SELECTORS | CHOSEN_GPUS | CHECKS | NODE_CONTEXT | REQUIRE_FULL

REPLAY: Declared = {
    "replay": (
        _input(
            flags.REPLAY,
            type_=str | None,
            metavar="FILE",
            help="read a recording (or demo, demo-broken) instead of this machine",
        ),
        None,
    )
}
ROOT: Declared = {
    "root": (
        _input(
            flags.ROOT,
            metavar="DIR",
            help="read the machine's /proc, /sys, /dev and /etc below DIR; gpuscan's own"
            " /etc/gpuscan stays where it is (GPUSCAN_CONFIG names another configuration)",
        ),
        "/",
    )
}
SCAN: Declared = ROOT | {
    "driver_root": (
        _input(
            flags.DRIVER_ROOT,
            type_=str | None,
            metavar="DIR",
            help="look for the NVML library below DIR",
        ),
        None,
    ),
    "deadline": (
        _input(
            flags.DEADLINE,
            type_=str | None,
            metavar="D",
            callback=_read_deadline,
            help="time limit for the whole run, e.g. 5m (default 180s, or the level's own limit)",
        ),
        None,
    ),
}

LEVEL: Declared = {
    "level": (
        _burn_in(
            "--level",
            type_=choice(*LEVELS),
            help="how hard to test: passive only reads; quick (2 min), medium (9 min) and long"
            " (90 min) load the GPUs",
        ),
        LEVELS[0],
    )
}
FORCE: Declared = {
    "force": (
        _burn_in(
            "--force", type_=bool, help="load the GPUs even while other programs compute on them"
        ),
        False,
    )
}
LOG_DEADLINE: Declared = {
    "deadline": (
        _input(
            flags.DEADLINE,
            type_=str | None,
            metavar="D",
            callback=_read_deadline,
            help="time limit for reading the log, e.g. 5m: what was read by then is judged",
        ),
        None,
    ),
}
BURN_IN: Declared = {
    **LEVEL,
    "duration": (
        _burn_in(
            "--duration",
            type_=str | None,
            metavar="D",
            help="with --level long: how long to repeat the tests, e.g. 24h or 3d",
        ),
        None,
    ),
    "checkpoint": (
        _burn_in(
            "--checkpoint",
            type_=str | None,
            metavar="FILE",
            help="save burn-in progress to FILE; rerun the same command to resume",
        ),
        None,
    ),
    **FORCE,
}

FORMAT: Declared = {"format_": (_output("--format", type_=choice("text", "json")), "text")}
FILE_OUTPUT: Declared = {
    "output": (
        _output(
            "--output",
            type_=str | None,
            metavar="FILE",
            help="write the result to FILE instead of standard output",
        ),
        None,
    )
}
EXIT_STYLE: Declared = {
    "exit_style": (
        _output(
            "--exit-style",
            type_=choice("full", *EXIT_STYLES),
            help="exit codes to use; gpuscan explain exit lists them",
        ),
        "full",
    )
}
OUTPUT: Declared = {
    "format_": (
        _output(
            "--format",
            type_=choice(*FORMATS) | None,
            help="format of the report (default text, or that of /etc/gpuscan/config.yaml)",
        ),
        None,
    ),
    **FILE_OUTPUT,
    "report": (
        _output(
            "--report",
            type_=list[str],
            metavar="FORMAT=FILE,...",
            callback=_split_reports,
            help="also write a report, e.g. junit=gpuscan.xml; removed if the run ends in exit 2",
        ),
        [],
    ),
    "fail_on": (
        _output("--fail-on", type_=choice("warn") | None, help="exit 10 if there are warnings"),
        None,
    ),
    **EXIT_STYLE,
    "quiet": (_output("-q", "--quiet", type_=bool, help="print a one-line summary"), False),
    "verbose": (
        _output(
            "-v",
            "--verbose",
            type_=int,
            count=True,
            show_default=False,
            help="also show what passed and what was skipped",
        ),
        0,
    ),
}
EVIDENCE: Declared = {
    "record": (
        _output(
            "--record", type_=str | None, metavar="FILE", help="save the recording of this scan"
        ),
        None,
    ),
    "collect_on_fail": (
        _output(
            "--collect-on-fail",
            type_=str | None,
            metavar="DIR",
            help="on a failure (exit code 20 and above) save the recording, the report, an RMA"
            " ticket and nvidia-bug-report.sh's log below DIR",
        ),
        None,
    ),
    "on_verdict": (
        _output(
            "--on-verdict",
            type_=str | None,
            metavar="CMD",
            help="once the report is out, run CMD (no shell) for at most 60 s, with the JSON report"
            " on its standard input and GPUSCAN_VERDICT, _EXIT_CODE, _HOLD, _HOST and _HEADLINE in"
            " its environment",
        ),
        None,
    ),
}

STATE_DIR: Declared = {
    "state_dir": (
        _history(
            "--state-dir",
            type_=str | None,
            metavar="DIR",
            help="where runs and holds are kept (root: /var/lib/gpuscan)",
        ),
        None,
    )
}
TRIED: Declared = {
    "tried": (
        list_option(
            "--tried",
            choices=tuple(WORK),
            panel=HISTORY_PANEL,
            metavar=f"[{'|'.join(WORK)}],...",
            help="work done on the node since the run before",
        ),
        [],
    )
}
SETTLE: Declared = {
    "settle": (
        _history(
            "--settle",
            metavar="D",
            refuse_blank=False,
            help="rescan for up to D (90s, 5m) while anything fails or is unread",
        ),
        "",
    )
}
NO_HISTORY: Declared = {
    "no_history": (
        _history(
            "--no-history",
            type_=bool,
            help="ignore earlier runs and holds, and do not save this run",
        ),
        False,
    )
}
HISTORY: Declared = TRIED | SETTLE | STATE_DIR | NO_HISTORY
SINCE: Declared = {
    "since": (
        _history(
            "--since",
            metavar="TIME",
            refuse_blank=False,
            help="from this date (2026-11-28), or this long ago (30d)",
        ),
        "",
    )
}

SWAP_EXPECTATIONS: Declared = {
    "expect": (
        list_option(
            "--expect",
            panel=SWAP_PANEL,
            metavar="PART,...",
            help="a part that was changed: gpu:SLOT, nic:NAME, cable:PORT, disk:NAME, baseboard"
            " or tray, =replaced (the default) or =reseated; or none",
        ),
        [],
    ),
    "known_bad": (
        _swap(
            "--known-bad",
            type_=str | None,
            metavar="FILE",
            help="serial numbers of bad parts, one a line",
        ),
        None,
    ),
    "expected_parts": (
        _swap(
            "--expected-parts",
            type_=str | None,
            metavar="FILE",
            help="the serial number expected in each slot, as YAML or JSON",
        ),
        None,
    ),
    "firmware_inventory": (
        _swap("--firmware-inventory", type_=str | None, metavar="FILE", help=FIRMWARE_HELP),
        None,
    ),
}
