"""Which part a finding is about, and which part the user means; from a report's JSON."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuscan.errors import UsageError, near_misses
from gpuscan.model.outcome import Action
from gpuscan.model.subject import parse_subject

Document = Mapping[str, Any]
Finding = Mapping[str, Any]
Part = Mapping[str, Any]
NODE = "node"
# Stored reports carry no marks of their checks: the one whose findings list the expected slots has
# to be known by its id, which load_input has brought up to date.
SLOTS_CHECK = "inventory.slots"
OTHER_NAMES = ("serial", "uuid", "physical_slot", "silkscreen", "nvml_index")


def failures(document: Document) -> list[Finding]:
    """Return the findings that failed."""
    return [finding for finding in document["findings"] if finding["severity"] == "fail"]


def subject_of(part: Part | None) -> str:
    """Return `gpu:SXM6`, or `node` for no part."""
    return NODE if part is None else f"{part['kind']}:{part['slot']}"


def is_about(finding: Finding, part: Part | None) -> bool:
    """Return whether a finding is about this part; None is the node, without any of its parts."""
    if part is None:
        return _names_no_part(finding)
    same_address = finding["address"] is not None and finding["address"] == part["address"]
    named = part["slot"] in (*finding["culprits"], *_empty_slots(finding))
    return same_address or named or finding["subject"] == subject_of(part)


def _names_no_part(finding: Finding) -> bool:
    """Some lines of the driver name no GPU: such an incident is the node's, too."""
    if finding["culprits"]:
        return False
    kind = parse_subject(finding["subject"]).kind
    return kind == NODE or (kind == "incident" and not finding["address"])


def _empty_slots(finding: Finding) -> list[str]:
    """Return the slots that were expected to hold a GPU and hold none."""
    expected, observed = finding["expected"], finding["observed"] or ()
    if finding["check"] != SLOTS_CHECK or not isinstance(expected, list):
        return []
    return [slot for slot in expected if slot not in observed]


def _all_parts(document: Document, failed: Iterable[Finding]) -> list[Part]:
    """Return the parts that were read, and those that only a failure names, as an empty slot."""
    parts = list(document["parts"])
    known = {name for part in parts for name in (part["slot"], part["address"])}
    named = [name for finding in failed for name in (*finding["culprits"], *_empty_slots(finding))]
    missing = dict.fromkeys(name for name in named if name not in known)
    return parts + [{"kind": "gpu", "slot": name, "address": None} for name in missing]


def find_owner(document: Document, finding: Finding) -> Part | None:
    """Return the first part that a finding is about; None for the node."""
    if _names_no_part(finding):
        return None
    for part in _all_parts(document, [finding]):
        if is_about(finding, part):
            return part
    about, address = parse_subject(finding["subject"]), finding["address"]
    if about.kind == "incident":  # of a GPU that is gone: only its address is left
        return {"kind": "gpu", "slot": address, "address": address}
    return {"kind": about.kind, "slot": about.label, "address": address}


def find_heaviest(document: Document, failed: Sequence[Finding]) -> Part | None:
    """Return the part with the heaviest action, a part before the node."""

    def weight(pair: tuple[Part | None, Finding]) -> tuple[int, bool]:
        part, finding = pair
        return Action(finding["action"]).rank, part is not None

    return max(((find_owner(document, each), each) for each in failed), key=weight)[0]


def find_named(document: Document, failed: Sequence[Finding], name: str) -> Part:
    """Return the part that the user names: slot, address, UUID, serial or NVML index.

    Raises UsageError, with near misses, where none or several match.
    """
    from gpuscan.engine.judging import parse_gpu_names

    wanted = parse_gpu_names(name)[0].lower()
    parts = _all_parts(document, failed)
    for finding in failed:
        owner = find_owner(document, finding)
        if owner is not None and owner not in parts:
            parts.append(owner)
    matches = _by_place(wanted, parts) or _by_other_name(wanted, parts)
    if not matches:
        places = [part["slot"] for part in parts]
        places += [part["address"] for part in parts if part["address"]]
        hint = near_misses(name, list(dict.fromkeys(places)), "parts")
        raise UsageError(f"--gpu {name}: no such part in this report; {hint}")
    if len(matches) > 1:
        found = " and ".join(f"{subject_of(part)} ({part['address']})" for part in matches)
        raise UsageError(f"--gpu {name}: matches {found}: give a slot or a PCI address")
    return matches[0]


def _by_place(wanted: str, parts: Iterable[Part]) -> list[Part]:
    return [
        part
        for part in parts
        if wanted in (part["slot"].lower(), part["address"], subject_of(part).lower())
    ]


def _by_other_name(wanted: str, parts: Iterable[Part]) -> list[Part]:
    return [
        part
        for part in parts
        if wanted in [str(part[key]).lower() for key in OTHER_NAMES if part.get(key) is not None]
    ]


def has_failed(document: Document, gpu: str) -> bool:
    """Return whether something failed on the part that *gpu* names."""
    failed = failures(document)
    try:
        part = find_named(document, failed, gpu)
    except UsageError:
        return False
    return any(is_about(finding, part) for finding in failed)
