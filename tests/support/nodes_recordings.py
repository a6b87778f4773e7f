"""The recordings that tests judge: committed files, the demo, and the synthetic variants, each by
one name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

from nodes_synthetic import VARIANTS
from paths import RECORDINGS

from gpuscan import collectors, profile
from gpuscan.engine import stages, suite
from gpuscan.engine.case import Case
from gpuscan.engine.report import Report
from gpuscan.files import bundled, site_config_path
from gpuscan.importers.load import open_recording
from gpuscan.model import Node
from gpuscan.model.outcome import ACTIONS, Action, Result, Status
from gpuscan.model.report_rows import ProfileInfo, RunInfo
from gpuscan.recording import Recording, load

FOLDER = RECORDINGS
FILES = {path.name.removesuffix(".json.gz"): path for path in sorted(FOLDER.glob("*.json.gz"))}
NAMES = ("demo", *FILES, *VARIANTS)


@cache
def base(name: str) -> Recording:
    """One recording; shared, so never to be changed: `patch` returns a copy."""
    if name in VARIANTS:
        return VARIANTS[name]()
    return load(str(FILES[name])) if name in FILES else open_recording(name)


@cache
def checks() -> tuple[suite.Check, ...]:
    """The bundled checks."""
    return suite.load([bundled("checks")])


@cache
def profile_named(name: str, settings: tuple[str, ...] = ()) -> profile.Profile:
    """A bundled profile, with `--set` changes."""
    return profile.load(name, settings)


def judged(
    recording: Recording,
    profile_name: str = "",
    settings: Sequence[str] = (),
    *,
    busy: bool = False,
) -> Report:
    """The report on a recording by the profile named, else by its own, else by the one that
    matches (`auto`).
    """
    name = profile_name or (recording.meta.profile or "auto")
    return judged_facts(collectors.node(recording), name, tuple(settings), busy=busy)


def judged_facts(
    node: Node, profile_name: str, settings: tuple[str, ...] = (), *, busy: bool = False
) -> Report:
    """The report on a node's facts."""
    auto = profile_name == "auto"
    chosen = profile.choose(node, settings)[0] if auto else profile_named(profile_name, settings)
    return stages.judge(
        Case(node, chosen, checks(), run=RunInfo(profile=ProfileInfo(chosen.name)), busy=busy)
    )


def told(result: Result) -> str:
    """A result in one word: `unknown`, or `fail/replace` with the heaviest action that it asks
    for.
    """
    if not result.findings:
        return result.status.value
    heaviest = max((finding.action for finding in result.findings), key=lambda action: action.rank)
    return f"{result.status.value}/{heaviest.value}"


def not_passed(report: Report) -> dict[str, dict[str, str]]:
    """What failed, warned or is unknown: {check: {subject: status/action}}."""
    wrong: dict[str, dict[str, str]] = {}
    for result in report.results:
        if result.status not in (Status.PASS, Status.SKIP):
            wrong.setdefault(result.check, {})[result.subject] = told(result)
    return wrong


def skipped(report: Report) -> dict[str, set[str]]:
    """The reasons of what was skipped, by check."""
    reasons: dict[str, set[str]] = {}
    for result in report.results:
        if result.status is Status.SKIP:
            reasons.setdefault(result.check, set()).add(result.reason)
    return reasons


def exit_of(action: str) -> int:
    """The exit code that a failure with this action leads to."""
    return ACTIONS[Action(action)].exit_code


def site_pins_a_profile() -> bool:
    """Tell whether this machine pins a profile: then `auto` is not the tests' to try."""
    return os.path.exists(site_config_path())
