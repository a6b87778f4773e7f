"""What the reports for CI systems share: the host's name, a case's text, and text made clean."""

import os
import re
from typing import Any

from gpuscan.engine.report import Report
from gpuscan.engine.steps import kind_of, sentences
from gpuscan.model import read_or
from gpuscan.model.outcome import EXIT_WARN, Finding, Result, Status
from gpuscan.text import harmless, printable

# Terminal escapes: CSI and OSC sequences, then any other. Of an unterminated one, only its first
# character matches.
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
FORBIDDEN = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LONGEST_LINE = 4096
ENDINGS = re.compile(r"(\.(json|gz|log|txt|xml|tar|tgz|xz|bz2|zst))+$")  # of a recording's file
NOTHING: tuple[Any, ...] = ("", None, (), [], {})  # values that say nothing in a line of evidence


def host_of(report: Report) -> str:
    """Return the host's name, else that of the recording's file: readers drop cases of the same
    class and name, and there may be a file for each node.
    """
    named = str(read_or(report.host.hostname, ""))
    file = os.path.basename(report.run.recording or "")
    return clean(named or ENDINGS.sub("", file) or "localhost")


def unshown(report: Report) -> str:
    """Return the verdict in words where no case is red and the node may still not work: the scan
    was cut short, or everything was skipped. With `--fail-on warn`, each warning is red.
    """
    red = (Status.FAIL, Status.UNKNOWN)
    if report.exit_code in (0, EXIT_WARN) or any(one.status in red for one in report.results):
        return ""
    return clean(f"the verdict is {report.verdict} (exit code {report.exit_code})")


def is_red(result: Result, report: Report) -> bool:
    """Return whether a case is red: it failed, is unknown, or warns where warnings fail."""
    warned = result.status is Status.WARN and report.run.fail_on is not None
    return result.status in (Status.FAIL, Status.UNKNOWN) or warned


def worst(result: Result) -> Finding:
    """Return the finding that a result is red for."""
    return max(
        result.findings, key=lambda finding: (finding.severity is Status.FAIL, finding.action.rank)
    )


def details(result: Result) -> str:
    """Return everything as `key: value` lines: GitLab shows the text but no properties, and older
    versions not even the message.
    """
    kind = kind_of(result.check, result.about.kind, result.about.entry)
    lines = [f"check: {result.check}", f"subject: {result.subject}"]
    lines += [f"address: {result.address}"] if result.address else []
    lines += [f"reason: {result.reason}"] if result.reason else []
    for finding in result.findings:
        lines += [f"{finding.severity.value}: {finding.message}", f"action: {finding.action.value}"]
        lines += [
            f"todo: {sentences(kind, finding.action).todo}",
            f"urgency: {finding.urgency}",
            f"impact: {finding.impact}",
        ]
        lines += [
            f"{name}: {value}"
            for name, value in (("observed", finding.observed), ("expected", finding.expected))
            if value is not None
        ]
        lines += [f"culprits: {', '.join(finding.culprits)}"] if finding.culprits else []
        lines += [f"source: {finding.source}"] if finding.source else []
    lines += dict.fromkeys(
        f"evidence: {e.fact} = {e.value} ({', '.join(e.keys[:3])})"
        for e in result.evidence
        if e.value not in NOTHING and not (e.fact.endswith("echoes") and not e.value)
    )
    lines += [f"unread: {path} ({unread.kind}: {unread.text})" for path, unread in result.unread]
    lines = [printable(clean(line)) for line in lines]
    # indented: what a value of the machine put into an error must not look like a line of ours
    trace = [f"    {printable(clean(line))}" for line in result.traceback.splitlines()]
    return "\n".join([*lines, *trace])


def clean(text: str) -> str:
    """Return *text* without terminal escapes and characters that XML forbids, with overlong lines
    cut: evidence can hold anything.

    >>> clean("\\x1b[31mred\\x1b[0m\\x00 \\ud800\\uffff]]>")
    'red ]]>'
    """
    whole = harmless(FORBIDDEN.sub("", ESCAPES.sub("", text)))
    if len(whole) <= LONGEST_LINE:
        return whole
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… (cut)"
        for line in whole.split("\n")
    )
