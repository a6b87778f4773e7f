"""A report in one line: the verdict, what is to be done with which part, and what was found.

The first 80 bytes are what a scheduler keeps as its reason to drain a node, so the action, the part
and its serial number come first.
"""

from collections.abc import Sequence

from gpuscan.engine.blame import Target
from gpuscan.engine.case import PROFILE_CHECK
from gpuscan.engine.conclude import Circumstance
from gpuscan.engine.partial import told
from gpuscan.engine.proof import CHECK as PROOF_CHECK
from gpuscan.engine.report import Report
from gpuscan.model import Unread
from gpuscan.model.outcome import HARMLESS, Action, Finding, Result, Status
from gpuscan.model.proof import TOLD
from gpuscan.profile.sizes import counting_profiles
from gpuscan.profile.values import in_words

MOST_TEXT = 200  # characters of a message
MOST_UNREAD = 3  # facts that were not read and are named
KINDS = {
    "no-permission": "denied",
    "not-found": "not found",
    "reset-required": "unread (a reset is required)",
    "garbled": "not understood",
    "not-supported": "not supported",
    "too-old-driver": "unread (the driver is too old)",
    "blocked-behind": "unread (behind a hung one)",
    "not-recorded": "not recorded",
}
AS_ROOT = "run as root"
INCIDENT = "incident"
Found = tuple[Result, Finding]


def headline(report: Report) -> str:
    """Return a report in one line: `hardware (41): replace gpu SXM7 serial 165…: row remapping
    failed [memory.row_remap] (+2)`, `pass (0); partial: memory (--skip memory)`.
    """
    cause = _cause(report)
    verdict = f"{report.verdict} ({shown_code(report)})"
    rest = (
        *swap_lines(report),
        *_proof_lines(report),
        *unproven_lines(report),
        *partial_lines(report),
    )
    return "; ".join([f"{verdict}: {cause}" if cause else verdict, *rest])


def swap_lines(report: Report) -> list[str]:
    """Return the sentence on a swap that is under way, none without one."""
    return [f"swap {report.swap_left} is not verified"] if report.swap_left else []


def _proof_lines(report: Report) -> list[str]:
    """Return what a proof came to, by outcome; none of any other run."""
    found: dict[str, dict[str, None]] = {}
    for row in report.proof if report.run.proof else ():
        named = f"{_words(row.subject)} ({row.check})"
        found.setdefault(TOLD[row.outcome], {})[named] = None
    return [f"{told}: {', '.join(names)}" for told, names in found.items()]


def unproven_lines(report: Report) -> list[str]:
    """Return the sentence on what this run lifts without a proof, none where there is no such."""
    names = [f"{_words(row.subject)} ({row.check})" for row in report.proof if row.unproven]
    return [f"not exercised since the fault: {', '.join(dict.fromkeys(names))}"] if names else []


def partial_lines(report: Report) -> list[str]:
    """Return the sentence on what was not judged, none where the whole node was."""
    return [f"partial: {'; '.join(told(report.partial))}"] if report.partial else []


def shown_code(report: Report) -> int:
    """Return the exit code that the command ends with in full style: a signal's, where one ended
    this scan.
    """
    signal = report.run.ended_by_signal
    return 128 + signal if signal and report.run.recording is None else report.exit_code


def _cause(report: Report) -> str:
    if report.action is not Action.NONE:
        return _failure(report)
    if report.verdict == "incomplete":
        return _gap(report)
    return _warning(report)


def _failure(report: Report) -> str:
    found = _findings(report.results, Status.FAIL)
    result, finding = max(found, key=lambda pair: pair[1].action.rank)
    others = f" (+{len(found) - 1})" if len(found) > 1 else ""
    part = _part(report.targets) or _words(result.subject)
    return f"{finding.action.value} {_told(part, finding)} [{result.check}]{others}"


def _told(part: str, finding: Finding) -> str:
    """Return the part and what was found, the part once where the message begins with it."""
    message = _cut(finding.message)
    return message if message.startswith(part) else f"{part}: {message}"


def _part(targets: Sequence[Target]) -> str:
    """Name the first part that the action is for, with its serial number, and count the others."""
    if not targets:
        return ""
    first = targets[0]
    serial = f" serial {first.serial}" if first.serial else ""
    others = f" and {len(targets) - 1} more" if len(targets) > 1 else ""
    return f"{_words(first.subject)}{serial}{others}"


def _warning(report: Report) -> str:
    found = _findings(report.results, Status.WARN)
    if not found:
        return ""
    result, finding = max(found, key=lambda pair: pair[1].action.rank)
    others = f" (+{len(found) - 1})" if len(found) > 1 else ""
    return f"{_told(_words(result.subject), finding)} [{result.check}]{others}"


def _findings(results: Sequence[Result], severity: Status) -> list[Found]:
    return [
        (result, finding)
        for result in results
        for finding in result.findings
        if finding.severity is severity
    ]


def _gap(report: Report) -> str:
    """Say why a report is incomplete: the heaviest reason there is."""
    if Circumstance.CUT_SHORT in report.circumstances:
        return f"signal {report.run.ended_by_signal} ended the scan"
    unknown = [
        one
        for one in report.results
        if one.check not in report.optional and (one.status is Status.UNKNOWN or one.unread)
    ]
    cut_short = report.run.proof and any(is_of_proof(one.check) for one in unknown)
    if cut_short:  # the rest of the line says what was not exercised
        unknown = [one for one in unknown if not is_of_proof(one.check)]
    unread = _unread(unknown)
    if unread:
        return unread
    silent = [one for one in unknown if one.status is Status.UNKNOWN]
    if any(one.check == PROFILE_CHECK for one in silent):
        return f"no profile is known to fit this machine: --profile NAME{_proposal(report)}"
    if silent:
        return f"{silent[0].check}: {_cut(silent[0].reason)}"
    if Circumstance.NOT_UNDERSTOOD in report.circumstances:
        return "not all of the input was understood"
    if report.run.require_full and report.partial:
        return "only a part of the node was judged (--require-full)"
    return "" if cut_short else "nothing was judged"


def is_of_proof(check: str) -> bool:
    """Tell whether a check is unknown where a proof did not come to its end."""
    return check == PROOF_CHECK or check.startswith("burnin.")


def _proposal(report: Report) -> str:
    """Return the profiles that state a number of GPUs of this model."""
    gpus = [part for part in report.parts if part.kind == "gpu"]
    models = {part.device_id for part in gpus}
    names = counting_profiles(str(models.pop()), len(gpus)) if len(models) == 1 else ()
    return f" ({in_words(names)}?)" if names else ""


def _unread(results: Sequence[Result]) -> str:
    """Name the facts that were not read, those that only root may read first."""
    words: dict[str, str] = {}
    for result in results:
        lacking = [gap for gap in result.unread if gap[1].kind not in HARMLESS]
        for path, unread in lacking or (result.unread if result.status is Status.UNKNOWN else ()):
            words.setdefault(_fact(path), _kind(unread))
    denied = [fact for fact, kind in words.items() if kind == KINDS["no-permission"]]
    facts = [*denied, *(fact for fact in words if fact not in denied)]
    if not facts:
        return ""
    more = f" and {len(facts) - MOST_UNREAD} more" if len(facts) > MOST_UNREAD else ""
    named = ", ".join(f"{fact} {words[fact]}" for fact in facts[:MOST_UNREAD])
    return f"{named}{more}{f'; {AS_ROOT}' if denied else ''}"


def _kind(unread: Unread) -> str:
    return KINDS.get(unread.kind, unread.kind.replace("-", " "))


def _fact(path: str) -> str:
    """Return a fact's path as words.

    >>> _fact("gpus[SXM6].ecc_mode.current"), _fact("kernel_log.whole")
    ('gpu SXM6 ecc mode', 'kernel log')
    """
    list_, bracket, rest = path.partition("[")
    label, _, field = rest.partition("].")
    if bracket and field:
        return f"{list_.removesuffix('s')} {label} {_first(field)}"
    return _first(path) or "node"


def _first(path: str) -> str:
    return path.partition(".")[0].partition("[")[0].replace("_", " ")


def _words(subject: str) -> str:
    kind, _, label = subject.partition(":")
    return label if kind == INCIDENT else f"{kind} {label}".rstrip()


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 3]}..."
