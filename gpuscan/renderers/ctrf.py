"""CTRF, the Common Test Report Format (ctrf.io): one test per check and subject, as in JUnit.

CTRF has no status for what could not be found out that its readers count as bad, so an unknown
result is `failed` there, and `rawStatus` has the word.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from gpuscan import __version__
from gpuscan.engine.report import Report
from gpuscan.model.outcome import Result, Status
from gpuscan.renderers.cases import clean, details, host_of, is_red, unshown, worst
from gpuscan.renderers.headline import headline
from gpuscan.text import as_json, printable

SPEC = "0.0.0"  # the version of the schema
COUNTED = ("passed", "failed", "skipped", "pending", "other")
BAD = (Status.FAIL, Status.UNKNOWN, Status.WARN)


def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    """Return one document for all reports."""
    document = {
        "reportFormat": "CTRF",
        "specVersion": SPEC,
        "generatedBy": f"gpuscan {__version__}",
        "results": _results(reports),
    }
    return as_json(document, indent=1) + "\n"


def _results(reports: Sequence[Report]) -> dict[str, Any]:
    tests = [test for report in reports for test in _tests(report)]
    _make_ids_unique(tests)
    counts = Counter(test["status"] for test in tests)
    starts = [_milliseconds(report) for report in reports]
    lengths = [round((report.run.duration_s or 0) * 1000) for report in reports]
    stops = [start + length for start, length in zip(starts, lengths, strict=True)]
    return {
        "tool": {"name": "gpuscan", "version": __version__},
        "summary": {
            "tests": len(tests),
            **{status: counts[status] for status in COUNTED},
            "start": min(filter(None, starts), default=0),
            "stop": max(stops, default=0),
        },
        "tests": tests,
        "extra": {"hosts": [_host(report) for report in reports]},
    }


def _make_ids_unique(tests: list[dict[str, Any]]) -> None:
    """Number tests of one host and name (two GPUs that share a slot's name), as in JUnit."""
    seen: Counter[str] = Counter()
    for test in tests:
        seen[test["testId"]] += 1
        if seen[test["testId"]] > 1:
            number = f" #{seen[test['testId']]}"
            test["name"] += number
            test["testId"] += number


def _host(report: Report) -> dict[str, Any]:
    return {
        "host": printable(host_of(report)),
        "verdict": report.verdict,
        "exitCode": report.exit_code,
        "action": report.action.value,
        "headline": printable(clean(headline(report))),
        "hold": printable(clean(report.hold_told)),
    }


def _milliseconds(report: Report) -> int:
    """Return the start since 1970, 0 where the recording has none."""
    try:
        return round(datetime.fromisoformat(report.run.started_at or "").timestamp() * 1000)
    except ValueError:
        return 0


def _tests(report: Report) -> Iterator[dict[str, Any]]:
    host = printable(host_of(report))
    for result in report.results:
        yield _test(result, report, host)
    message = unshown(report)
    if message:
        row = _named("verdict[node]", host, "verdict")
        yield {**row, "status": "failed", "duration": 0, "message": message}


def _named(name: str, host: str, area: str) -> dict[str, Any]:
    suite = [f"gpuscan.{host}", area]
    return {"name": name, "testId": f"{host}/{name}", "suite": suite}


def _test(result: Result, report: Report, host: str) -> dict[str, Any]:
    name = printable(clean(f"{result.check}[{result.subject}]"))
    row = _named(name, host, result.check.partition(".")[0])
    row |= {"status": _status(result, report), "duration": _length(result, report)}
    row |= {"rawStatus": result.status.value}
    message = worst(result).message if result.findings else result.reason
    if message:
        row["message"] = printable(clean(message))
    if result.status in BAD:
        row["trace"] = clean(details(result))
    if result.findings:
        labels = {"action": worst(result).action.value, "urgency": worst(result).urgency}
        row["labels"] = labels
    return row


def _length(result: Result, report: Report) -> int:
    """Return how long a burn-in's test took, in milliseconds; a check takes no time."""
    rows = report.measurements if result.shows_measurements else ()
    seconds = (r.value for r in rows if (r.subject, r.name) == (result.subject, "burnin.seconds"))
    return round(next(seconds, 0.0) * 1000)


def _status(result: Result, report: Report) -> str:
    if is_red(result, report):
        return "failed"
    return "skipped" if result.status is Status.SKIP else "passed"
