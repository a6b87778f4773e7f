"""`gpuscan history`: stored runs and faults by part, as a table, JSON or JSON lines."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpuscan.durations import parse_moment
from gpuscan.engine.case import HOLD_ALIASES
from gpuscan.engine.judging import all_checks
from gpuscan.engine.suite import aliases
from gpuscan.errors import UsageError, near_misses
from gpuscan.model.subject import parse_subject
from gpuscan.state import footprint
from gpuscan.state.archive import Archive
from gpuscan.state.exercised import told_proofs
from gpuscan.state.place import state_dir
from gpuscan.text import printable

Row = dict[str, Any]
HEAD = "time (UTC)        host  code verdict  profile  level  finding"


def open_archive(folder: str) -> Archive:
    """Open the archive for reading; raises StateError where there is none or it is unreadable."""
    return Archive(state_dir(folder), write=False)


def load_runs(folder: str, since: str, part: str, check: str) -> list[Row]:
    """Return the runs since a moment, newest first, with their findings.

    *part* (slot or serial) and *check* (area, id or glob) keep only runs with such findings. A
    check that was renamed has its current id, and answers to its old ones as well.
    """
    archive, since_s = open_archive(folder), parse_moment("--since", since)
    stored, proofs = archive.runs(since_s), _proofs(archive, since_s)
    checks = all_checks()
    renamed = aliases(checks) | HOLD_ALIASES
    if check:
        _refuse_unknown(check, [each.id for each in checks], renamed, stored)
    runs = []
    for run in stored:
        findings = [
            {**row, "check_id": renamed.get(row["check_id"], row["check_id"])}
            for row in run["findings"]
            if _matches(row, part, check, renamed)
        ]
        proof = [
            row
            for row in proofs.get((run["machine"], run["at"]), ())
            if _matches({**row, "check_id": row["check"]}, part, check, renamed)
        ]
        if findings or proof or not (part or check):
            runs.append({**run, "findings": findings, "proof": proof})
    return runs


def _proofs(archive: Archive, since_s: float) -> dict[tuple[str, float], list[Row]]:
    """Return what runs came to as proofs, by machine and time of the run."""
    found: dict[tuple[str, float], list[Row]] = {}
    for row in told_proofs(archive.proofs(since_s)):
        found.setdefault((row["machine"], row["at"]), []).append(row)
    return found


def _refuse_unknown(
    check: str, ids: list[str], renamed: Mapping[str, str], stored: list[Row]
) -> None:
    """Raise UsageError for a selector that fits no check, neither of today's nor a stored one."""
    found = {row["check_id"] for run in stored for row in run["findings"]}
    known = {*ids, *renamed, *found}
    areas = {each.split(".")[0] for each in known}
    if check not in areas and not any(fnmatchcase(each, check) for each in known):
        hint = near_misses(check, sorted({*ids, *areas}), "checks")
        raise UsageError(f"--check {check}: no such check or area; {hint}")


def _matches(finding: Row, part: str, check: str, renamed: Mapping[str, str]) -> bool:
    subject = finding["subject"].lower()
    names = ("", subject, parse_subject(subject).label, finding["serial"].lower())
    if part.lower() not in names:
        return False
    stored = finding["check_id"]
    current = renamed.get(stored, stored)
    if not check or check == current.split(".")[0]:
        return True
    ids = {stored, current, *(old for old, new in renamed.items() if new == current)}
    return any(fnmatchcase(each, check) for each in ids)


def render_runs(folder: str, since: str, part: str, check: str, format_: str) -> str:
    """Return the runs as a table, or as JSON."""
    runs = load_runs(folder, since, part, check)
    if format_ == "json":
        return json.dumps(runs, indent=1) + "\n"
    lines = []
    for run in runs:
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(run["at"]))
        verdict = f"{run['exit_code']:>2} {run['verdict']}"
        told = re.sub(rf"^{re.escape(run['verdict'])} \(\d+\)(: |; )?", "", run["headline"])
        scope = run["level"] if run["full"] else f"{run['level']}, not whole"
        row = (at, run["hostname"] or "-", verdict, run["profile"], scope, told)
        lines.append("  ".join(row).rstrip())
        if part or check:
            lines += [
                f"{'':18}{row['severity']}  {row['subject']}  {row['check_id']}: {row['message']}"
                for row in run["findings"]
            ]
        lines += [f"{'':18}proof  {row['told']}" for row in run["proof"]]
    if not lines:
        return "no stored run matches\n"
    table = [HEAD, *lines, footprint.told(footprint.measure(folder))]
    return "".join(f"{printable(line)}\n" for line in table)


def export_lines(folder: str, since: str) -> Iterator[str]:
    """Yield one JSON line for each run (its whole report), then for each part and event."""
    archive = open_archive(folder)
    since_s = parse_moment("--since", since)
    for run in archive.reports(since_s):
        yield json.dumps({"kind": "run", **run}) + "\n"
    tables = (("part", archive.all_parts(since_s)), ("event", archive.all_events(since_s)))
    for kind, rows in tables:
        for row in rows:
            columns = {("what" if name == "kind" else name): row[name] for name in row}
            yield json.dumps({"kind": kind, **columns}) + "\n"
