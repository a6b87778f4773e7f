"""From a report's file to the case of a ticket: the report that is meant, and what lies beside it."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.cli.commands import schema
from gpuscan.errors import UsageError
from gpuscan.recording import FORMAT
from gpuscan.renderers.json_ import SCHEMA_VERSION
from gpuscan.tickets import ticket
from gpuscan.tickets.evidence import MANIFEST, TICKET

LARGEST_BYTES = 256 << 20
MOST_MISTAKES = 3
JUDGE_FIRST = "judge it first with: gpuscan judge {} --format json --output report.json"


class Case(NamedTuple):
    """What a ticket is made of: a report's document, and its timeline, holders (None: not looked
    at) and files.
    """

    document: Mapping[str, Any]
    timeline: Sequence[Mapping[str, Any]] = ()
    holders: Sequence[Mapping[str, Any]] | None = None
    files: Sequence[Mapping[str, Any]] = ()


def told(case: Case, gpu: str, format_: str) -> str:
    """Return the ticket of a case in a format; raises UsageError where there is nothing to tell."""
    return ticket.render(
        ticket.build(case.document, gpu, case.timeline, case.holders, case.files), format_
    )


def opened(file: str, gpu: str) -> Case:
    """Return the case of a report's file, of an evidence folder, or of standard input (`-`).

    Of several reports it is the first that failed, or the first that failed and has the part *gpu*.
    Raises UsageError that says what the file is instead.
    """
    if os.path.isdir(file):
        file = os.path.join(file, "report.json")
    document = _chosen(_reports(_parsed(_read(file), file), file), gpu)
    if not os.path.isfile(file):  # standard input or a pipe, which nobody can attach
        return Case(document)
    from gpuscan.live.evidence import hashed

    folder = os.path.dirname(file)
    manifest = _beside(folder, MANIFEST)
    if os.path.basename(file) != "report.json" or not isinstance(manifest, dict):
        return Case(document, files=[hashed(file)])
    held = _beside(folder, "holders.json")
    files = [row for row in manifest.get("files", ()) if row.get("name") != TICKET]
    return Case(document, holders=held if isinstance(held, list) else None, files=files)


def _beside(folder: str, name: str) -> Any:
    """Return what an evidence folder's file says, None where there is none."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError):
        return None


def _read(file: str) -> bytes:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(LARGEST_BYTES + 1)
        else:
            with open(file, "rb") as report:
                data = report.read(LARGEST_BYTES + 1)
    except (OSError, AttributeError) as error:
        raise UsageError(
            f"{file}: {getattr(error, 'strerror', '') or 'standard input is closed'}"
        ) from None
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{file}: larger than {LARGEST_BYTES >> 20} MiB, which no report is")
    return data


def _parsed(data: bytes, file: str) -> Any:
    if data[:2] == b"\x1f\x8b":
        raise UsageError(
            f"{file}: is compressed, as recordings are; if it is one, {JUDGE_FIRST.format(file)}"
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{file}: not a report, or one that was cut off (no valid JSON)") from None


def _reports(found: Any, file: str) -> list[Mapping[str, Any]]:
    """Return the reports in a document; raises UsageError for whatever else it holds."""
    reports = found if isinstance(found, list) else [found]
    if not reports:
        raise UsageError(f"{file}: holds no report")
    for report in reports:
        if isinstance(report, dict) and report.get("format") == FORMAT:
            raise UsageError(f"{file}: is a recording, not a report; {JUDGE_FIRST.format(file)}")
        _refuse_foreign(report, file)
    return reports


def _refuse_foreign(report: Any, file: str) -> None:
    if not isinstance(report, dict) or "schema_version" not in report or "summary" not in report:
        raise UsageError(
            f"{file}: not a gpuscan report: write one with gpuscan run --format json --output report.json"
        )
    version = str(report["schema_version"])
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise UsageError(
            f"{file}: report format {version}, this gpuscan reads {SCHEMA_VERSION}: update gpuscan"
        )
    from jsonschema import Draft202012Validator

    mistakes = list(Draft202012Validator(json.loads(schema("report"))).iter_errors(report))
    if mistakes:
        words = [f"{one.json_path}: {one.message[:200]}" for one in mistakes[:MOST_MISTAKES]]
        raise UsageError(f"{file}: a damaged report: {'; '.join(words)}")


def _chosen(reports: Sequence[Mapping[str, Any]], gpu: str) -> Mapping[str, Any]:
    failing = [
        report for report in reports if any(row["severity"] == "fail" for row in report["findings"])
    ]
    if not failing:
        raise UsageError(
            "nothing failed in this report: no ticket"
            if len(reports) == 1
            else "nothing failed in these reports: no ticket"
        )
    return next((report for report in failing if gpu and ticket.has(report, gpu)), failing[0])
