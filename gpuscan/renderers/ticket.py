"""Tickets: text for mail and terminals, Markdown for trackers, JSON for programs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from textwrap import fill
from typing import Any, NamedTuple

from gpuscan.engine.partial import told
from gpuscan.model.report_rows import NotJudged
from gpuscan.model.subject import parse_subject
from gpuscan.renderers import proof
from gpuscan.renderers.folding import ranges
from gpuscan.text import as_json, printable

WIDTH = 78  # tickets are pasted into mail and forms
LONGEST = 300  # characters of one value or sentence; the JSON has all of it
MOST_READINGS, MOST_FACTS = 2, 10  # listed; the others are counted
PLACEHOLDERS = (
    "",
    "none",
    "not specified",
    "default string",
    "to be filled by o.e.m.",
    "system serial number",
    "0",
)
LABELS = {
    "serial": "serial", "board_serial": "board serial", "chassis_serial": "chassis serial",
    "bios_version": "BIOS", "os": "OS", "part_number": "part number", "uuid": "UUID",
    "vbios": "VBIOS", "inforom": "InfoROM", "gsp_firmware": "GSP firmware",
    "memory_mib": "memory (MiB)", "device_id": "PCI device id", "address": "PCI address",
    "physical_slot": "chassis slot", "nvml_index": "NVML index", "board_id": "board id (PSID)",
    "name": "model",
}  # fmt: skip
WHERE = {
    "serial": "see gpuscan history, the label on the part or its chassis, or the BMC's inventory",
    "part_number": "see a sibling of the same model, the label on the part, or the BMC's inventory",
    "uuid": "see gpuscan history",
}
CHASSIS = "see the label on the chassis, or the BMC"
NVIDIA = "https://docs.nvidia.com/"
PAGE = re.compile(rf"({NVIDIA}[\w./#-]*)", re.ASCII)
OPTIONAL = ("silkscreen", "physical_slot", "nvml_index")  # many machines have none of these


class TicketLine(NamedTuple):
    """One line of a ticket; *code* marks a value that is not prose."""

    label: str
    text: str
    code: bool = False


Section = tuple[str, list[TicketLine]]


def json_(ticket: Mapping[str, Any]) -> str:
    """Return the ticket as JSON."""
    return as_json(ticket, indent=1) + "\n"


def text(ticket: Mapping[str, Any]) -> str:
    """Return the ticket as text of at most WIDTH columns, longer words excepted."""
    blocks = []
    for title, entries in _sections(ticket):
        entries = [entry._replace(label=printable(entry.label)) for entry in entries]
        wide = max([len(entry.label) for entry in entries] or [0])
        labels = [
            entry.label if entry.label != before.label else ""
            for before, entry in pairwise([TicketLine("", ""), *entries])
        ]
        heads = [f"  {label:<{wide}}  " if wide else "  " for label in labels]
        lines = [_wrapped(head, entry.text) for head, entry in zip(heads, entries, strict=True)]
        blocks.append("\n".join([_wrapped("", title, hang=4), *lines]))
    return "\n\n".join(blocks) + "\n"


def _wrapped(head: str, words: str, hang: int = 0) -> str:
    return fill(
        printable(words),
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * (hang or len(head)),
        break_long_words=False,
        break_on_hyphens=False,
    )


def markdown(ticket: Mapping[str, Any]) -> str:
    """Return the ticket as Markdown: one heading a section, one list item an entry."""
    blocks: list[str] = []
    for title, entries in _sections(ticket):
        lines = [
            f"- {f'**{_plain(entry.label)}**: ' if entry.label else ''}{_marked(entry)}"
            for entry in entries
        ]
        blocks.append("\n".join([f"{'##' if blocks else '#'} {_plain(title)}", "", *lines]))
    return "\n\n".join(blocks) + "\n"


def _marked(entry: TicketLine) -> str:
    return f"`{printable(entry.text).replace('`', chr(39))}`" if entry.code else _plain(entry.text)


def _plain(words: str) -> str:
    """Escape Markdown: evidence must not create links, mentions, headings, tables or HTML.

    NVIDIA's own pages stay links.
    """
    return "".join(
        part if part.startswith(NVIDIA) else _escaped(part) for part in PAGE.split(printable(words))
    )


def _escaped(words: str) -> str:
    words = re.sub(r"([\\`*<>\[\]|&~#]|(?<!\w)_|_(?!\w))", r"\\\1", words)
    words = re.sub(r"(?i)\b(https?|ftps?|file|mailto|javascript|data)(?=:)", r"\1\\", words)
    words = re.sub(r"(?i)\bwww(?=\.)", r"www\\", words)
    return re.sub(r"@(?=\w)", "`@`", words)


def _sections(ticket: Mapping[str, Any]) -> Iterator[Section]:
    yield f"Ticket: {_named(ticket['subject'])}: {ticket['action']}", _head(ticket)
    if ticket["part"]:
        yield "Part", _part(ticket["part"])
    yield "Machine", _machine(ticket)
    for number, finding in enumerate(ticket["findings"], 1):
        yield f"Finding {number}: {_short(finding['message'])}", _finding(finding)
    if ticket["exercised"]:
        yield "Proof: was the fault exercised since?", _exercised(ticket["exercised"])
    policy = ticket["policy"]
    yield (
        "NVIDIA's policy",
        [
            TicketLine("", policy["text"]),
            *([TicketLine("", f"Source: {policy['source']}")] if policy["source"] else []),
        ],
    )
    yield "Timeline", _timeline(ticket)
    yield "Processes that hold the GPUs (a reset needs them free)", _holders(ticket["holders"])
    yield "Files", _files(ticket["files"])
    if ticket["also_failed"]:
        yield "Also failed on this node", [_other(row) for row in ticket["also_failed"]]


def _named(subject: str) -> str:
    about = parse_subject(subject)
    return f"{about.kind} {about.label}".rstrip()


def _head(ticket: Mapping[str, Any]) -> list[TicketLine]:
    report = ticket["report"]
    partly = "" if report["complete"] else "; some facts could not be read"
    partial = told(NotJudged(row["what"], row["why"]) for row in report["partial"])
    partly += f"; partial: {'; '.join(partial)}" if partial else ""
    entries = [
        TicketLine("to do", ticket["todo"]),
        TicketLine("then", ticket["proof"]),
        TicketLine(
            "verdict",
            f"{report['verdict']} (exit code {report['exit_code']}), profile {report['profile']}"
            f"{partly}",
        ),
        TicketLine(
            "judged",
            f"{report['started_at'] or 'at an unknown time'}, gpuscan {report['gpuscan_version']}",
        ),
    ]
    kinds = {
        "synthetic": "these readings are from no real machine",
        "drill": "the fault was injected on purpose",
    }
    return [
        TicketLine("beware", f"{why}: do not send this ticket")
        for key, why in kinds.items()
        if report[key]
    ] + entries


def _part(part: Mapping[str, Any]) -> list[TicketLine]:
    rows = [
        (key, value)
        for key, value in part.items()
        if key != "kind" and not (key in OPTIONAL and value is None)
    ]
    return [_fact(key, value, WHERE.get(key, "")) for key, value in rows]


def _machine(ticket: Mapping[str, Any]) -> list[TicketLine]:
    machine, driver = ticket["machine"], ticket["driver"]
    rows = [(key, value) for key, value in machine.items() if key not in ("virtual", "container")]
    entries = [_fact(key, value, CHASSIS if "serial" in key else "") for key, value in rows]
    flavour = f" ({driver['flavour']} kernel module)" if driver["flavour"] else ""
    entries.append(
        _fact(
            "driver",
            f"{driver['module_version']}{flavour}" if driver["module_version"] else None,
            "",
        )
    )
    if machine["virtual"]:
        entries.append(
            TicketLine(
                "virtual",
                "yes: these serials are the hypervisor's; its owner knows chassis and power",
            )
        )
    return entries


def _fact(key: str, value: Any, where: str) -> TicketLine:
    label = LABELS.get(key, key.replace("_", " "))
    hint = f": {where}" if where else ""
    if value is None:
        return TicketLine(label, f"not read{hint}")
    if "serial" in key and str(value).strip().lower() in PLACEHOLDERS:
        return TicketLine(label, f'never set ("{value}"){hint}')
    return TicketLine(label, _short(str(value)), code=True)


def _finding(finding: Mapping[str, Any]) -> list[TicketLine]:
    policy = finding["policy"]
    happened = f"; first logged about {finding['happened_at']}" if finding["happened_at"] else ""
    asked = f"{finding['action']}, {finding['urgency']}; impact: {finding['impact']}"
    entries = [
        TicketLine("check", f"{finding['check']} on {_named(finding['subject'])}"),
        TicketLine("action", asked),
        TicketLine("read at", f"{finding['read_at'] or 'unknown'}{happened}"),
    ]
    for word in ("observed", "expected"):
        if finding[word] is not None:
            entries.append(TicketLine(word, _short(_value(finding[word])), code=True))
    facts = _evidence(finding["evidence"])
    entries += [TicketLine("evidence", line, code=True) for line in facts[:MOST_FACTS]]
    if len(facts) > MOST_FACTS:
        entries.append(
            TicketLine("evidence", f"and {len(facts) - MOST_FACTS} more facts: see the report")
        )
    if policy["text"]:
        entries.append(TicketLine("policy", policy["text"]))
    return entries + ([TicketLine("source", policy["source"])] if policy["source"] else [])


def _exercised(rows: Sequence[Mapping[str, Any]]) -> list[TicketLine]:
    """Tell what was exercised, how much, beside what, and how sure that makes."""
    return [
        TicketLine(row["at"] or "unknown", _short(words))
        for row in rows
        for words in proof.sentences(proof.parse(row))
    ]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def _evidence(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line a fact; equal facts of numbered links are folded into one."""
    folded: dict[tuple[str, str], tuple[list[int], list[str]]] = {}
    for row in rows:
        hit = re.search(r"\[(\d{1,4})\]", row["fact"])
        stem = row["fact"].replace(hit[0], "[{}]", 1) if hit else row["fact"]
        numbers, keys = folded.setdefault((stem, _short(_value(row["value"]))), ([], []))
        numbers += [int(hit[1])] if hit else []
        keys += [key for key in row["readings"] if key not in keys]
    return [_evident(stem, value, *found) for (stem, value), found in folded.items()]


def _evident(stem: str, value: str, numbers: Sequence[int], keys: Sequence[str]) -> str:
    fact = stem.replace("{}", ranges(sorted(numbers))) if numbers else stem
    more = f" and {len(keys) - MOST_READINGS} more" if len(keys) > MOST_READINGS else ""
    return (
        f"{fact} = {value}, from {', '.join(keys[:MOST_READINGS])}{more}"
        if keys
        else f"{fact} = {value}"
    )


def _timeline(ticket: Mapping[str, Any]) -> list[TicketLine]:
    rows = [
        TicketLine(row["at"] or "unknown", f"{row['kind']}: {_short(row['text'])}")
        for row in ticket["timeline"]
    ]
    last = [
        TicketLine("last power cycle", ticket["last_power_cycle"]),
        TicketLine("field diagnostic", ticket["field_diagnostic"]),
    ]
    return rows + last


def _holders(holders: Sequence[Mapping[str, Any]] | None) -> list[TicketLine]:
    if holders is None:
        return [TicketLine("", "not recorded; on the node, run as root: fuser -v /dev/nvidia*")]
    return [_holder(row) for row in holders] or [TicketLine("", "none")]


def _holder(row: Mapping[str, Any]) -> TicketLine:
    if "error" in row:
        return TicketLine("not seen", row["error"])
    devices = ", ".join(row["files"])
    return TicketLine(
        f"pid {row['pid']}",
        f"{row['name']} of user {row['user']} has {devices} open; to end it: {row['ends_with']}",
    )


def _files(files: Sequence[Mapping[str, Any]]) -> list[TicketLine]:
    return [TicketLine(str(number), _file(row)) for number, row in enumerate(files, 1)] or [
        TicketLine("", "none")
    ]


def _file(row: Mapping[str, Any]) -> str:
    made = (
        f"{row['bytes']} bytes, {row['made_at']}, SHA-256 {row['sha256']}"
        if "sha256" in row
        else ""
    )
    return f"{row['name']}: {'; '.join(word for word in (row.get('error', ''), made) if word)}"


def _other(row: Mapping[str, Any]) -> TicketLine:
    return TicketLine(
        _named(row["subject"]), f"{_short(row['message'])} ({row['check']}: {row['action']})"
    )


def _short(words: str) -> str:
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}… (truncated)"
