"""Text for people: worst first, equal subjects folded, the next action last; words tell all that
colours do.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from gpuscan.engine.blame import IDENTITY, Target
from gpuscan.model.outcome import ACTIONS, EXIT_WARN, Action, Finding, Report, Result, Status
from gpuscan.renderers.words import headline, targets
from gpuscan.text import printable

ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.SKIP, Status.PASS)
STYLES = {
    Status.FAIL: "bold red",
    Status.UNKNOWN: "bold magenta",
    Status.WARN: "yellow",
    Status.SKIP: "dim",
    Status.PASS: "green",
}
VERDICT_STYLES = {"pass": "bold green", "warn": "bold yellow", "incomplete": "bold magenta"}
WORDS = {
    Status.FAIL: "FAIL",
    Status.UNKNOWN: "UNKNOWN",
    Status.WARN: "WARN",
    Status.SKIP: "skip",
    Status.PASS: "pass",
}
MOST_TESTS = 4
MOST_PLACES = 8  # pairs of GPUs that are named
MOST_ROWS = 4  # of one check on one GPU, or in one test, of a burn-in
INDENT = " " * 9


class Line(NamedTuple):
    """One line: its text, the style of its first *styled* characters, and how deep its continuation
    is indented.

    *spans* are the (start, end, style) of further pieces of it.
    """

    text: str
    style: str = ""
    styled: int = 0
    hang: int = 0
    spans: tuple[tuple[int, int, str], ...] = ()


class Row(NamedTuple):
    """Equal results of one check, folded: the subjects that share a status and a sentence."""

    status: Status
    check: str
    subjects: tuple[str, ...]
    message: str
    action: Action
    rank: int


def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    """Return the reports as plain text."""
    return "".join(f"{line.text}\n" for line in lines(reports, verbosity=verbosity, many=many))


def lines(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> list[Line]:
    """Return the lines of one report, or one line a report where there are several."""
    if many or verbosity < 0:
        told = [_one_line(report, named=many) for report in reports]
    else:
        (report,) = reports
        body = _body([row for row in _rows(report.results) if _shown(row, verbosity)], verbosity)
        space = [Line("")] if body else []
        more = [*_changed(report, verbosity), *_burnt(report, verbosity)]
        told = [*_head(report), Line(""), *body, *space, *more, *_tail(report, verbosity)]
    return [line._replace(text=printable(line.text)) for line in told]


def _shown(row: Row, verbosity: int) -> bool:
    return verbosity > 0 or row.status not in (Status.PASS, Status.SKIP)


def _body(rows: Sequence[Row], verbosity: int) -> list[Line]:
    """Return the rows' lines. Where a burn-in's check failed in many places, each with numbers of
    its own, a few are enough.
    """
    told: list[Line] = []
    for _, alike in groupby(rows, key=lambda row: (row.status, row.check, row.action)):
        shown: Counter[str] = Counter()
        hidden = 0
        for row in alike:
            kind, _, name = row.subjects[0].partition(":")
            shown.update(set(name.split(" ")[:2]))  # the GPU and the test
            if (
                kind == "test"
                and verbosity <= 0
                and max(shown[word] for word in name.split(" ")[:2]) > MOST_ROWS
            ):
                hidden += 1
            else:
                told += _row_lines(row)
        told += (
            [Line(f"{INDENT}and {hidden} more of these (-v shows them)", hang=len(INDENT))]
            if hidden
            else []
        )
    return told


def _head(report: Report) -> list[Line]:
    run, host, software = report.run, report.host, report.software
    gpus = [part for part in report.parts if part["kind"] == "gpu"]
    driver = f", driver {software['module_version']}" if software.get("module_version") else ""
    who = host.get("hostname") or run.get("recording") or "this node"
    head = [
        Line(
            f"gpuscan {run.get('gpuscan_version', '')}  {who}: {_models(gpus, listed=not _unlisted(report))}{driver}"
        )
    ]
    head += [Line(f"{INDENT}{note}", hang=len(INDENT)) for note in report.notes]
    return head


def _unlisted(report: Report) -> bool:
    """Tell whether the GPUs could not be listed: having seen none is another thing than there
    being none.
    """
    return any(spot["fact"] == "gpus" for spot in report.blind_spots)


def _models(gpus: Sequence[Mapping[str, Any]], *, listed: bool) -> str:
    """Name the GPUs by model; one that does not answer is of its siblings' model if its device id
    is theirs.
    """
    models: dict[str, list[str]] = {}
    for gpu in gpus:
        models.setdefault(str(gpu["device_id"] or "GPU of NVIDIA's"), []).append(gpu["name"] or "")
    told = [f"{len(names)} x {max(names) or device_id}" for device_id, names in models.items()]
    return ", ".join(told) or ("no NVIDIA GPU" if listed else "GPUs not read")


def _rows(results: Iterable[Result]) -> list[Row]:
    folded: dict[tuple[Status, str, str, Action], list[str]] = {}
    for result in results:
        for status, message, action in _sentences(result):
            folded.setdefault((status, result.check, message, action), []).append(result.subject)
    rows = [
        Row(status, check, tuple(subjects), message, action, ORDER.index(status))
        for (status, check, message, action), subjects in folded.items()
    ]
    return sorted(rows, key=lambda row: (row.rank, -row.action.rank))


def _sentences(result: Result) -> list[tuple[Status, str, Action]]:
    if result.status in (Status.FAIL, Status.WARN):
        return [(f.severity, _told(f), f.action) for f in result.findings]
    message = result.reason if result.status in (Status.SKIP, Status.UNKNOWN) else result.title
    return [(result.status, re.sub(r"\[[^\]]*\]", "[]", message, count=1), Action.NONE)]


def _told(finding: Finding) -> str:
    shared = (
        finding.shared and finding.action is not Action.FIX_CONFIG
    )  # a setting is shared as a matter of course
    extra = "; it shows on half of the GPUs or more, so its cause is shared" if shared else ""
    return finding.message + extra


def fold(subjects: Sequence[str]) -> str:
    """Fold subjects of one kind: `gpu SXM[5-8]`; others keep their names.

    >>> fold(["gpu:SXM5", "gpu:SXM6", "gpu:SXM7"]), fold(["node"]), fold(["gpu:0000:1b:00.0"])
    ('gpu SXM[5-7]', 'node', 'gpu 0000:1b:00.0')
    """
    if len(subjects) == 1:
        return subjects[0].replace(":", " ", 1).removeprefix("incident ")
    kind = subjects[0].partition(":")[0]
    names = [subject.partition(":")[2] for subject in subjects]
    if kind == "test":
        return f"test {_fold_tests(names)}"
    hits = [re.fullmatch(r"(.*?)(0|[1-9]\d*)", name) for name in names]
    stems = {hit[1] for hit in hits if hit}
    if len(stems) == 1 and all(hits):
        return f"{kind} {stems.pop()}[{ranges(sorted(int(hit[2]) for hit in hits if hit))}]"
    return f"{kind} {', '.join(names)}"


def _fold_tests(names: Sequence[str]) -> str:
    """Fold the tests of a burn-in by what was tested: `stress-bf16 on SXM[5-8], peer on SXM5 (to
    SXM6, SXM7)`.
    """
    gpus: dict[str, list[str]] = {}
    for name in names:
        gpu, test, *peer = name.split(" ")
        gpus.setdefault(test, []).append(f"{gpu} to {peer[0]}" if peer else gpu)
    if len(gpus) > MOST_TESTS:
        every = [place.partition(" ")[0] for places in gpus.values() for place in places]
        return f"{', '.join(list(gpus)[:MOST_TESTS])} and {len(gpus) - MOST_TESTS} more tests on {_places(every)}"
    return ", ".join(f"{test} on {_places(found)}" for test, found in gpus.items())


def _places(names: Sequence[str]) -> str:
    told = list(dict.fromkeys(names))
    if all(" " not in name for name in told):
        return fold([f"gpu:{name}" for name in told]).partition(" ")[2]
    more = f" and {len(told) - MOST_PLACES} more" if len(told) > MOST_PLACES else ""
    return f"{', '.join(told[:MOST_PLACES])}{more}"


def ranges(numbers: Sequence[int]) -> str:
    """Fold sorted numbers: `5-7,9`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _row_lines(row: Row) -> list[Line]:
    word = WORDS[row.status]
    subject = fold(row.subjects)
    lines = [Line(f"{word:<9}{subject}: {row.message}", STYLES[row.status], len(word), len(INDENT))]
    if row.status in (Status.FAIL, Status.WARN):
        lines.append(Line(f"{INDENT}{row.check}: {row.action.value}", hang=len(INDENT)))
    else:
        lines.append(Line(f"{INDENT}{row.check}", hang=len(INDENT)))
    return lines


def _changed(report: Report, verbosity: int) -> list[Line]:
    """Tell what the comparison found, where there was one."""
    if not report.changes:
        return []
    from gpuscan.renderers import changed

    told = changed.lines(report.changes, fold, whole=verbosity > 0)
    heads = ["Changed: ", *(INDENT for _ in told[1:])]
    return [Line(f"{head}{text}", hang=len(INDENT)) for head, text in zip(heads, told, strict=True)]


def _burnt(report: Report, verbosity: int) -> list[Line]:
    """Show what a burn-in measured, where there was one."""
    if not any("test" in row for row in report.measurements):
        return []
    from gpuscan.renderers import burnin

    return burnin.lines(report, whole=verbosity > 0)


def _counts(report: Report) -> str:
    counts = [(WORDS[s].lower(), sum(r.status is s for r in report.results)) for s in ORDER]
    return ", ".join(f"{number} {word}" for word, number in counts if number)


def _tail(report: Report, verbosity: int) -> list[Line]:
    tail = []
    skipped = sum(result.status is Status.SKIP for result in report.results)
    if report.blind_spots and verbosity == 0:
        tail += _not_seen(report)
    elif skipped and verbosity == 0:
        tail.append(Line(f"{skipped} checks were skipped (-v tells why)"))
    word = f"Verdict: {report.verdict}"
    style = VERDICT_STYLES.get(report.verdict, "bold red")
    complete = "" if report.complete else ", incomplete"
    tail.append(
        Line(
            f"{word} (exit code {report.exit_code}{complete}); {_counts(report)}", style, len(word)
        )
    )
    return tail + [Line(text, hang=len(INDENT)) for text in _next(report)]


MOST_NOT_SEEN = 6


def _not_seen(report: Report) -> list[Line]:
    """Name what could have been seen and was not; what the hardware does not have is left to -v."""
    spots = [
        spot["fact"]
        for spot in report.blind_spots
        if spot["kind"] != "not-supported" and not _of_choice(spot)
    ]
    facts = list(dict.fromkeys(map(_shortly, spots)))
    more = f" and {len(facts) - MOST_NOT_SEEN} more" if len(facts) > MOST_NOT_SEEN else ""
    told = ", ".join(facts[:MOST_NOT_SEEN])
    return [Line(f"Not seen: {told}{more} (-v tells why)", hang=len(INDENT))] if facts else []


def _of_choice(spot: Mapping[str, Any]) -> bool:
    """Tell whether a lack is another program that a burn-in would have run: none has to be
    installed.
    """
    return spot["kind"] == "not-recorded" and bool(spot["fact"].startswith("tests[]"))


def _shortly(fact: str) -> str:
    if fact.startswith("changes[]"):
        return (
            "where cables lead"
            if fact.startswith("changes[].identity")
            else "what tells parts apart"
        )
    return (
        "growth of counters"
        if fact.endswith(".growth")
        else fact.removeprefix("gpus[].").split(".")[0].replace("[]", "")
    )


def _next(report: Report) -> list[str]:
    if report.action is Action.NONE:
        limits = report.run.get("limited_to")
        if limits and report.exit_code == 0:
            return [
                f"Nothing is wrong within what was judged ({', '.join(limits)}): that is not the whole node."
            ]
        return [NEXT["fail-on-warn" if report.exit_code == EXIT_WARN else report.verdict]]
    row = ACTIONS[report.action]
    named = [_identity(target) for target in targets(report)]
    return [f"Next:    {row.todo}", *(f"{INDENT}{name}" for name in named), f"Then:    {row.proof}"]


def _identity(target: Target) -> str:
    told = [f"{word} {value}" for word, value in zip(IDENTITY, target[1:], strict=True) if value]
    return f"{target.subject.replace(':', ' ', 1)}{': ' if told else ''}{', '.join(told)}"


NEXT = {
    "pass": "This node may go to work.",
    "warn": "This node may go to work; see the warnings.",
    "fail-on-warn": "Warnings count here (--fail-on warn): keep the node drained until they are settled.",
    "incomplete": "Not proven healthy: keep the node drained, see what was not read (gpuscan doctor helps), scan again.",
}


def _one_line(report: Report, *, named: bool) -> Line:
    text = headline(report)
    if named:
        return Line(f"{report.run.get('recording')}: {text}")
    return Line(text, VERDICT_STYLES.get(report.verdict, "bold red"), len(text))
