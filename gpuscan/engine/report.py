"""The report: all results of one judgement, and the conclusion that follows from them."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from gpuscan.engine.blame import Target
from gpuscan.engine.conclude import Circumstance, Conclusion, conclude
from gpuscan.model.host import Host
from gpuscan.model.kernel import Driver, Incident
from gpuscan.model.outcome import Action, Result, exit_code
from gpuscan.model.past import Held
from gpuscan.model.proof import ProofRow, Proposal
from gpuscan.model.report_rows import (
    BlindSpot,
    ChangeRow,
    Measurement,
    NotJudged,
    ReportPart,
    RunInfo,
)


class ReportFields(NamedTuple):
    """What a report is made of; *held* is the hold that stands after it, *hold_told* the sentence
    on it once it is stored, *swap_left* the ticket of a swap that this run does not prove,
    *partial* what of the node was not judged, *proof* what became of each fault that it was
    held for, *proposed* what would exercise those that nothing did.

    *optional* and *circumstances* are for the conclusion: see `conclude`.
    """

    run: RunInfo
    host: Host
    software: Driver
    parts: tuple[ReportPart, ...]
    results: tuple[Result, ...]
    blind_spots: tuple[BlindSpot, ...] = ()
    notes: tuple[str, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    held: tuple[Held, ...] = ()
    incidents: tuple[Incident, ...] = ()
    changes: tuple[ChangeRow, ...] = ()
    optional: frozenset[str] = frozenset()
    circumstances: frozenset[Circumstance] = frozenset()
    hold_told: str = ""
    swap_left: str = ""
    partial: tuple[NotJudged, ...] = ()
    proof: tuple[ProofRow, ...] = ()
    proposed: Proposal | None = None


class Report(ReportFields):
    """All results of one judgement.

    Verdict, exit code, completeness, action and targets are derived from the fields and cannot be
    set; `_replace` returns a report that concludes anew.
    """

    @cached_property
    def conclusion(self) -> Conclusion:
        """Return what follows from the results."""
        return conclude(
            self.results,
            circumstances=self.circumstances | self._narrowed(),
            optional=self.optional,
            fail_on=self.run.fail_on or "",
            parts=self.parts,
            kinds={row.slot: row.kind for row in self.changes},
        )

    def _narrowed(self) -> frozenset[Circumstance]:
        """Return the circumstance that a part was judged where the whole was asked for."""
        narrowed = self.run.require_full and self.partial
        return frozenset({Circumstance.PARTIAL}) if narrowed else frozenset()

    @property
    def verdict(self) -> str:
        """Return pass, warn, incomplete, software, reboot or hardware."""
        return self.conclusion.verdict

    @property
    def exit_code(self) -> int:
        """Return the exit code in full style."""
        return self.conclusion.exit_code

    @property
    def complete(self) -> bool:
        """Return whether all that the profile expects was read, within the scope."""
        return self.conclusion.complete

    @property
    def action(self) -> Action:
        """Return the heaviest action among the failures."""
        return self.conclusion.action

    @property
    def targets(self) -> tuple[Target, ...]:
        """Return the parts that the action is for, empty where it is for the node as a whole."""
        return self.conclusion.targets


def worst_exit_code(reports: Sequence[Report], style: str = "full") -> int:
    """Return the exit code of the worst report in an exit style.

    The worst is found in full style: in others, "not known" has a higher number than a failure.
    """

    def codes(report: Report) -> tuple[int, int]:
        counts = report.run.fail_on == "warn"
        styled = exit_code(report.verdict, report.exit_code, style, fail_on_warn=counts)
        return report.exit_code, styled

    return max(codes(report) for report in reports)[1]
