"""Structure decides, not text: with every sentence replaced, the verdicts are the same."""

from __future__ import annotations

from typing import Any

import pytest
from faults import FAULTS
from nodes_recordings import NAMES, base, checks, profile_named

from gpuscan import collectors, profile
from gpuscan.engine.blind_spots import find_blind_spots
from gpuscan.engine.case import Case
from gpuscan.engine.conclude import conclude
from gpuscan.engine.examine import run_checks
from gpuscan.engine.hold import hold_after
from gpuscan.engine.stages import STAGES, fit, judge
from gpuscan.model import is_unread
from gpuscan.model.outcome import Result
from gpuscan.model.report_rows import ProfileInfo, RunInfo
from gpuscan.recording import Recording, patch

NOISE = "explained by what is left: not judged, does not apply [noise] gpu:SXM1 (and 3 more)"


def case_of(recording: Recording, name: str = "", settings: Any = (), busy: bool = False) -> Case:
    node = collectors.node(recording)
    name = name or recording.meta.profile or "auto"
    chosen = profile.choose(node, tuple(settings))[0] if name == "auto" else None
    chosen = chosen or profile_named(name, tuple(settings))
    return Case(node, chosen, checks(), run=RunInfo(profile=ProfileInfo(chosen.name)), busy=busy)


def fault_of(name: str) -> Case:
    fault = FAULTS[name]
    recording = patch(base(fault["base"]), fault.get("set", {}), fault.get("log", ()))
    busy = fault.get("context") == "busy"
    return case_of(recording, fault.get("profile", ""), fault.get("settings", ()), busy)


def scramble(value: Any) -> Any:
    """Return a record with noise for the text of every Unread in it."""
    if is_unread(value):
        return value._replace(text=NOISE)
    if hasattr(value, "_fields"):
        return type(value)(*(scramble(item) for item in value))
    return tuple(map(scramble, value)) if type(value) is tuple else value


def disguise(results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Return the results with noise for every sentence in them."""
    return tuple(
        one._replace(
            title=NOISE,
            reason=NOISE,
            findings=tuple(finding._replace(message=NOISE) for finding in one.findings),
            unread=tuple((path, unread._replace(text=NOISE)) for path, unread in one.unread),
        )
        for one in results
    )


def results_of(case: Case, *, noise: bool) -> tuple[Result, ...]:
    """Run the stages, with noise before and after each of them if asked for."""
    if noise:
        case = case._replace(
            node=scramble(case.node),
            checks=tuple(one._replace(title=NOISE, text=NOISE) for one in case.checks),
            notes=(NOISE,),
        )
    case = fit(case)
    results = run_checks(case)
    for stage in STAGES:
        results = stage(case, disguise(results) if noise else results)
    return disguise(results) if noise else results


def essence(case: Case, *, noise: bool) -> tuple[Any, ...]:
    """Return what must not depend on words."""
    results = results_of(case, noise=noise)
    conclusion = conclude(results, optional=case.profile.optional)
    rows = [
        (one.check, one.about, one.status, one.skip_reason, one.explained_by)
        + tuple((f.severity, f.action, f.culprits, f.shared, f.same) for f in one.findings)
        for one in results
    ]
    spots = {(spot.fact, spot.kind) for spot in find_blind_spots(results)}
    held = [(one.check, one.subject, one.code) for one in hold_after(case, results)]
    return conclusion, rows, spots, held


@pytest.mark.parametrize("name", NAMES)
def test_recordings_are_judged_by_structure(name: str) -> None:
    case = case_of(base(name))
    assert results_of(case, noise=False) == judge(case).results
    assert essence(case, noise=True) == essence(case, noise=False)


@pytest.mark.sweep
@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_judged_by_structure(name: str) -> None:
    case = fault_of(name)
    assert essence(case, noise=True) == essence(case, noise=False)
