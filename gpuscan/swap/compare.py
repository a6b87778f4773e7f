"""`gpuscan diff`: judge a node beside an earlier recording, or beside a list of expected parts."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuscan import collectors
from gpuscan import profile as profiles
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.engine.slots import faults
from gpuscan.errors import UsageError
from gpuscan.model import Change, Fact, Node, Seen, is_unread, read_or
from gpuscan.model.change import ComparedRecord
from gpuscan.model.identity import machine_of, same_machine
from gpuscan.model.report_rows import ChangeRow
from gpuscan.recording import Recording
from gpuscan.swap.changes import SwapContext, find_changes
from gpuscan.swap.expect import Expectation, Gaps, parse_expectations
from gpuscan.swap.lists import load_expected_parts, load_known_bad
from gpuscan.swap.parts import list_parts


class SwapOptions(NamedTuple):
    """What the user says of a swap: the texts of `--expect`, and the files that describe parts."""

    expected: Sequence[str] = ()
    known_bad: str = ""
    expected_parts: str = ""
    firmware_inventory: str = ""


def compare_recordings(
    before: Recording | None,
    after: Recording,
    plan: judging.Plan,
    options: SwapOptions,
    names: tuple[str, str],
) -> Report:
    """Return the report on *after*, swap checks included.

    *names* are the files (before, after) as messages name them. Without *before*, the list of
    expected parts says what should be there. Raises UsageError where the recordings cannot be
    compared, or a file or option cannot be used.
    """
    expectations = parse_expectations(options.expected)
    known_bad = load_known_bad(options.known_bad)
    expected_parts = load_expected_parts(options.expected_parts)
    if before is None and not expected_parts:
        raise UsageError(
            "nothing to compare with: name a recording from before the swap, or"
            " --expected-parts FILE"
        )
    after = _with_firmware(after, options.firmware_inventory)
    first, last = None if before is None else collectors.node(before), collectors.node(after)
    if before is not None and first is not None:
        _refuse_wrong_order(before, after, names)
        _refuse_without_identity(first, last, names)
        _refuse_other_machine(first, last, expectations, names)
    chosen, _ = judging.profile_of(after, last, plan)
    context = SwapContext(
        expectations=expectations,
        known_bad=known_bad,
        expected_parts=expected_parts,
        faults=_faults_before(before, names[0], plan._replace(named=chosen)),
        faults_left=faults(judging.judge_recording(after, names[1], plan)),
        gaps=find_gaps(last, chosen),
        name_of=lambda label: profiles.silkscreen(chosen, label),
    )
    changes = find_changes(first, last, context)
    report = judging.judge_recording(
        after, names[1], plan, lambda node: _with_changes(node, first, changes)
    )
    return _describe(report, before, after, names, options, changes)


def find_gaps(node: Node, chosen: profiles.Profile) -> Gaps:
    """Return where parts may be missing, by what the profile expects."""
    ports = (len(read_or(node.ports, ())), chosen.data["infiniband"]["ports"])
    gpus = (len(read_or(node.gpus, ())), chosen.data["gpu"]["count"])
    counts = {"gpu": gpus, "nic": ports, "cable": ports}
    short = {kind for kind, (found, expected) in counts.items() if found < (expected or 0)}
    return Gaps(tuple(chosen.data["gpu"]["slots"] or ()), frozenset(short))


def _faults_before(
    before: Recording | None, name: str, plan: judging.Plan
) -> dict[str, tuple[str, ...]]:
    return {} if before is None else faults(judging.judge_recording(before, name, plan))


def _with_changes(node: Node, before: Node | None, changes: tuple[Change, ...]) -> Node:
    sources = {f"changes[{change.label}]": _identity_keys(node, change) for change in changes}
    node = node._replace(changes=changes, sources={**node.sources, **sources})
    return node if before is None else _with_before(node, before)


def _with_before(node: Node, before: Node) -> Node:
    """Return the node beside an earlier one of the same machine: its ports know if they were up."""
    was_up = {port.label for port in read_or(before.ports, ()) if port.state == "ACTIVE"}
    ports = tuple(
        port._replace(seen_up=True) if port.label in was_up else port
        for port in read_or(node.ports, ())
    )
    beside = tuple(port._replace(peers=ports) for port in ports)
    return node._replace(before=before, ports=node.ports if is_unread(node.ports) else beside)


IDENTITY = {
    "gpu": ("gpus[{}].serial", "gpus[{}].uuid"),
    "nic": ("ports[{}/1].hca_serial", "ports[{}/1].node_guid"),
    "cable": ("ports[{}].far_end",),
    "disk": ("disks[{}].serial",),
    "node": ("host.hostname", "host.bios_version"),
}


def _identity_keys(node: Node, change: Change) -> tuple[str, ...]:
    """Return the keys of the readings that identify the part."""
    label = change.label
    if change.kind == "gpu" and not is_unread(change.after):
        label = getattr(change.after, "label", label)
    paths = [path.format(label) for path in IDENTITY.get(change.kind, ("firmware",))]
    return tuple(key for path in paths for key in node.sources.get(path, ()))


def _describe(
    report: Report,
    before: Recording | None,
    after: Recording,
    names: tuple[str, str],
    options: SwapOptions,
    changes: Sequence[Change],
) -> Report:
    """Add to the report what was compared, and what became of each part."""
    reference = names[0] if before is not None else options.expected_parts
    everywhere = any(change.everywhere for change in changes)
    parsed = parse_expectations(options.expected)
    replaced = ", ".join(each.text for each in parsed if not each.reseated) or "nothing"
    back = ", ".join(each.text.partition("=")[0] for each in parsed if each.reseated)
    notes = [
        f"compared with {os.path.basename(reference)}:"
        f"{' every GPU was replaced;' if everywhere else ''} expected to be replaced: {replaced}"
        f"{f', to be reseated: {back}' if back else ''}"
    ]
    if before is not None and not (_has_time(before) and _has_time(after)):
        notes.append("one of the two recordings has no time: their order could not be checked")
    run = report.run._replace(
        compared_with=os.fsencode(reference).decode("utf-8", "surrogateescape"),
        expected=tuple(options.expected),
    )
    rows = tuple(row_of(change) for change in changes)
    return report._replace(run=run, notes=(*report.notes, *notes), changes=rows)


def _has_time(recording: Recording) -> bool:
    return recording.meta.made_at is not None


REPORTED = {
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


SEEN = {"serial": "serial", "part_number": "part_number"}  # of a part known from earlier runs only


def row_of(change: Change) -> ChangeRow:
    """Return a change as the report lists it; what was not read is None."""
    return ChangeRow(
        kind=change.kind,
        slot=change.label,
        address=change.address,
        what=read_or(change.what, "unknown"),
        expected=change.expected or change.allowed,
        before=_compared(change.kind, change.before, change.identity_before),
        after=_compared(change.kind, change.after, change.identity),
        reseated=change.reseated,
    )


def _compared(kind: str, record: Fact[ComparedRecord], identity: Fact[str]) -> dict[str, Any]:
    """Return what was read of a compared part, by the keys of its kind; empty without a part."""
    compared: dict[str, Any] = {}
    facts = SEEN if isinstance(record, Seen) else REPORTED.get(kind, {})
    if not is_unread(record):
        for key, fact in facts.items():
            compared[key] = read_or(getattr(record, fact), None)
    if not is_unread(identity) and identity:
        compared["identity"] = identity
    return compared


def _refuse_wrong_order(before: Recording, after: Recording, names: tuple[str, str]) -> None:
    if not (_has_time(before) and _has_time(after)):
        return
    hours = ((before.meta.made_at or 0.0) - (after.meta.made_at or 0.0)) / 3600
    if hours > 0:
        raise UsageError(
            f"{names[1]} is {hours:.1f} hours older than {names[0]}: name the recording from"
            " before the swap first"
        )


def _refuse_without_identity(first: Node, last: Node, names: tuple[str, str]) -> None:
    for node, name in ((first, names[0]), (last, names[1])):
        parts = list_parts(node, lambda label: "")
        if not any(part.ids for part in parts if part.kind != "cable"):
            raise UsageError(
                f"{name}: contains no serial number, UUID or GUID of any part, so parts cannot be"
                " told apart: record the node as root"
            )


def _refuse_other_machine(
    first: Node, last: Node, expectations: Sequence[Expectation], names: tuple[str, str]
) -> None:
    if any(each.kind == "tray" and not each.reseated for each in expectations):
        return
    machines = machine_of(first), machine_of(last)
    same = same_machine(*machines)
    if same is None:
        raise UsageError(
            f"{names[0]} and {names[1]}: cannot tell whether they are of one machine: they share"
            " no DMI serial, machine id or GPU serial that could be compared"
        )
    if not same:
        one, other = (
            f"{machine.dmi_serial or machine.machine_id} ({machine.hostname or 'no name'})"
            for machine in machines
        )
        raise UsageError(
            f"{names[0]} and {names[1]} are of two machines, {one} and {other}: if the tray was"
            " replaced, add --expect tray=replaced"
        )


def _with_firmware(recording: Recording, file: str) -> Recording:
    """Return a copy of the recording that holds the BMC's firmware list, too."""
    if not file:
        return recording
    from gpuscan.importers import firmware

    copy = Recording(recording.meta, recording.scope, recording)
    firmware.add_firmware(copy, firmware.load_firmware(file))
    return copy
