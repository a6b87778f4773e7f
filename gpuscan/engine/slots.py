"""Faults by the slot that they show in: one that outlives the part that was in it is not that
part's.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuscan.engine.report import Report
from gpuscan.model import Change
from gpuscan.model.outcome import Action, Finding, Result, Status

SETTINGS = (Action.FIX_CONFIG,)  # what the work on a node leaves behind is no fault of its parts
SUSPECT = "the part before it in this slot had the same fault, so the slot, the baseboard or a cable is suspected"


class _Place(NamedTuple):
    address: str
    fault: str


def fault_name(result: Result) -> str:
    """Return what makes two failures one fault: the check, and of an incident what was logged (Xid
    48 is not Xid 79).
    """
    logged = result.subject.startswith("incident:")
    return f"{result.check}, {result.subject[9:].partition(' on ')[0]}" if logged else result.check


def faults(report: Report) -> dict[str, tuple[str, ...]]:
    """Return the faults of each part, by its address: its own failures, and those of the node that
    blame it.
    """
    slots = {part["slot"]: part["address"] for part in report.parts}
    found: dict[str, list[str]] = {}
    for result in report.results:
        findings = [
            f for f in result.findings if f.severity is Status.FAIL and f.action not in SETTINGS
        ]
        places = {slots[name] for finding in findings for name in finding.culprits if name in slots}
        for address in {result.address, *places} - {None} if findings else ():
            found.setdefault(str(address), []).append(fault_name(result))
    return {address: tuple(names) for address, names in found.items()}


def of_the_slot(results: tuple[Result, ...], changes: Iterable[Change]) -> tuple[Result, ...]:
    """Where a new part shows the fault of the one before it, no part is to be replaced once more:
    the slot is to be looked at.
    """
    stayed = {
        _Place(change.address, fault)
        for change in changes
        if change.new is True
        for fault in change.faults_left
    }
    if not stayed:
        return results
    return tuple(
        _lowered(r) if r.address and _Place(r.address, fault_name(r)) in stayed else r
        for r in results
    )


def _lowered(result: Result) -> Result:
    return result._replace(findings=_inspected(result.findings))


def _inspected(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(
        finding._replace(action=Action.INSPECT, message=f"{finding.message}; {SUSPECT}")
        if finding.action is Action.REPLACE
        else finding
        for finding in findings
    )
