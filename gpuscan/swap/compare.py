"""`gpuscan diff`: one node judged beside an earlier recording of it, or beside a list of the parts
that it should hold.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan import collectors
from gpuscan import profile as profiles
from gpuscan.engine import judging
from gpuscan.engine.slots import faults
from gpuscan.errors import ProfileError, UsageError
from gpuscan.model import Change, Node, is_unread
from gpuscan.model.identity import machine_of, same_machine
from gpuscan.model.outcome import Report
from gpuscan.profile import yamlfile
from gpuscan.recording import Recording
from gpuscan.swap.changes import Given, changes
from gpuscan.swap.expect import Expected, expectations
from gpuscan.swap.fit import Listed
from gpuscan.swap.parts import listed

LARGEST = 1 << 20
LIST = {  # of expected parts: a serial a slot, or more of it
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "anyOf": [
            {"type": ["string", "integer"]},
            {
                "type": "object",
                "additionalProperties": False,
                "minProperties": 1,
                "properties": {
                    "serial": {"type": ["string", "integer"]},
                    "part_number": {"type": "string"},
                },
            },
        ]
    },
}


class Wish(NamedTuple):
    """What is expected of a swap: the words of `--expect`, and the files of known bad serials,
    expected parts and firmware.
    """

    expected: Sequence[str] = ()
    known_bad: str = ""
    expected_parts: str = ""
    firmware_inventory: str = ""


def compared(
    before: Recording | None,
    after: Recording,
    plan: judging.Plan,
    wish: Wish,
    names: tuple[str, str],
) -> Report:
    """Return the report on *after* with the swap checks; *names* are the files, (before, after),
    that it speaks of.

    Without *before* the list of expected parts says what should be there. Raises UsageError where
    the two cannot be compared, or a file or word of the wish cannot be used.
    """
    expected = expectations(wish.expected)
    bad, wanted = _known_bad(wish.known_bad), _wanted(wish.expected_parts)
    if before is None and not wanted:
        raise UsageError(
            "there is nothing to compare with: name a recording from before the swap, or --expected-parts FILE"
        )
    after = _with_firmware(after, wish.firmware_inventory)
    first, last = None if before is None else collectors.node(before), collectors.node(after)
    if before is not None and first is not None:
        _refuse_strangers(before, after, first, last, expected, names)
    chosen, _ = judging.profile_of(after, last, plan)
    given = Given(
        expected=expected,
        known_bad=bad,
        wanted=wanted,
        faults={}
        if before is None
        else faults(judging.judged(before, names[0], plan._replace(named=chosen))),
        faults_left=faults(judging.judged(after, names[1], plan)),
        slots=tuple(chosen.data["gpu"]["slots"] or ()),
        name_of=lambda label: profiles.silkscreen(chosen, label),
    )
    made = changes(first, last, given)
    report = judging.judged(after, names[1], plan, lambda node: _beside(node, first, made))
    return _told(report, before, after, names, wish, made)


def _beside(node: Node, before: Node | None, made: tuple[Change, ...]) -> Node:
    sources = {f"changes[{change.label}]": _readings(node, change) for change in made}
    node = node._replace(changes=made, sources={**node.sources, **sources})
    return node if before is None else node._replace(before=before)


IDENTITY = {
    "gpu": ("gpus[{}].serial", "gpus[{}].uuid"),
    "nic": ("ports[{}/1].hca_serial", "ports[{}/1].node_guid"),
    "cable": ("ports[{}].far_end",),
    "disk": ("disks[{}].serial",),
    "node": ("host.hostname", "host.bios_version"),
}


def _readings(node: Node, change: Change) -> tuple[str, ...]:
    """Return the readings that tell which part this is."""
    label = (
        getattr(change.after, "label", change.label)
        if change.kind == "gpu" and not is_unread(change.after)
        else change.label
    )
    paths = (path.format(label) for path in IDENTITY.get(change.kind, ("firmware",)))
    return tuple(key for path in paths for key in node.sources.get(path, ()))


def _told(
    report: Report,
    before: Recording | None,
    after: Recording,
    names: tuple[str, str],
    wish: Wish,
    made: Sequence[Change],
) -> Report:
    """Add to the report what it was compared with, and what was found of each part."""
    times = [
        recording.meta.get("made_at") for recording in (before, after) if recording is not None
    ]
    untimed = before is not None and not all(isinstance(time, (int, float)) for time in times)
    with_ = names[0] if before is not None else wish.expected_parts
    others = "every GPU is another one; " if any(change.everywhere for change in made) else ""
    notes = [
        f"compared with {os.path.basename(with_)}: {others}expected to be replaced: {', '.join(wish.expected) or 'nothing'}"
    ]
    notes += (
        ["which of the two recordings is older cannot be told: one of them has no time"]
        if untimed
        else []
    )
    run = report.run | {
        "compared_with": os.fsencode(with_).decode("utf-8", "surrogateescape"),
        "expected": list(wish.expected),
    }
    rows = tuple(row(change) for change in made)
    return report._replace(run=run, notes=(*report.notes, *notes), changes=rows)


TOLD = {
    "gpu": {
        "serial": "serial",
        "uuid": "uuid",
        "part_number": "part_number",
        "vbios": "vbios",
        "inforom": "inforom",
    },
    "nic": {
        "serial": "hca_serial",
        "node_guid": "node_guid",
        "part_number": "hca_part_number",
        "firmware": "firmware",
        "board_id": "board_id",
    },
    "cable": {
        "far_end": "far_end",
        "rate_gbps": "rate_gbps",
        "link_layer": "link_layer",
        "mtu": "mtu",
    },
    "disk": {"serial": "serial", "model": "model", "firmware": "firmware"},
    "node": {"hostname": "hostname", "serial": "serial", "bios_version": "bios_version"},
}


def row(change: Change) -> dict[str, Any]:
    """Return a change as the report tells it: what was not read is null."""
    unread = is_unread(change.what)
    told: dict[str, Any] = {"kind": change.kind, "slot": change.label, "address": change.address}
    told |= {
        "what": "unknown" if unread else change.what,
        "expected": change.expected or change.allowed,
    }
    for when, words in (("before", change.identity_before), ("after", change.identity)):
        record = getattr(change, when)
        facts = (
            {}
            if is_unread(record)
            else {name: getattr(record, fact) for name, fact in TOLD.get(change.kind, {}).items()}
        )
        told[when] = {name: None if is_unread(value) else value for name, value in facts.items()}
        told[when] |= {} if is_unread(words) or not words else {"identity": words}
    return told


def _refuse_strangers(
    before: Recording,
    after: Recording,
    first: Node,
    last: Node,
    expected: Sequence[Expected],
    names: tuple[str, str],
) -> None:
    """Raise UsageError where a comparison would say nothing: the wrong order, no serials, two
    machines.
    """
    times = before.meta.get("made_at"), after.meta.get("made_at")
    if (
        isinstance(times[0], (int, float))
        and isinstance(times[1], (int, float))
        and times[1] < times[0]
    ):
        hours = (times[0] - times[1]) / 3600
        raise UsageError(
            f"{names[1]} is {hours:.1f} hours older than {names[0]}: name the recording from before the swap first"
        )
    for node, name in ((first, names[0]), (last, names[1])):
        if not any(part.ids for part in listed(node, lambda label: "") if part.kind != "cable"):
            raise UsageError(
                f"{name}: holds no serial number, UUID or GUID of a part: nothing can be compared; record it as root"
            )
    if any(one.kind == "tray" for one in expected):
        return
    one, other = machine_of(first), machine_of(last)
    same = same_machine(one, other)
    if same is None:
        lacks = (
            "they have neither DMI serial nor machine id in common to compare, and no GPU's serial"
        )
        raise UsageError(
            f"{names[0]} and {names[1]}: whether they are of one machine cannot be told: {lacks}"
        )
    if not same:
        told = " and ".join(
            f"{m.dmi_serial or m.machine_id} ({m.hostname or 'no name'})" for m in (one, other)
        )
        raise UsageError(
            f"{names[0]} and {names[1]} are of two machines, {told}: with --expect tray=replaced they are compared all the same"
        )


def _with_firmware(recording: Recording, file: str) -> Recording:
    """Return a copy that holds the BMC's list, too."""
    if not file:
        return recording
    from gpuscan.importers import firmware

    copy = Recording(recording.meta, recording.scope, recording)
    firmware.add(copy, firmware.load(file))
    return copy


def _text(file: str, what: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file}: {what} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if len(text) > LARGEST:
        raise UsageError(
            f"{file}: larger than {LARGEST >> 10} KiB, which no {what.removeprefix('the ')} is"
        )
    return text


def _known_bad(file: str) -> frozenset[str]:
    """Return the serials of a list, one a line, in lower case; `#` begins a comment."""
    if not file:
        return frozenset()
    lines = (
        line.partition("#")[0].strip().lower()
        for line in _text(file, "the list of known bad parts").splitlines()
    )
    serials = frozenset(line for line in lines if line)
    strange = next((serial for serial in serials if len(serial.split()) > 1), "")
    if strange or not serials:
        raise UsageError(
            f"{file}: {f'{strange!r} is no serial number' if strange else 'names no serial number'}: write one a line"
        )
    return serials


def _wanted(file: str) -> Mapping[str, Listed]:
    """Return what the list of expected parts says, by slot."""
    if not file:
        return {}
    try:
        data, positions = yamlfile.load(_text(file, "the list of expected parts"), file)
        yamlfile.validate(data, positions, file, LIST)
    except ProfileError as error:
        raise UsageError(f"{error}; write SLOT: SERIAL, a line each") from None
    rows = {
        slot: entry if isinstance(entry, dict) else {"serial": entry}
        for slot, entry in data.items()
    }
    return {
        str(slot): Listed(str(entry.get("serial", "")), str(entry.get("part_number", "")))
        for slot, entry in rows.items()
    }
