"""The words of a verdict: Status, Action, Result and Report, and the one table of actions and exit
codes.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from gpuscan.model.past import Held


class Status(str, Enum):
    """What became of one check on one subject; derived in one place (verdict.py), never set by a
    check.
    """

    PASS = "pass"  # noqa: S105
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    SKIP = "skip"


class Action(str, Enum):
    """What will fix it, from nothing to a new part; the order of the members is their weight."""

    NONE = "none"
    MONITOR = "monitor"
    RESTART_APP = "restart-app"
    FIX_CONFIG = "fix-config"
    INVESTIGATE = "investigate"
    RESET_GPU = "reset-gpu"
    REBOOT = "reboot"
    POWER_CYCLE = "power-cycle"
    INSPECT = "inspect"
    REPLACE = "replace"

    @property
    def rank(self) -> int:
        """Return the weight: a higher one asks for more work."""
        return _RANK[self]


class ActionRow(NamedTuple):
    """One row of the table: the verdict and exit code of a failure, what to do, how to see that it
    worked.
    """

    verdict: str
    exit_code: int
    todo: str
    proof: str


ACTIONS: dict[Action, ActionRow] = {
    Action.NONE: ActionRow("pass", 0, "Nothing needs to be done.", "Nothing needs to be proven."),
    Action.MONITOR: ActionRow(
        "warn", 0, "Keep the node at work and watch it.", "The next scan shows no growth."
    ),
    Action.RESTART_APP: ActionRow(
        "warn",
        0,
        "Restart the program that failed; the GPU is not at fault.",
        "The program runs through.",
    ),
    Action.FIX_CONFIG: ActionRow(
        "software",
        20,
        "Correct the setting, service or driver named here.",
        "gpuscan run passes again.",
    ),
    Action.INVESTIGATE: ActionRow(
        "software",
        20,
        "Keep the node drained, save nvidia-bug-report.sh and the recording, and open a ticket.",
        "The cause is known and a scan passes.",
    ),
    Action.RESET_GPU: ActionRow(
        "reboot",
        30,
        "End all programs on the GPU and reset it (nvidia-smi --gpu-reset), or reboot the node.",
        "After the reset gpuscan run passes without this finding.",
    ),
    Action.REBOOT: ActionRow(
        "reboot",
        30,
        "Drain and reboot the node.",
        "After the boot every GPU answers and gpuscan run passes.",
    ),
    Action.POWER_CYCLE: ActionRow(
        "reboot",
        31,
        "Drain the node and take its power away (in a virtual machine: stop it and start it again).",
        "After cold start every part is back and gpuscan run passes.",
    ),
    Action.INSPECT: ActionRow(
        "hardware",
        40,
        "Open the node: reseat the part, check its cable, power and cooling, run the field diagnostic.",
        "After the work gpuscan run passes.",
    ),
    Action.REPLACE: ActionRow(
        "hardware",
        41,
        "Replace the part; save nvidia-bug-report.sh and the field diagnostic's log for the RMA first.",
        "The new part is in the slot and gpuscan run passes.",
    ),
}
_RANK = {action: rank for rank, action in enumerate(ACTIONS)}

# The words that others use for the same things: the Xid catalogue's classes and NVML's recovery
# action.
CATALOGUE_WORDS = {
    "update-software": Action.FIX_CONFIG,
    "contact-support": Action.INVESTIGATE,
    "hardware-inspect": Action.INSPECT,
    "hardware-replace": Action.REPLACE,
}
RECOVERY_ACTIONS = {
    0: Action.NONE,
    1: Action.RESET_GPU,
    2: Action.REBOOT,
    3: Action.MONITOR,  # drain P2P: NVIDIA calls it no fault of the GPU by itself
    4: Action.RESET_GPU,
    5: Action.FIX_CONFIG,  # recover the IMEX domain: a service
    6: Action.RESET_GPU,
    7: Action.POWER_CYCLE,
}

# What is asked for next where a fault is back after what was asked for has been done, and the work
# that proves it done.
LADDER = (Action.RESET_GPU, Action.REBOOT, Action.POWER_CYCLE, Action.INSPECT)
TO_REPLACE = (
    *LADDER,
    Action.REPLACE,
)  # for faults of the part itself, which no work around it can mend
WORK = {
    "reset": (Action.RESET_GPU,),
    "reboot": (Action.RESET_GPU, Action.REBOOT),
    "power-cycle": (Action.RESET_GPU, Action.REBOOT, Action.POWER_CYCLE),
    "reseat": (Action.RESET_GPU, Action.REBOOT, Action.POWER_CYCLE, Action.INSPECT),
    "replace": (
        Action.RESET_GPU,
        Action.REBOOT,
        Action.POWER_CYCLE,
        Action.INSPECT,
        Action.REPLACE,
    ),
}
LEVELS = ("passive", "quick", "medium", "long")
FAILED = 20  # exit codes from here on are proven failures

EXIT_OK, EXIT_BROKEN, EXIT_USAGE, EXIT_INCOMPLETE, EXIT_WARN = 0, 1, 2, 3, 10
EXIT_STYLES: dict[str, dict[str, int]] = {
    "simple": {"pass": 0, "warn": 0, "incomplete": 3, "software": 1, "reboot": 1, "hardware": 1},
    "nagios": {"pass": 0, "warn": 1, "incomplete": 3, "software": 2, "reboot": 2, "hardware": 2},
    "npd": {"pass": 0, "warn": 0, "incomplete": 2, "software": 1, "reboot": 1, "hardware": 1},
}
# Usage errors and our own failures, by style: whoever asked must read them as "not known", never as
# a verdict.
BROKEN_STYLES = {
    "full": (EXIT_USAGE, EXIT_BROKEN),
    "simple": (2, 2),
    "nagios": (3, 3),
    "npd": (2, 2),
}


class Evidence(NamedTuple):
    """One fact that a check read or could not read: its path in the node, its value, its reading."""

    fact: str
    value: Any
    keys: tuple[str, ...]


class Finding(NamedTuple):
    """One thing that is wrong, in a sentence, with what will fix it.

    *same* tells one fault of its check from another; *level* is the lowest at which a passing run
    proves that it is gone.
    """

    severity: Status
    message: str
    action: Action
    culprits: tuple[str, ...] = ()
    observed: Any = None
    expected: Any = None
    urgency: str = "now"
    impact: str = "availability"
    source: str = ""
    shared: bool = False
    same: str = ""
    level: str = LEVELS[0]


class Result(NamedTuple):
    """One check on one subject."""

    check: str
    subject: str
    address: str | None
    status: Status
    title: str
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    unread: tuple[Any, ...] = ()
    traceback: str = ""


class Report(NamedTuple):
    """All results of one judgement, and the verdict that follows from them; *held* is the hold
    that stands after it.
    """

    run: dict[str, Any]
    host: dict[str, Any]
    software: dict[str, Any]
    parts: tuple[dict[str, Any], ...]
    results: tuple[Result, ...]
    verdict: str
    exit_code: int
    complete: bool
    action: Action
    blind_spots: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()
    measurements: tuple[dict[str, Any], ...] = ()
    held: tuple[Held, ...] = ()
    incidents: tuple[dict[str, Any], ...] = ()
    changes: tuple[dict[str, Any], ...] = ()


def worst_action(results: tuple[Result, ...]) -> Action:
    """Return the heaviest action among the failures, `none` without one."""
    actions = [
        f.action
        for r in results
        if r.status is Status.FAIL
        for f in r.findings
        if f.severity is Status.FAIL
    ]
    return max(actions, key=lambda action: action.rank, default=Action.NONE)


HARMLESS = (
    "not-recorded",
    "not-supported",
    "too-old-driver",
)  # lacks that are no fault of this scan


def _echoes_a_lack(result: Result) -> bool:
    return result.reason.startswith("explained") and any(
        unread.kind not in HARMLESS for _, unread in result.unread
    )


def conclude(
    results: tuple[Result, ...], optional: frozenset[str] = frozenset()
) -> tuple[str, int, bool]:
    """Return (verdict, exit code, complete) of *results*: a proven failure wins over what was not
    read.

    *optional* names the checks whose `unknown` does not make the scan incomplete.
    """
    needed = [r for r in results if r.check not in optional]
    # an echo that another finding explains is no finding of its own, but what it lacked was not
    # read all the same
    complete = all(r.status is not Status.UNKNOWN and not _echoes_a_lack(r) for r in needed)
    action = worst_action(results)
    if action is not Action.NONE:
        row = ACTIONS[action]
        return row.verdict, row.exit_code, complete
    if not complete or not any(r.status in (Status.PASS, Status.WARN) for r in results):
        return "incomplete", EXIT_INCOMPLETE, False
    if any(r.status is Status.WARN for r in results):
        return "warn", EXIT_OK, True
    return "pass", EXIT_OK, True


def exit_code(verdict: str, code: int, style: str = "full", *, fail_on_warn: bool = False) -> int:
    """Return the process's exit code for a verdict under an exit style (full, simple, nagios,
    npd).
    """
    if style == "full":
        return EXIT_WARN if fail_on_warn and verdict == "warn" else code
    if fail_on_warn and verdict == "warn":
        return max(EXIT_STYLES[style]["warn"], 1)
    return EXIT_STYLES[style][verdict]


def worst_exit_code(
    reports: Sequence[Report], style: str = "full", *, fail_on_warn: bool = False
) -> int:
    """Return the exit code of the worst report: ranked as in full style, for in others "not known"
    is a higher number.
    """

    def codes(report: Report) -> tuple[int, int]:
        full = exit_code(report.verdict, report.exit_code, fail_on_warn=fail_on_warn)
        return full, exit_code(report.verdict, report.exit_code, style, fail_on_warn=fail_on_warn)

    return max(codes(report) for report in reports)[1]
