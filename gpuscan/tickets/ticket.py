"""A ticket for a failed part: what an RMA needs, from a report's JSON and what lies next to it."""

import calendar
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.catalogue import policy
from gpuscan.durations import format_utc
from gpuscan.engine.steps import kind_of, sentences
from gpuscan.errors import UsageError, near_misses
from gpuscan.model.outcome import Action
from gpuscan.model.proof import Outcome, ProofRow
from gpuscan.model.subject import Subject, parse_subject
from gpuscan.tickets.parts import (
    NODE,
    Document,
    Finding,
    Part,
    failures,
    find_heaviest,
    find_named,
    find_owner,
    is_about,
    subject_of,
)

VERSION = "1.0"
FORMATS = ("text", "markdown", "json")
MACHINE = (
    "hostname", "vendor", "product", "board", "serial", "board_serial", "chassis_serial",
    "bios_version", "kernel", "os", "virtual",
)  # fmt: skip
DRIVER = ("module_version", "flavour", "cuda_version")
PARTS: dict[str, tuple[str, ...]] = {
    "gpu": (
        "slot", "silkscreen", "physical_slot", "address", "name", "serial", "part_number", "uuid",
        "device_id", "vbios", "inforom", "gsp_firmware", "memory_mib", "access", "nvml_index",
    ),
    "port": ("slot", "address", "board_id", "firmware"),
}  # fmt: skip
FINDING = (
    "check", "subject", "message", "action", "urgency", "impact", "observed", "expected",
    "culprits", "source",
)  # fmt: skip
PROOF = ("at", *(name for name in ProofRow._fields if name != "unproven"))
BY_STATE, SEEN = Outcome.BY_STATE.value, Outcome.SEEN.value
DIAGNOSTIC = re.compile(r"field[ -]?diag|fieldiag", re.IGNORECASE)
POWER_CYCLE = re.compile(r"power[ -]cycle|cold start", re.IGNORECASE)
NO_DIAGNOSTIC = "not run: gpuscan cannot run NVIDIA's field diagnostic; NVIDIA asks for its log"
NO_POWER_CYCLE = "unknown: no timeline mentions one, and a newer boot does not prove it"
Row = Mapping[str, Any]


OF_VENDOR = policy.Policy(
    "vendor", "NVIDIA's policy is for its GPUs: ask this part's vendor what a return needs.", ""
)


class TicketInput(NamedTuple):
    """What a ticket is made of: a report's JSON document, and what was kept next to it.

    *timeline* rows: {at, kind, text, subject}; *holders*: processes that hold the device files,
    None where nobody looked; *files*: {name, bytes, sha256, made_at}; *proofs*: what earlier runs
    came to as proofs, as a report has it, each with its time.
    """

    document: Document
    timeline: Sequence[Row] = ()
    holders: Sequence[Row] | None = None
    files: Sequence[Row] = ()
    proofs: Sequence[Row] = ()


def build_ticket(source: TicketInput, gpu: str = "") -> dict[str, Any]:
    """Return the ticket for one part of a report, as JSON data.

    *gpu* names the part (slot, address, UUID, serial, NVML index). Without a name it is the part
    with the heaviest action, or the node. Raises UsageError where nothing failed on it.
    """
    document = source.document
    failed = failures(document)
    if not failed:
        raise UsageError("nothing failed in this report: no ticket")
    part = find_named(document, failed, gpu) if gpu else find_heaviest(document, failed)
    own = [finding for finding in failed if is_about(finding, part)]
    if not own:
        others = [subject_of(find_owner(document, finding)) for finding in failed]
        raise UsageError(
            f"--gpu {gpu}: nothing failed on {subject_of(part)}: no ticket; what failed is on"
            f" {', '.join(dict.fromkeys(others))}"
        )
    worst = max(own, key=lambda finding: Action(finding["action"]).rank)
    action, kind = Action(worst["action"]), _kind(document, worst)
    told = sentences(kind, action)
    timeline = _timeline(document, part, own, source.timeline)
    host, software = document["host"], document["software"]
    return {
        "schema_version": VERSION,
        "subject": subject_of(part),
        "action": action.value,
        "todo": told.todo,
        "proof": told.proof,
        "report": _report(document),
        "machine": {key: host.get(key) for key in MACHINE},
        "driver": {key: software.get(key) for key in DRIVER},
        "part": _part(part),
        "findings": [_finding(document, finding) for finding in own],
        "also_failed": [_brief(document, finding) for finding in failed if finding not in own],
        "exercised": _exercised(document, part, source.proofs),
        "policy": (OF_VENDOR if kind else policy.general_policy())._asdict(),
        "timeline": timeline,
        "last_power_cycle": _last_tried(timeline, POWER_CYCLE) or NO_POWER_CYCLE,
        "field_diagnostic": _last_tried(timeline, DIAGNOSTIC) or NO_DIAGNOSTIC,
        "holders": None if source.holders is None else [dict(row) for row in source.holders],
        "files": [dict(row) for row in source.files],
    }


def render_ticket(ticket: Mapping[str, Any], format_: str) -> str:
    """Return a ticket as text, markdown or json; raises UsageError for another format."""
    from gpuscan.renderers import ticket as renderer

    renderers = {"text": renderer.text, "markdown": renderer.markdown, "json": renderer.json_}
    if format_ not in renderers:
        hint = near_misses(format_, list(FORMATS), "formats")
        raise UsageError(f"unknown format '{format_}': {hint}")
    return renderers[format_](ticket)


def _report(document: Document) -> dict[str, Any]:
    run, summary = document["run"], document["summary"]
    about = ("started_at", "recording", "gpuscan_version", "synthetic", "drill")
    verdict = ("headline", "verdict", "exit_code", "complete")
    return {
        **{key: run.get(key) for key in about},
        **{key: summary[key] for key in verdict},
        "profile": run["profile"]["name"],
        "partial": [dict(row) for row in document.get("partial", ())],
    }


def _part(part: Part | None) -> dict[str, Any] | None:
    if part is None:
        return None
    facts = PARTS.get(part["kind"], tuple(part))
    return {"kind": part["kind"], **{key: part.get(key) for key in facts}}


def _finding(document: Document, finding: Finding) -> dict[str, Any]:
    incident = _incident(document, finding)
    known = policy.find_policy(finding["check"], str(incident.get("entry", "")))
    unknown = {"key": None, "text": None, "source": finding.get("source") or ""}
    return {
        **{key: finding.get(key) for key in FINDING},
        "read_at": document["run"]["started_at"],
        "happened_at": _happened_at(document, incident),
        "policy": known._asdict() if known else unknown,
        "evidence": [dict(row) for row in finding.get("evidence", ())],
    }


def _kind(document: Document, finding: Finding) -> str:
    """Return the kind of part that a finding asks to work on, "" for a GPU."""
    entry = str(_incident(document, finding).get("entry", ""))
    return kind_of(finding["check"], parse_subject(finding["subject"]).kind, entry)


def _incident(document: Document, finding: Finding) -> Row:
    """Return the incident that a finding is about, an empty row for any other finding."""
    for incident in document.get("incidents", ()):
        if parse_subject(finding["subject"]) == Subject("incident", incident["label"]):
            return dict(incident)
    return {}


def _happened_at(document: Document, incident: Row) -> str | None:
    """Return when an incident's first line was logged (UTC, to about a second).

    None for another finding, or where the time since boot is unknown.
    """
    started, uptime_s = document["run"]["started_at"], document["host"].get("uptime_s")
    first_s = incident.get("first_s")
    if first_s is None or not started or uptime_s is None:
        return None
    started_s = calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ"))
    return format_utc(started_s - uptime_s + first_s)


def _exercised(document: Document, part: Part | None, stored: Sequence[Row]) -> list[Row]:
    """Return what the newest proof of each fault of this part came to: what was exercised, how
    much, beside what, and how sure that makes.
    """
    at = document["run"]["started_at"]
    newest: dict[str, Row] = {}
    for row in (*stored, *({"at": at, **row} for row in document.get("proof", ()))):
        is_mine = row["subject"] == subject_of(part) and row["outcome"] != BY_STATE
        says_more = row["seconds"] or row["outcome"] == SEEN or row["check"] not in newest
        if is_mine and says_more:
            newest[row["check"]] = {name: row[name] for name in PROOF if name in row}
    return list(newest.values())


def _brief(document: Document, finding: Finding) -> dict[str, Any]:
    facts = {key: finding[key] for key in ("check", "message", "action")}
    return {"subject": subject_of(find_owner(document, finding)), **facts}


def _timeline(
    document: Document, part: Part | None, own: Sequence[Finding], stored: Sequence[Row]
) -> list[dict[str, Any]]:
    """Return what happened to this part and its node, and what this report found, in order."""
    subjects = (None, NODE, subject_of(part), *(finding["subject"] for finding in own))
    rows = [dict(row) for row in stored if row.get("subject") in subjects]
    known = {(row["kind"], row["at"]) for row in rows}
    for finding in own:
        happened_at = _happened_at(document, _incident(document, finding))
        at = happened_at or document["run"]["started_at"]
        if ("fault", at) not in known:
            text = f"{finding['check']}: {finding['message']}"
            rows.append({"at": at, "kind": "fault", "text": text, "subject": subject_of(part)})
    return sorted(rows, key=lambda row: row["at"] or "")


def _last_tried(rows: Sequence[Row], pattern: re.Pattern[str]) -> str:
    """Return the last matching work that was tried, with its time; "" where there is none."""
    matches = [row for row in rows if row["kind"] == "tried" and pattern.search(row["text"])]
    return f"{matches[-1]['at']}: {matches[-1]['text']}" if matches else ""
