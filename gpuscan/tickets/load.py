"""Load what a ticket is made of: a report's file or evidence folder, and what lies next to it."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gpuscan.engine import suite
from gpuscan.engine.judging import all_checks
from gpuscan.errors import UsageError
from gpuscan.files import read_input, schema_text
from gpuscan.recording import FORMAT
from gpuscan.renderers.json_ import SCHEMA_VERSION
from gpuscan.tickets.evidence import MANIFEST, TICKET
from gpuscan.tickets.parts import failures, has_failed
from gpuscan.tickets.ticket import TicketInput

LARGEST_BYTES = 256 << 20
MOST_MISTAKES = 3
JUDGE_FIRST = "judge it first with: gpuscan judge {} --format json --output report.json"


def load_input(file: str, gpu: str) -> TicketInput:
    """Return the input for a ticket from a report's file, an evidence folder, or `-` (stdin).

    Of several reports, take the first that failed on the part *gpu*, else the first that failed.
    Raises UsageError that says what the file is instead.
    """
    if os.path.isdir(file):
        file = os.path.join(file, "report.json")
    document = _with_current_ids(_choose(_reports(_parse(_read(file), file), file), gpu))
    if not os.path.isfile(file):  # standard input or a pipe: not a file to attach
        return TicketInput(document)
    from gpuscan.live.evidence import describe_file

    folder = os.path.dirname(file)
    manifest = _load_json(folder, MANIFEST)
    if os.path.basename(file) != "report.json" or not isinstance(manifest, dict):
        return TicketInput(document, files=[describe_file(file)])
    holders = _load_json(folder, "holders.json")
    files = [row for row in manifest.get("files", ()) if row.get("name") != TICKET]
    return TicketInput(
        document, holders=holders if isinstance(holders, list) else None, files=files
    )


def from_archive(report: Any, gpu: str) -> Mapping[str, Any]:
    """Return a stored report, checked as one that comes in a file."""
    file = "the newest failing run in the archive"
    return _with_current_ids(_choose(_reports(report, file), gpu))


def _load_json(folder: str, name: str) -> Any:
    """Return a file of an evidence folder, None where it is missing or damaged."""
    try:
        return json.loads(read_input(os.path.join(folder, name), LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def _read(file: str) -> bytes:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(LARGEST_BYTES + 1)
        else:
            data = read_input(file, LARGEST_BYTES)
    except (OSError, AttributeError) as error:
        raise UsageError(
            f"{file}: {getattr(error, 'strerror', '') or 'standard input is closed'}"
        ) from None
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{file}: larger than {LARGEST_BYTES >> 20} MiB: not a report")
    return data


def _parse(data: bytes, file: str) -> Any:
    if data[:2] == b"\x1f\x8b":
        raise UsageError(
            f"{file}: compressed, so not a report; if it is a recording, {JUDGE_FIRST.format(file)}"
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{file}: not a report, or a truncated one (invalid JSON)") from None


def _reports(found: Any, file: str) -> list[Mapping[str, Any]]:
    """Return the reports in a document; raises UsageError for whatever else it holds."""
    reports = found if isinstance(found, list) else [found]
    if not reports:
        raise UsageError(f"{file}: contains no report")
    for report in reports:
        if isinstance(report, dict) and report.get("format") == FORMAT:
            raise UsageError(f"{file}: a recording, not a report; {JUDGE_FIRST.format(file)}")
        _refuse_foreign(report, file)
    return reports


def _refuse_foreign(report: Any, file: str) -> None:
    if not isinstance(report, dict) or "schema_version" not in report or "summary" not in report:
        raise UsageError(
            f"{file}: not a gpuscan report: write one with"
            " gpuscan run --format json --output report.json"
        )
    version = str(report["schema_version"])
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise UsageError(
            f"{file}: report format {version}, but this gpuscan reads {SCHEMA_VERSION}:"
            " update gpuscan"
        )
    from jsonschema import Draft202012Validator

    mistakes = list(Draft202012Validator(json.loads(schema_text("report"))).iter_errors(report))
    if mistakes:
        words = [f"{one.json_path}: {one.message[:200]}" for one in mistakes[:MOST_MISTAKES]]
        raise UsageError(f"{file}: damaged report: {'; '.join(words)}")


def _choose(reports: Sequence[Mapping[str, Any]], gpu: str) -> Mapping[str, Any]:
    failing = [report for report in reports if failures(report)]
    if not failing:
        these = "this report" if len(reports) == 1 else "these reports"
        raise UsageError(f"nothing failed in {these}: no ticket")
    return next((report for report in failing if gpu and has_failed(report, gpu)), failing[0])


def _with_current_ids(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the report with the current ids of checks that had another in an older gpuscan."""
    renamed = suite.aliases(all_checks())
    findings = [
        {**finding, "check": renamed.get(finding["check"], finding["check"])}
        for finding in report["findings"]
    ]
    return {**report, "findings": findings}
