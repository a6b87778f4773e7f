"""The words of a verdict: Status, Action and Result, and the one table of actions and exit
codes.
"""

from enum import Enum
from typing import Any, NamedTuple

from gpuscan.model.subject import Subject
from gpuscan.model.unread import Unread


class Status(str, Enum):
    """What became of one check on one subject; derived in one place (engine), never set by a
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
        "warn", 0, "Keep the node in service and watch it.", "The next scan shows no growth."
    ),
    Action.RESTART_APP: ActionRow(
        "warn",
        0,
        "Restart the program that failed; the GPU is not at fault.",
        "The program completes.",
    ),
    Action.FIX_CONFIG: ActionRow(
        "software",
        20,
        "Fix the setting, service or driver named here.",
        "gpuscan run passes.",
    ),
    Action.INVESTIGATE: ActionRow(
        "software",
        20,
        "Keep the node drained, save a bug report (nvidia-bug-report.sh), and open a ticket.",
        "The cause is known, and gpuscan run passes.",
    ),
    Action.RESET_GPU: ActionRow(
        "reboot",
        30,
        "End all programs on the GPU and reset it (nvidia-smi --gpu-reset), or reboot the node.",
        "After the reset, gpuscan run passes.",
    ),
    Action.REBOOT: ActionRow(
        "reboot",
        30,
        "Drain and reboot the node.",
        "After the reboot every GPU responds, and gpuscan run passes.",
    ),
    Action.POWER_CYCLE: ActionRow(
        "reboot",
        31,
        "Drain the node and power-cycle it (a virtual machine: stop and start it).",
        "After the cold start every part is back, and gpuscan run passes.",
    ),
    Action.INSPECT: ActionRow(
        "hardware",
        40,
        "Reseat the part, check its cable, power and cooling, and run the field diagnostic.",
        "After the work and a boot (else add --tried reseat), gpuscan run passes.",
    ),
    Action.REPLACE: ActionRow(
        "hardware",
        41,
        "Save nvidia-bug-report.sh and field diagnostic logs for the RMA, then replace the part.",
        "Another serial number is in the slot, and gpuscan swap verify or gpuscan run passes.",
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
    """One fact that a check read or could not read: its path in the node, its value, its
    reading.
    """

    fact: str
    value: Any
    keys: tuple[str, ...]


class Finding(NamedTuple):
    """One thing that is wrong, in a sentence, with what will fix it.

    *same* distinguishes faults of one check; *level* is the lowest at which a passing run
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


class SkipReason(str, Enum):
    """Why a check was skipped; the sentence is in Result.reason."""

    NOT_APPLICABLE = "not-applicable"  # this node has no such part
    OTHER_INPUT = "other-input"  # needs a comparison, a burn-in or another tool's output
    NOTHING_TO_COMPARE = "nothing-to-compare"
    NOT_JUDGED = "not-judged"  # the profile skips it, or leaves the expectation open
    LEFT_OUT = "left-out"  # by the user
    NOT_RECORDED = "not-recorded"
    NOT_SUPPORTED = "not-supported"
    NEEDS_DRIVER = "needs-driver"  # a newer one
    SILENT_LOG = "silent-log"  # nothing in what is left of a log whose beginning is gone
    EXPLAINED = "explained"  # by another result


class Root(NamedTuple):
    """The result that explains another: a check on a subject."""

    check: str
    subject: Subject


class Result(NamedTuple):
    """One check on one subject; *skip_reason* comes with the status `skip` and no other.

    *finds_corruption* and *shows_measurements* are marks of the check that renderers need.
    """

    check: str
    about: Subject
    status: Status
    title: str
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    unread: tuple[tuple[str, Unread], ...] = ()
    traceback: str = ""
    skip_reason: SkipReason | None = None
    explained_by: Root | None = None
    finds_corruption: bool = False
    shows_measurements: bool = False

    @property
    def subject(self) -> str:
        """Return the subject as reports write it: `gpu:SXM6`."""
        return str(self.about)

    @property
    def address(self) -> str | None:
        """Return the subject's PCI address."""
        return self.about.address


HARMLESS = (
    "not-recorded",
    "not-supported",
    "too-old-driver",
)  # lacks that are no fault of this scan


def exit_code(verdict: str, code: int, style: str = "full", *, fail_on_warn: bool = False) -> int:
    """Return the process's exit code for a verdict under an exit style (full, simple, nagios,
    npd).
    """
    if style == "full":
        return EXIT_WARN if fail_on_warn and verdict == "warn" else code
    if fail_on_warn and verdict == "warn":
        return max(EXIT_STYLES[style]["warn"], 1)
    return EXIT_STYLES[style][verdict]
