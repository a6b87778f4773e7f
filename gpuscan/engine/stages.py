"""A judgement from end to end: run the checks, pass their results through the stages, report.

Read this module first. Each stage takes the case and the results, and returns the results with one
thing settled; none sets a verdict, which the report concludes from the results (`conclude`).
"""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout

from gpuscan.engine.blind_spots import find_blind_spots
from gpuscan.engine.case import Case, with_current_ids
from gpuscan.engine.escalation import escalate, tag_faults
from gpuscan.engine.examine import run_checks
from gpuscan.engine.explain import explain_echoes
from gpuscan.engine.fitting import fit_to_node, require_facts
from gpuscan.engine.hold import apply_holds, asleep_notes, hold_after
from gpuscan.engine.naming import name_codes
from gpuscan.engine.pairs import blame_common_end
from gpuscan.engine.partial import find_partial
from gpuscan.engine.proof import (
    mark_unproven,
    proof_rows,
    tell_unproven,
    unproven_notes,
    with_proof,
)
from gpuscan.engine.proposing import propose_proof
from gpuscan.engine.report import Report
from gpuscan.engine.reported import parts_of
from gpuscan.engine.shared import mark_shared_cause
from gpuscan.engine.slots import blame_slot
from gpuscan.engine.unmatched import fold_open_expectations
from gpuscan.model import read_or
from gpuscan.model.outcome import Result

Results = tuple[Result, ...]
Stage = Callable[[Case, Results], Results]

STAGES: tuple[Stage, ...] = (
    explain_echoes,  # what a failed check explains is skipped: one lost GPU is one finding
    name_codes,  # a finding names the Xids that it explains: people look for them
    fold_open_expectations,  # a machine without a profile is one unknown, not one a check
    blame_common_end,  # of failing pairs of GPUs, blame the GPU that they have in common
    mark_shared_cause,  # a fault of half of the GPUs is no fault of each: nothing is replaced
    tag_faults,  # note what tells one fault of a check from another, for later runs
    escalate,  # a fault that is back after its action was carried out asks for the next action
    blame_slot,  # a fault that outlived its part is the slot's
    tell_unproven,  # what a proof was to exercise and did not is unknown
    apply_holds,  # a hold that an earlier run set fails this one, unless it is lifted
)


def fit(case: Case) -> Case:
    """Return the case with the profile as it holds for its node, and with today's ids in it."""
    case = with_current_ids(case)
    return case._replace(profile=require_facts(fit_to_node(case.profile, case.node), case.node))


def judge(case: Case) -> Report:
    """Return the report on one node; pure: the same case gives the same report."""
    case = fit(case)
    with redirect_stdout(sys.stderr):  # standard output is the report's: checks may print
        results = run_checks(case)
    for stage in STAGES:
        results = stage(case, results)
    rows = proof_rows(case.node, results)
    held = with_proof(hold_after(case, results), rows, case.node)
    proof = mark_unproven(case.node, rows, held)
    return Report(
        run=case.run,
        host=case.node.host,
        software=case.node.driver,
        parts=parts_of(case.node),
        results=results,
        blind_spots=find_blind_spots(results),
        notes=(
            *case.notes,
            *asleep_notes(held),
            *unproven_notes(proof),
        ),
        incidents=read_or(case.node.incidents, ()),
        held=held,
        optional=case.profile.optional,
        circumstances=case.circumstances,
        partial=find_partial(case.left_out, results),
        proof=proof,
        proposed=propose_proof(case, held, proof),
    )
