"""The conclusion: one table from results to exit codes, what must hold for any results, and that
nothing else sets a verdict.
"""

from __future__ import annotations

import ast
from typing import Any

import pytest
from building import failing, plain, report_of
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT

from gpuscan.engine.conclude import Circumstance, conclude, worst_action
from gpuscan.engine.report import worst_exit_code
from gpuscan.engine.suite import WARN_ONLY
from gpuscan.model import Unread
from gpuscan.model.outcome import (
    ACTIONS,
    EXIT_STYLES,
    Action,
    Result,
    SkipReason,
    Status,
    exit_code,
)
from gpuscan.model.report_rows import RunInfo

PASS, WARN, FAIL, UNKNOWN, SKIP = Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN, Status.SKIP
WARNING = failing(Action.MONITOR, severity=WARN)
FAILURES = [action for action in Action if action not in WARN_ONLY]
DERIVED = {"verdict", "exit_code", "complete", "action", "targets", "conclusion"}
ELSEWHERE = {"action", "exit_code"}  # of a finding, and of a program that was run


def three(results: tuple[Result, ...], *optional: str) -> tuple[str, int, bool]:
    """Return (verdict, exit code, complete)."""
    return conclude(results, optional=frozenset(optional))[:3]


# results, then: verdict, complete, exit code in full style, simple, nagios, npd, full with
# --fail-on warn
TABLE = {
    "nothing": ([], "incomplete", False, 3, 3, 3, 2, 3),
    "all skipped": ([plain(SKIP)], "incomplete", False, 3, 3, 3, 2, 3),
    "pass": ([plain(PASS)], "pass", True, 0, 0, 0, 0, 0),
    "pass and skip": ([plain(PASS), plain(SKIP)], "pass", True, 0, 0, 0, 0, 0),
    "warn": ([plain(PASS), WARNING], "warn", True, 0, 0, 1, 0, 10),
    "warn alone": ([WARNING], "warn", True, 0, 0, 1, 0, 10),
    "unknown": ([plain(PASS), plain(UNKNOWN)], "incomplete", False, 3, 3, 3, 2, 3),
    "unknown and warn": ([WARNING, plain(UNKNOWN)], "incomplete", False, 3, 3, 3, 2, 3),
    "fix-config": ([plain(PASS), failing(Action.FIX_CONFIG)], "software", True, 20, 1, 2, 1, 20),
    "investigate": ([failing(Action.INVESTIGATE)], "software", True, 20, 1, 2, 1, 20),
    "reset": ([failing(Action.RESET_GPU)], "reboot", True, 30, 1, 2, 1, 30),
    "reboot": ([failing(Action.REBOOT)], "reboot", True, 30, 1, 2, 1, 30),
    "power": ([failing(Action.POWER_CYCLE)], "reboot", True, 31, 1, 2, 1, 31),
    "inspect": ([failing(Action.INSPECT)], "hardware", True, 40, 1, 2, 1, 40),
    "replace": ([failing(Action.REPLACE)], "hardware", True, 41, 1, 2, 1, 41),
    "a failure beats unknown": (
        [plain(UNKNOWN), failing(Action.FIX_CONFIG)],
        "software",
        False,
        20,
        1,
        2,
        1,
        20,
    ),
    "a failure beats a warning": (
        [WARNING, failing(Action.REBOOT)],
        "reboot",
        True,
        30,
        1,
        2,
        1,
        30,
    ),
    "the heaviest wins": (
        [failing(Action.REPLACE), failing(Action.FIX_CONFIG)],
        "hardware",
        True,
        41,
        1,
        2,
        1,
        41,
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_exit_codes(name: str) -> None:
    results, verdict, complete, full, simple, nagios, npd, on_warn = TABLE[name]
    said, code, whole = three(tuple(results))
    assert (said, code, whole) == (verdict, full, complete)
    styles = {style: exit_code(said, code, style) for style in ("full", "simple", "nagios", "npd")}
    assert styles == {"full": full, "simple": simple, "nagios": nagios, "npd": npd}
    assert conclude(tuple(results), fail_on="warn").exit_code == on_warn


def test_optional_unknowns_leave_the_scan_complete() -> None:
    results = (plain(PASS), plain(UNKNOWN, "x.y"))
    assert three(results, "x.y") == ("pass", 0, True)
    assert three(results, "a.b") == ("incomplete", 3, False)
    assert three((failing(Action.REBOOT, "x.y"),), "x.y") == ("reboot", 30, True), (
        "a failure counts, optional or not"
    )
    assert three((plain(UNKNOWN),), "a.b") == ("incomplete", 3, False), "nothing was judged at all"


def test_warnings_do_not_set_the_action() -> None:
    warned = failing(Action.REPLACE, severity=WARN)
    assert worst_action((warned,)) is Action.NONE
    both = failing(Action.REBOOT)
    both = both._replace(findings=(*both.findings, *warned.findings))
    assert worst_action((both,)) is Action.REBOOT, (
        "a warning within a failed result does not count either"
    )


def test_the_worst_of_many_is_ranked_by_meaning_and_not_by_the_style_s_numbers() -> None:
    failed, unread, fine = (
        report_of(failing(Action.REPLACE)),
        report_of(plain(UNKNOWN)),
        report_of(plain(PASS)),
    )
    warned = report_of(WARNING)
    assert worst_exit_code([fine, unread, failed]) == 41
    assert worst_exit_code([fine, unread, failed], "nagios") == 2, (
        "not 3: a proven failure wins over what was not read"
    )
    assert worst_exit_code([fine, unread, failed], "npd") == 1
    assert worst_exit_code([failed, unread], "simple") == 1
    assert worst_exit_code([fine, warned], "nagios") == 1
    assert worst_exit_code([warned, fine], "nagios") == 1
    counted = [one._replace(run=RunInfo(fail_on="warn")) for one in (fine, warned)]
    assert [one.exit_code for one in counted] == [0, 10]
    assert worst_exit_code(counted) == 10
    assert worst_exit_code(counted, "npd") == 1
    assert worst_exit_code([fine, fine]) == 0
    assert worst_exit_code([fine, warned]) == 0


any_result = st.one_of(
    st.sampled_from([plain(PASS), plain(UNKNOWN), plain(SKIP), WARNING]),
    st.sampled_from(FAILURES).map(failing),
)
many = st.lists(any_result, max_size=6).map(tuple)


@given(many, st.sampled_from(FAILURES))
def test_adding_a_failure_never_lowers_the_exit_code(
    results: tuple[Result, ...], action: Action
) -> None:
    before, after = conclude(results), conclude((*results, failing(action)))
    assert after[1] >= before[1]
    assert after[1] >= ACTIONS[action].exit_code >= 20
    for style in EXIT_STYLES:
        assert exit_code(after[0], after[1], style) != 0


@given(many)
def test_zero_means_that_something_passed_and_nothing_failed_or_was_unread(
    results: tuple[Result, ...],
) -> None:
    _, code, complete = three(results)
    statuses = {result.status for result in results}
    assert (code == 0) == (not statuses & {FAIL, UNKNOWN} and bool(statuses & {PASS, WARN}))
    assert complete == (UNKNOWN not in statuses and bool(statuses - {SKIP}))


@given(many, many)
def test_the_order_of_results_does_not_matter(
    one: tuple[Result, ...], other: tuple[Result, ...]
) -> None:
    assert conclude(one + other) == conclude(other + one)


def test_an_echo_that_lacked_something_leaves_the_scan_incomplete() -> None:
    lacked: tuple[tuple[str, Unread], ...] = (("gpus[A].name", Unread("k", "lost", "gone")),)
    echo = plain(SKIP)._replace(skip_reason=SkipReason.EXPLAINED)
    assert three((failing(Action.REBOOT), echo)) == ("reboot", 30, True), "it lacked nothing"
    assert three((failing(Action.REBOOT), echo._replace(unread=lacked))) == ("reboot", 30, False)
    left_out = plain(SKIP)._replace(skip_reason=SkipReason.NOT_SUPPORTED, unread=lacked)
    assert three((failing(Action.REBOOT), left_out)) == ("reboot", 30, True), (
        "a lack that is no echo has been weighed already"
    )


def test_a_scan_cut_short_proves_faults_and_never_health() -> None:
    cut = frozenset({Circumstance.CUT_SHORT})
    assert conclude((plain(PASS),), circumstances=cut)[:3] == ("incomplete", 3, False)
    assert conclude((WARNING,), circumstances=cut)[:3] == ("incomplete", 3, False)
    failed = conclude((failing(Action.REBOOT),), circumstances=cut)
    assert failed[:3] == ("reboot", 30, False)


def test_only_ethernet_ports_leave_nothing_to_judge_and_nothing_wrong() -> None:
    ethernet = frozenset({Circumstance.ONLY_ETHERNET})
    skipped = (plain(SKIP),)
    assert conclude(skipped, circumstances=ethernet)[:3] == ("pass", 0, True)
    assert conclude(skipped)[:3] == ("incomplete", 3, False)
    unread = (*skipped, plain(UNKNOWN, "x.y"))
    for optional in (frozenset[str](), frozenset({"x.y"})):
        conclusion = conclude(unread, circumstances=ethernet, optional=optional)
        assert conclusion[:3] == ("incomplete", 3, False)
    failed = conclude((failing(Action.REBOOT),), circumstances=ethernet)
    assert failed[:3] == ("reboot", 30, True)
    both = frozenset(Circumstance)
    assert conclude(skipped, circumstances=both)[:3] == ("incomplete", 3, False)


def test_a_report_cannot_be_given_a_verdict() -> None:
    report: Any = report_of(plain(PASS))
    for name in DERIVED:
        with pytest.raises((ValueError, TypeError)):
            report._replace(**{name: 0})
    for name in DERIVED - {"conclusion"}:
        with pytest.raises(AttributeError):
            setattr(report, name, 0)
    failed = report._replace(results=(failing(Action.REPLACE),))
    assert (report.exit_code, failed.exit_code) == (0, 41), "a changed report concludes anew"


def test_nothing_else_sets_a_verdict() -> None:
    """No `_replace(verdict=…)` anywhere, and one place that makes reports and conclusions."""
    makers: dict[str, set[str]] = {"Report": set(), "Conclusion": set()}
    for path in sorted((ROOT / "gpuscan").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name == "_replace":
                given_names = {word.arg for word in node.keywords}
                assert not given_names & (DERIVED - ELSEWHERE), f"{path}:{node.lineno}"
            if name in makers:
                makers[name].add(path.name)
    assert makers == {"Report": {"stages.py"}, "Conclusion": {"conclude.py"}}
