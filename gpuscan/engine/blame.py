"""Whom a finding blames: the parts that something has to be done to, and what each is known by."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from gpuscan.model.outcome import Finding, Result
from gpuscan.model.report_rows import ReportPart
from gpuscan.model.subject import NODE

Parts = Sequence[ReportPart]
NO_KINDS: Mapping[str, str] = MappingProxyType({})
IDENTITY = ("address", "serial", "part_number")


class Target(NamedTuple):
    """A part that something has to be done to: `gpu:SXM3`, and what it is known by, as far as it
    was read.
    """

    subject: str
    address: str | None
    serial: str | None
    part_number: str | None


def find_targets(
    result: Result, finding: Finding, parts: Parts, kinds: Mapping[str, str] = NO_KINDS
) -> list[Target]:
    """Return the parts that a finding is about, none where it is about the node as a whole.

    *kinds* are those of compared parts, by slot.

    The culprits are named as GPUs or ports are; an incident or a test is no part, but happened to
    the one at its address.
    """
    if finding.culprits:
        return [_culprit(name, result.check, parts) for name in finding.culprits]
    kind, name = result.about.kind, result.about.label
    if kind == NODE.kind or (kind == "test" and not result.address):
        return []  # a test of all GPUs at once is the node's
    part = (
        _at_address(parts, result.address)
        if kind in ("incident", "change", "test")
        else _in_slot(parts, name)
    )
    return [_target(part, f"{kinds.get(name, kind)}:{name}", result.address)]


def _culprit(name: str, check: str, parts: Parts) -> Target:
    """Return the part of a name; an HCA that is gone goes by its address, which no port does."""
    address = name if ":" in name else None
    kind = ("nic" if address else "port") if check.startswith("infiniband.") else "gpu"
    return _target(_in_slot(parts, name), f"{kind}:{name}", address)


def _in_slot(parts: Parts, slot: str) -> ReportPart | None:
    return next((part for part in parts if slot and part.slot == slot), None)


def _at_address(parts: Parts, address: str | None) -> ReportPart | None:
    return next((part for part in parts if address and part.address == address), None)


def _target(part: ReportPart | None, subject: str, address: str | None) -> Target:
    """Return a part as a target; *subject* and *address* are for one that is not listed."""
    if part is None:
        return Target(subject, address, None, None)
    subject = f"{part.kind}:{part.slot}"
    if part.kind == "gpu":
        return Target(subject, part.address, part.serial, part.part_number)
    return Target(subject, part.address, part.serial if part.kind == "disk" else None, None)
