"""Changes that no single part explains: the node itself, BMC firmware, lists that were not read."""

import re
from collections.abc import Sequence
from typing import Any

from gpuscan.model import Change, Compared, Node, Unread, is_unread
from gpuscan.swap import fit
from gpuscan.swap.fit import NOTHING

NUMBER = re.compile(r"\d+")
TABLES = ("versions", "marks", "settings", "wear", "counters", "rate", "faults", "faults_left")


def unread_change(kind: str, label: str, unread: Unread) -> Change:
    """Return the change of a kind of part that was not listed: nothing is known of it."""
    value = fit.required(unread) if kind == "gpu" else unread
    facts = (*TABLES, "what", "new", "known_bad", "identity", "identity_before")
    unread_facts: Any = dict.fromkeys(facts, value)
    return blank_change(kind, label, **unread_facts)


def blank_change(kind: str, label: str, **facts: Any) -> Change:
    """Return a change of something that is not a replaceable part by itself."""
    tables: Any = dict.fromkeys(TABLES, ())
    flags: Any = dict.fromkeys(("expected", "allowed", "new", "everywhere", "known_bad"), False)
    texts: Any = dict.fromkeys(("moved_from", "moved_to", "identity_before", "identity"), "")
    records: Any = {"before": NOTHING, "after": NOTHING}
    place = {"label": label, "address": label, "kind": kind, "what": "same"}
    return Change(**{**place, **tables, **flags, **texts, **records, **facts})


def compare_node(before: Node, after: Node, *, allowed: bool) -> Change:
    """Return what became of the node itself: host name and BIOS, where they were read before."""
    first, last = before.host, after.host
    names = ({"host name": last.hostname}, {"host name": first.hostname})
    bios = ({"BIOS": last.bios_version}, {"BIOS": first.bios_version})
    return blank_change(
        "node",
        "node",
        allowed=allowed,
        marks=fit.compare_with(*names, "before it was"),
        versions=fit.compare_with(*bios, "before it was"),
        before=first,
        after=last,
    )


def compare_firmware(after: Node) -> list[Change]:
    """Return one record for each group of BMC firmware whose ids differ only in their numbers."""
    groups: dict[str, list[Any]] = {}
    for item in () if is_unread(after.firmware) else after.firmware:
        if item.version != "":  # the BMC gave no version
            groups.setdefault(NUMBER.sub("#", item.label), []).append(item)
    return [
        blank_change("firmware", f"firmware {label}", versions=_firmware_versions(items))
        for label, items in groups.items()
        if len(items) > 1 and any(not is_unread(item.version) for item in items)
    ]


def _firmware_versions(items: Sequence[Any]) -> tuple[Compared, ...]:
    read = [item.version for item in items if not is_unread(item.version)]
    usual = max(read, key=read.count)
    return tuple(
        Compared(item.label, item.version, usual, "most of its kind have") for item in items
    )
