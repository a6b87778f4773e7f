"""JSON: the whole report, as `gpuscan schema report` describes it; several reports are an array."""

import json
from collections.abc import Sequence
from typing import Any

from gpuscan.engine.hold import summary
from gpuscan.engine.lifting import lifted_by
from gpuscan.engine.report import Report
from gpuscan.engine.steps import find_steps
from gpuscan.model import is_unread, read_or
from gpuscan.model.outcome import ACTIONS, Evidence, Finding, Result, Status
from gpuscan.model.report_rows import OMITTED_IF_NONE
from gpuscan.renderers.headline import headline
from gpuscan.text import as_json

SCHEMA_VERSION = "1.4"


def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    """Return the reports as JSON: a line a key, and a line an item of its lists, so that people
    can read and diff it.
    """
    documents = [_laid_out(document(report)) for report in reports]
    return (documents[0] if len(documents) == 1 and not many else f"[{','.join(documents)}]") + "\n"


def _laid_out(document: dict[str, Any]) -> str:
    """json.dumps(indent=…) would do much of this, ten times slower: with an indent it leaves its C
    code.
    """
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(map(as_json, value))
            parts.append(f'"{key}": [\n  {items}\n ]')
        else:
            parts.append(f'"{key}": {as_json(value)}')
    return "{\n " + ",\n ".join(parts) + "\n}"


def document(report: Report) -> dict[str, Any]:
    """Return one report as JSON data."""
    counts = {status.value: sum(r.status is status for r in report.results) for status in Status}
    steps = find_steps(report)
    row = steps[0] if steps else ACTIONS[report.action]
    changes = (
        {"changes": [_row(row) for row in report.changes]} if report.changes else {}
    )  # there is no such thing without a comparison
    return {
        "schema_version": SCHEMA_VERSION,
        "run": _row(report.run),
        "summary": {
            "headline": headline(report),
            "verdict": report.verdict,
            "exit_code": report.exit_code,
            "complete": report.complete,
            "usable": report.exit_code == 0 and not report.partial and not report.swap_left,
            "action": report.action.value,
            "todo": row.todo,
            "proof": row.proof,
            "targets": [target._asdict() for target in report.targets],
            "counts": counts,
        },
        "partial": [_row(row) for row in report.partial],
        **({"proof": [_row(row) for row in report.proof]} if report.proof else {}),
        **({"proposed": _row(report.proposed)} if report.proposed else {}),
        "scope": list(report.run.scope),
        "host": _row(report.host),
        "software": _row(report.software),
        "parts": [_row(part) for part in report.parts],
        **changes,
        "checks": [_result(result) for result in report.results],
        "findings": [_finding(r, f) for r in report.results for f in r.findings],
        "incidents": [_row(incident) for incident in report.incidents],
        "hold": _hold(report),
        "swap_left": report.swap_left or None,
        "measurements": [_row(row) for row in report.measurements],
        "blind_spots": [_row(spot) for spot in report.blind_spots],
        "notes": list(report.notes),
    }


def _hold(report: Report) -> dict[str, Any] | None:
    """Return the hold that stands after a run, each reason with what lifts it."""
    found = summary(report.held)
    if found is None:
        return None
    awake = [one for one in report.held if not one.asleep]
    reasons = [
        {**row, "lifted_by": lifted_by(one)}
        for row, one in zip(found["reasons"], awake, strict=True)
    ]
    return {**found, "reasons": reasons, "told": report.hold_told}


def _row(record: Any) -> dict[str, Any]:
    """Return a record of the report as JSON data, without the keys that it does not have."""
    omitted = OMITTED_IF_NONE.get(type(record), ())
    return {
        name: _plain(value)
        for name, value in zip(record._fields, record, strict=True)
        if value is not None or name not in omitted
    }


def _plain(value: Any) -> Any:
    if is_unread(value):
        return None
    if hasattr(value, "_fields"):
        return _row(value)
    return [_plain(item) for item in value] if type(value) is tuple else value


def _result(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": result.check,
        "subject": result.subject,
        "status": result.status.value,
        "title": result.title,
    }
    if result.address:
        row["address"] = result.address
    if result.reason:
        row["reason"] = result.reason
    if result.skip_reason:
        row["skip_reason"] = result.skip_reason.value
    if result.explained_by:
        root = result.explained_by
        row["explained_by"] = {"check": root.check, "subject": str(root.subject)}
    if result.evidence:
        row["evidence"] = _evidence(result.evidence)
    if result.unread:
        row["unread"] = [
            {"fact": path, "kind": u.kind, "text": u.text, "reading": u.key}
            for path, u in result.unread
        ]
    if result.traceback:
        row["traceback"] = result.traceback
    return row


def _evidence(evidence: Sequence[Evidence]) -> list[dict[str, Any]]:
    """Tell each fact once, however often the check looked at it."""
    rows = {
        one.fact: {"fact": one.fact, "value": _value(one.value), "readings": list(one.keys)}
        for one in evidence
    }
    return list(rows.values())


def _value(value: Any) -> Any:
    return read_or(value, None)


def _observed(value: Any) -> Any:
    """Return what a check of a site observed as it is where JSON has such a thing, else in
    Python's words.
    """
    try:
        json.dumps(value, default=str, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    return value


def _finding(result: Result, finding: Finding) -> dict[str, Any]:
    row = {
        "check": result.check,
        "subject": result.subject,
        "address": result.address,
        "severity": finding.severity.value,
        "message": finding.message,
        "action": finding.action.value,
        "urgency": finding.urgency,
        "impact": finding.impact,
        "observed": _observed(finding.observed),
        "expected": _observed(finding.expected),
        "culprits": list(finding.culprits),
        "source": finding.source,
        "evidence": _evidence(result.evidence),
    }
    if finding.shared:
        row["shared_cause"] = True
    return row
