"""What every format tells of a report as a whole: its headline, and the parts that the action is for."""

from typing import Any, NamedTuple

from gpuscan.outcome import Finding, Report, Result, Status

IDENTITY = ("address", "serial", "part_number")


class Target(NamedTuple):
    """A part that something has to be done to: `gpu:SXM3`, and what it is known by, as far as it was read."""

    subject: str
    address: str | None
    serial: str | None
    part_number: str | None


def headline(report: Report) -> str:
    """Return the verdict, and the worst failure, in one line."""
    failed = [(r, f) for r in report.results for f in r.findings if f.severity is Status.FAIL]
    worst = max(failed, key=lambda pair: pair[1].action.rank, default=None)
    what = f": {worst[0].subject.replace(':', ' ', 1)} {worst[0].check} -> {worst[1].action.value}" if worst else ""
    more = f" (+{len(failed) - 1})" if len(failed) > 1 else ""
    return f"{report.verdict} ({report.exit_code}){what}{more}"


def targets(report: Report) -> tuple[Target, ...]:
    """Return the parts that the node's action is for; none where it is for the node as a whole."""
    found: dict[str, Target] = {}
    for result in report.results:
        for finding in result.findings:
            if finding.severity is Status.FAIL and finding.action is report.action:
                found |= {target.subject: target for target in _blamed(result, finding, report.parts)}
    return tuple(found.values())


def _blamed(result: Result, finding: Finding, parts: tuple[dict[str, Any], ...]) -> list[Target]:
    """The culprits are named as cards or ports are; an incident is no part, but happened to the one at its address."""
    if finding.culprits:
        named = [_part(parts, "slot", name) for name in finding.culprits]
        return [_target(part or {}, f"gpu:{name}") for part, name in zip(named, finding.culprits, strict=True)]
    if result.subject == "node":
        return []
    kind, _, name = result.subject.partition(":")
    part = _part(parts, "address", result.address) if kind == "incident" else _part(parts, "slot", name)
    return [_target(part or {"address": result.address}, result.subject)]


def _part(parts: tuple[dict[str, Any], ...], key: str, value: str | None) -> dict[str, Any] | None:
    return next((part for part in parts if value and part[key] == value), None)


def _target(part: dict[str, Any], otherwise: str) -> Target:
    subject = f"{part['kind']}:{part['slot']}" if "kind" in part else otherwise
    return Target(subject, *(part.get(word) for word in IDENTITY))
