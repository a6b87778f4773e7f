"""Whom a finding blames: the parts that something has to be done to, and what each is known by."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuscan.model.outcome import Finding, Result
from gpuscan.model.subject import NODE

Parts = Sequence[dict[str, Any]]
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


def blamed(
    result: Result, finding: Finding, parts: Parts, kinds: Mapping[str, str] = NO_KINDS
) -> list[Target]:
    """Return the parts that a finding is about, none where it is about the node as a whole.

    *kinds* are those of compared parts, by slot.

    The culprits are named as GPUs or ports are; an incident or a test is no part, but happened to
    the one at its address.
    """
    if finding.culprits:
        named = [_part(parts, "slot", name) for name in finding.culprits]
        return [
            _target(part or {}, f"gpu:{name}")
            for part, name in zip(named, finding.culprits, strict=True)
        ]
    kind, name = result.about.kind, result.about.label
    if kind == NODE.kind or (kind == "test" and not result.address):
        return []  # a test of all GPUs at once is the node's
    part = (
        _part(parts, "address", result.address)
        if kind in ("incident", "change", "test")
        else _part(parts, "slot", name)
    )
    return [_target(part or {"address": result.address}, f"{kinds.get(name, kind)}:{name}")]


def _part(parts: Parts, key: str, value: str | None) -> dict[str, Any] | None:
    return next((part for part in parts if value and part[key] == value), None)


def _target(part: dict[str, Any], otherwise: str) -> Target:
    subject = f"{part['kind']}:{part['slot']}" if "kind" in part else otherwise
    return Target(subject, *(part.get(word) for word in IDENTITY))
