"""Results as lines: equal ones folded, worst first."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from gpuscan.model.outcome import Action, Evidence, Finding, Result, Status
from gpuscan.model.subject import Subject
from gpuscan.renderers.folding import fold
from gpuscan.renderers.lines import INDENT, Line, indented
from gpuscan.renderers.values import in_one_line
from gpuscan.text import shorten

ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.SKIP, Status.PASS)
STYLES = {
    Status.FAIL: "bold red",
    Status.UNKNOWN: "bold magenta",
    Status.WARN: "yellow",
    Status.SKIP: "dim",
    Status.PASS: "green",
}
LABELS = {
    Status.FAIL: "FAIL",
    Status.UNKNOWN: "UNKNOWN",
    Status.WARN: "WARN",
    Status.SKIP: "skip",
    Status.PASS: "pass",
}
SHARED = {
    "gpu": "half of the GPUs or more show it: a shared cause",
    "port": "half of these ports or more show it: check the leaf switch and subnet manager first",
}
QUIET = (Status.PASS, Status.SKIP)  # shown with -v only
WIDTH = 72  # columns of lists below a finding
LONGEST = 380  # characters of a finding; the JSON report has the whole
MOST_ROWS = 4  # of one check on one GPU, or in one test, of a burn-in


class FindingRow(NamedTuple):
    """Equal results of one check, folded: the subjects that share a status and a sentence.

    *evidence* is what was read of those that passed.
    """

    status: Status
    check: str
    subjects: tuple[Subject, ...]
    message: str
    action: Action
    evidence: tuple[Evidence, ...] = ()


def count_statuses(results: Sequence[Result]) -> str:
    """Count the results by status: `3 fail, 104 pass`."""
    counts = Counter(result.status for result in results)
    return ", ".join(f"{counts[status]} {status.value}" for status in ORDER if counts[status])


def render_results(results: Iterable[Result], *, verbosity: int) -> list[Line]:
    """Return the results' lines; those that passed or were skipped with verbosity 1 only.

    Where a burn-in's check fails in many places, each with numbers of its own, the first few stand
    for the rest.
    """
    rows = [row for row in _fold_rows(results) if verbosity > 0 or row.status not in QUIET]
    rows = _join_skipped(rows)
    lines: list[Line] = []
    for _, alike in groupby(rows, key=lambda row: (row.status, row.check, row.action)):
        group = list(alike)
        shown = group if verbosity > 0 else _first_of_each(group)
        for row in shown:
            lines += _render_row(row)
        hidden = len(group) - len(shown)
        lines += [indented(f"and {hidden} more of these (-v shows them)")] if hidden else []
    return lines


def _first_of_each(rows: Sequence[FindingRow]) -> list[FindingRow]:
    """Leave out a burn-in's rows on a GPU or in a test that has MOST_ROWS already."""
    counts: Counter[str] = Counter()
    kept = []
    for row in rows:
        first = row.subjects[0]
        counts.update((first.gpu, first.test))
        if first.kind != "test" or max(counts[first.gpu], counts[first.test]) <= MOST_ROWS:
            kept.append(row)
    return kept


def _fold_rows(results: Iterable[Result]) -> list[FindingRow]:
    folded: dict[tuple[Status, str, str, Action], list[Result]] = {}
    for result in results:
        for status, message, action in _sentences(result):
            folded.setdefault((status, result.check, message, action), []).append(result)
    rows = [
        FindingRow(
            status, check, tuple(one.about for one in alike), message, action, _seen(status, alike)
        )
        for (status, check, message, action), alike in folded.items()
    ]
    return sorted(rows, key=lambda row: (ORDER.index(row.status), -row.action.rank))


def _join_skipped(rows: Sequence[FindingRow]) -> list[FindingRow]:
    """Make one row of the checks that were skipped on the same subjects for the same reason."""
    joined: dict[object, FindingRow] = {}
    for number, row in enumerate(rows):
        key = (row.subjects, row.message) if row.status is Status.SKIP else number
        known = joined.get(key)
        joined[key] = known._replace(check=f"{known.check}, {row.check}") if known else row
    return list(joined.values())


def _seen(status: Status, alike: Sequence[Result]) -> tuple[Evidence, ...]:
    """Return what was read of equal results that passed; a burn-in's numbers have a table."""
    if status is not Status.PASS or alike[0].about.kind == "test":
        return ()
    return tuple(one for result in alike for one in result.evidence)


def _sentences(result: Result) -> list[tuple[Status, str, Action]]:
    if result.status in (Status.FAIL, Status.WARN):
        return [(f.severity, _message(f, result.about.kind), f.action) for f in result.findings]
    message = result.reason if result.status in (Status.SKIP, Status.UNKNOWN) else result.title
    root = result.explained_by
    if root and root.subject == result.about:
        message = message.removesuffix(f" ({root.subject})")
    # Which GPU a fact is of is the row's subject: without it, equal reasons fold.
    return [(result.status, re.sub(r"\[[^\]]*\]", "[]", message, count=1), Action.NONE)]


def _message(finding: Finding, kind: str) -> str:
    # A wrong setting is on all GPUs as a rule, and nobody wonders why.
    if not finding.shared or (finding.action is Action.FIX_CONFIG and kind != "port"):
        return finding.message
    return f"{finding.message}; {SHARED.get(kind, SHARED['gpu'])}"


def _sentence(row: FindingRow) -> str:
    """Return subjects and message, cut to what can be read; an incident's message may name it."""
    named = row.subjects[0].kind == "incident" and row.message.startswith(row.subjects[0].label)
    return shorten(row.message if named else f"{fold(row.subjects)}: {row.message}", LONGEST)


def _packed(text: str) -> list[str]:
    """Break a list after its commas into lines of about 80 columns; a terminal wraps the rest."""
    lines = [""]
    for item in re.split("(?<=, )", text):
        if lines[-1] and len(lines[-1]) + len(item) > WIDTH:
            lines.append("")
        lines[-1] += item
    return [line.rstrip() for line in lines]


def _render_row(row: FindingRow) -> list[Line]:
    label = LABELS[row.status]
    text = f"{label:<{len(INDENT)}}{_sentence(row)}"
    said = row.action.value if row.status in (Status.FAIL, Status.WARN) else ""
    said = said or in_one_line(row.evidence)
    return [
        Line(text, STYLES[row.status], len(label), len(INDENT)),
        *map(indented, _packed(f"{row.check}: {said}" if said else row.check)),
    ]
