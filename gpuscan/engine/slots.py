"""Faults by the slot that they show in: one that outlives the part that was in it is not that
part's.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpuscan.engine.case import Case
from gpuscan.engine.report import Report
from gpuscan.model import read_or
from gpuscan.model.outcome import Action, Finding, Result, Status

SETTINGS = (Action.FIX_CONFIG,)  # what the work on a node leaves behind is no fault of its parts
SUSPECT = (
    "the part before it in this slot had the same fault, so the slot, the baseboard or a cable is"
    " suspected"
)


class _Place(NamedTuple):
    address: str
    fault: str


def fault_name(result: Result) -> str:
    """Return what makes two failures one fault: the check, and of an incident its entry.

    Xid 48 is not Xid 79: `xid.fatal, xid:48`.
    """
    entry = result.about.entry
    return f"{result.check}, {entry}" if entry else result.check


def faults(report: Report) -> dict[str, tuple[str, ...]]:
    """Return the faults of each part, by its address: its own failures, and those of the node that
    blame it.
    """
    slots = {part.slot: part.address for part in report.parts}
    found: dict[str, list[str]] = {}
    for result in report.results:
        findings = [
            f for f in result.findings if f.severity is Status.FAIL and f.action not in SETTINGS
        ]
        places = {slots[name] for finding in findings for name in finding.culprits if name in slots}
        for address in {result.address, *places} - {None} if findings else ():
            found.setdefault(str(address), []).append(fault_name(result))
    return {address: tuple(names) for address, names in found.items()}


def blame_slot(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Ask for an inspection of the slot where a new part shows the fault of the one before it."""
    stayed = {
        _Place(change.address, fault)
        for change in read_or(case.node.changes, ())
        if change.new is True
        for fault in change.faults_left
    }
    return tuple(
        (
            one._replace(findings=_inspected(one.findings))
            if one.address and _Place(one.address, fault_name(one)) in stayed
            else one
        )
        for one in results
    )


def _inspected(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(
        (
            finding._replace(action=Action.INSPECT, message=f"{finding.message}; {SUSPECT}")
            if finding.action is Action.REPLACE
            else finding
        )
        for finding in findings
    )
