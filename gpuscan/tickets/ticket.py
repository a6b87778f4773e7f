"""A ticket for a part that failed: what an RMA needs, from a report's JSON and what is known
around it; pure.
"""

import calendar
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from gpuscan.catalogue import policy
from gpuscan.durations import format_utc
from gpuscan.errors import UsageError, near_misses
from gpuscan.model.outcome import ACTIONS, Action

VERSION = "1.0"
FORMATS = ("text", "markdown", "json")
MACHINE = (
    "hostname",
    "vendor",
    "product",
    "board",
    "serial",
    "board_serial",
    "chassis_serial",
    "bios_version",
    "kernel",
    "os",
)
PARTS: dict[str, tuple[str, ...]] = {
    "gpu": (
        "slot", "silkscreen", "physical_slot", "address", "name", "serial", "part_number", "uuid", "device_id", "vbios",
        "inforom", "gsp_firmware", "memory_mib", "access", "nvml_index",
    ),
    "port": ("slot", "address", "board_id", "firmware"),
}  # fmt: skip
OTHER_NAMES = ("serial", "uuid", "physical_slot", "silkscreen", "nvml_index")
DIAGNOSTIC = re.compile(r"field[ -]?diag|fieldiag", re.IGNORECASE)
POWER_CYCLE = re.compile(r"power[ -]cycle|cold start", re.IGNORECASE)
NO_DIAGNOSTIC = "not run: gpuscan cannot run NVIDIA's field diagnostic; NVIDIA asks for its log"
NO_POWER_CYCLE = "not known: no timeline tells of one, and a newer boot does not prove it"
NODE = "node"


def build(
    document: Mapping[str, Any],
    gpu: str,
    timeline: Sequence[Mapping[str, Any]],
    holders: Sequence[Mapping[str, Any]] | None,
    files: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the ticket for one part of a report (its JSON document); raises UsageError where there
    is nothing to tell.

    *gpu* names the part (slot, address, UUID, serial, index); empty: the one with the heaviest
    action, or the node. *timeline* rows: {at, kind, text, subject}; *files*: {name, bytes, sha256,
    made_at}; *holders* None: not looked at.
    """
    failed = [finding for finding in document["findings"] if finding["severity"] == "fail"]
    if not failed:
        raise UsageError("nothing failed in this report: no ticket")
    part = _named(document, failed, gpu) if gpu else _heaviest(document, failed)
    mine = [finding for finding in failed if _is_of(finding, part)]
    if not mine:
        others = ", ".join(dict.fromkeys(_subject(_owner(document, finding)) for finding in failed))
        raise UsageError(
            f"--gpu {gpu}: nothing failed on {_subject(part)}: no ticket; what failed is on {others}"
        )
    action = max((Action(finding["action"]) for finding in mine), key=lambda one: one.rank)
    rows = _timeline(document, part, mine, timeline)
    return {
        "schema_version": VERSION,
        "subject": _subject(part),
        "action": action.value,
        "todo": ACTIONS[action].todo,
        "proof": ACTIONS[action].proof,
        "report": _report(document),
        "machine": {key: document["host"].get(key) for key in (*MACHINE, "virtual")},
        "driver": {
            key: document["software"].get(key)
            for key in ("module_version", "flavour", "cuda_version")
        },
        "part": None
        if part is None
        else {
            "kind": part["kind"],
            **{key: part.get(key) for key in PARTS.get(part["kind"], part)},
        },
        "findings": [_finding(document, finding) for finding in mine],
        "also_failed": [_briefly(document, finding) for finding in failed if finding not in mine],
        "policy": policy.general_policy()._asdict(),
        "timeline": rows,
        "last_power_cycle": _latest(rows, POWER_CYCLE) or NO_POWER_CYCLE,
        "field_diagnostic": _latest(rows, DIAGNOSTIC) or NO_DIAGNOSTIC,
        "holders": None if holders is None else [dict(row) for row in holders],
        "files": [dict(row) for row in files],
    }


def render(ticket: Mapping[str, Any], format: str) -> str:  # the word that the option has  # noqa: A002
    """Return a ticket as text, markdown or json; raises UsageError for another format."""
    from gpuscan.renderers import ticket as forms

    ways = {"text": forms.text, "markdown": forms.markdown, "json": forms.json_}
    if format not in ways:
        raise UsageError(
            f"unknown format '{format}': {near_misses(format, list(FORMATS), 'formats')}"
        )
    return ways[format](ticket)


def _subject(part: Mapping[str, Any] | None) -> str:
    return NODE if part is None else f"{part['kind']}:{part['slot']}"


def _parts(
    document: Mapping[str, Any], failed: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the parts that were read, and those that only a failure names: an empty slot has no
    other record.
    """
    parts = list(document["parts"])
    seen = {name for part in parts for name in (part["slot"], part["address"])}
    gone = dict.fromkeys(
        name
        for finding in failed
        for name in (*finding["culprits"], *_empty_slots(finding))
        if name not in seen
    )
    return parts + [{"kind": "gpu", "slot": name, "address": None} for name in gone]


def _empty_slots(finding: Mapping[str, Any]) -> list[str]:
    if finding["check"] != "inventory.slots" or not isinstance(finding["expected"], list):
        return []
    return [slot for slot in finding["expected"] if slot not in (finding["observed"] or ())]


def _is_of(finding: Mapping[str, Any], part: Mapping[str, Any] | None) -> bool:
    """Tell whether a finding is about a part; the node's own are those that name no part."""
    if part is None:
        return _is_of_no_part(finding)
    names = (*finding["culprits"], *_empty_slots(finding))
    at = finding["address"] is not None and finding["address"] == part["address"]
    return at or finding["subject"] == _subject(part) or part["slot"] in names


def _is_of_no_part(finding: Mapping[str, Any]) -> bool:
    """Some of the driver's lines name no GPU: what they tell of is the node's, too."""
    subject = finding["subject"]
    return not finding["culprits"] and (
        subject == NODE or (subject.startswith("incident:") and not finding["address"])
    )


def _owner(document: Mapping[str, Any], finding: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the part that a finding is about, the first of several; None for the node."""
    if _is_of_no_part(finding):
        return None
    known = next((part for part in _parts(document, [finding]) if _is_of(finding, part)), None)
    if known is not None:
        return known
    kind, _, name = finding["subject"].partition(":")
    if kind == "incident":  # of a part that is gone: its address is left
        kind, name = "gpu", finding["address"]
    return {"kind": kind, "slot": name, "address": finding["address"]}


def _heaviest(
    document: Mapping[str, Any], failed: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    owned = [(_owner(document, finding), finding) for finding in failed]
    return max(owned, key=lambda pair: (Action(pair[1]["action"]).rank, pair[0] is not None))[0]


def _named(
    document: Mapping[str, Any], failed: Sequence[Mapping[str, Any]], name: str
) -> Mapping[str, Any]:
    """Return the part that *name* names; raises UsageError with near misses for none or several."""
    from gpuscan.engine.judging import gpus_named

    word = gpus_named(name)[0].lower()
    parts = _parts(document, failed)
    parts += [
        owner
        for finding in failed
        for owner in [_owner(document, finding)]
        if owner is not None and owner not in parts
    ]
    hits = [
        part
        for part in parts
        if word in (part["slot"].lower(), part["address"], _subject(part).lower())
    ]
    hits = hits or [
        part
        for part in parts
        if word in [str(part[key]).lower() for key in OTHER_NAMES if part.get(key) is not None]
    ]
    if not hits:
        known = [part["slot"] for part in parts] + [
            part["address"] for part in parts if part["address"]
        ]
        raise UsageError(
            f"--gpu {name}: no such part in this report; {near_misses(name, list(dict.fromkeys(known)), 'parts')}"
        )
    if len(hits) > 1:
        told = " and ".join(f"{_subject(part)} ({part['address']})" for part in hits)
        raise UsageError(f"--gpu {name}: names {told}: give a slot or an address")
    return hits[0]


def _report(document: Mapping[str, Any]) -> dict[str, Any]:
    run, summary = document["run"], document["summary"]
    told = {
        key: run.get(key)
        for key in ("started_at", "recording", "gpuscan_version", "synthetic", "drill")
    }
    verdict = {key: summary[key] for key in ("headline", "verdict", "exit_code", "complete")}
    return {**told, **verdict, "profile": run["profile"]["name"]}


def _finding(document: Mapping[str, Any], finding: Mapping[str, Any]) -> dict[str, Any]:
    known = policy.find_policy(finding["check"], _incident_entry(document, finding))
    keys = (
        "check",
        "subject",
        "message",
        "action",
        "urgency",
        "impact",
        "observed",
        "expected",
        "culprits",
        "source",
    )
    return {
        **{key: finding.get(key) for key in keys},
        "read_at": document["run"]["started_at"],
        "happened_at": _happened(document, finding),
        "policy": known._asdict()
        if known
        else {"key": None, "text": None, "source": finding.get("source") or ""},
        "evidence": [dict(row) for row in finding.get("evidence", ())],
    }


def _incident_entry(document: Mapping[str, Any], finding: Mapping[str, Any]) -> str:
    """Return the catalogue entry of the incident that a finding is about, "" for any other."""
    subjects = {f"incident:{row['label']}": row for row in document.get("incidents", ())}
    return str(subjects.get(finding["subject"], {}).get("entry", ""))


def _happened(document: Mapping[str, Any], finding: Mapping[str, Any]) -> str | None:
    """Return when an incident's first line was logged (UTC, to a second or so), where boot and
    uptime are known.
    """
    label = finding["subject"].partition(":")[2]
    stamps = [one.get("first_s") for one in document.get("incidents", ()) if one["label"] == label]
    since_s = [stamp for stamp in stamps if stamp is not None]
    started, uptime_s = document["run"]["started_at"], document["host"].get("uptime_s")
    if (
        not finding["subject"].startswith("incident:")
        or not since_s
        or not started
        or uptime_s is None
    ):
        return None
    at_s = calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ")) - uptime_s + since_s[0]
    return format_utc(at_s)


def _briefly(document: Mapping[str, Any], finding: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "subject": _subject(_owner(document, finding)),
        **{key: finding[key] for key in ("check", "message", "action")},
    }


def _timeline(
    document: Mapping[str, Any],
    part: Mapping[str, Any] | None,
    mine: Sequence[Mapping[str, Any]],
    timeline: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return what happened to this part and its node, and what this report found, in the order of
    time.
    """
    subjects = (None, NODE, _subject(part), *(finding["subject"] for finding in mine))
    rows = [dict(row) for row in timeline if row.get("subject") in subjects]
    told = {(row["kind"], row["at"]) for row in rows}
    for finding in mine:
        at = _happened(document, finding) or document["run"]["started_at"]
        if ("fault", at) not in told:
            rows.append(
                {
                    "at": at,
                    "kind": "fault",
                    "text": f"{finding['check']}: {finding['message']}",
                    "subject": _subject(part),
                }
            )
    return sorted(rows, key=lambda row: row["at"] or "")


def _latest(rows: Sequence[Mapping[str, Any]], words: re.Pattern[str]) -> str:
    """Return the last thing that was tried and is called so, with its time."""
    hits = [row for row in rows if row["kind"] == "tried" and words.search(row["text"])]
    return f"{hits[-1]['at']}: {hits[-1]['text']}" if hits else ""


def has(document: Mapping[str, Any], gpu: str) -> bool:
    """Tell whether something failed in a report on the part that *gpu* names."""
    failed = [finding for finding in document["findings"] if finding["severity"] == "fail"]
    try:
        part = _named(document, failed, gpu)
    except UsageError:
        return False
    return any(_is_of(finding, part) for finding in failed)
