"""The words of a verdict: one table from results to exit codes, and what must hold for any
results.
"""

from __future__ import annotations

import pytest
from building import failing, plain, report_of
from hypothesis import given
from hypothesis import strategies as st

from gpuscan.engine.suite import WARN_ONLY
from gpuscan.model import Unread
from gpuscan.model.outcome import (
    ACTIONS,
    BROKEN_STYLES,
    CATALOGUE_WORDS,
    EXIT_STYLES,
    RECOVERY_ACTIONS,
    Action,
    Finding,
    Result,
    Status,
    conclude,
    exit_code,
    worst_action,
    worst_exit_code,
)

PASS, WARN, FAIL, UNKNOWN, SKIP = Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN, Status.SKIP
WARNING = failing(Action.MONITOR, severity=WARN)
FAILURES = [action for action in Action if action not in WARN_ONLY]

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
    said, code, whole = conclude(tuple(results))
    assert (said, code, whole) == (verdict, full, complete)
    styles = {style: exit_code(said, code, style) for style in ("full", "simple", "nagios", "npd")}
    assert styles == {"full": full, "simple": simple, "nagios": nagios, "npd": npd}
    assert exit_code(said, code, "full", fail_on_warn=True) == on_warn


@pytest.mark.parametrize("style", ["full", *EXIT_STYLES])
def test_a_warning_that_counts_is_no_zero_and_other_verdicts_stay(style: str) -> None:
    assert exit_code("warn", 0, style, fail_on_warn=True) == {"full": 10}.get(style, 1)
    for verdict, code in (("pass", 0), ("incomplete", 3), ("software", 20), ("hardware", 41)):
        assert exit_code(verdict, code, style, fail_on_warn=True) == exit_code(verdict, code, style)


def test_every_style_knows_every_verdict_and_zero_only_for_work() -> None:
    verdicts = {"incomplete", *(row.verdict for row in ACTIONS.values())}
    for style, codes in EXIT_STYLES.items():
        assert set(codes) == verdicts, style
        assert all(code for verdict, code in codes.items() if verdict not in ("pass", "warn")), (
            style
        )
        assert codes["pass"] == 0
        assert codes["incomplete"] not in {
            codes[v] for v in ("pass", "warn", "software", "reboot", "hardware")
        }, style


def test_our_own_failures_are_no_verdict_in_any_style() -> None:
    assert set(BROKEN_STYLES) == {"full", *EXIT_STYLES}
    for style, codes in BROKEN_STYLES.items():
        verdicts = set(EXIT_STYLES.get(style, {}).values()) - {
            EXIT_STYLES.get(style, {}).get("incomplete")
        }
        assert not verdicts & set(codes), style
    assert BROKEN_STYLES == {"full": (2, 1), "simple": (2, 2), "nagios": (3, 3), "npd": (2, 2)}


def test_optional_unknowns_leave_the_scan_complete() -> None:
    results = (plain(PASS), plain(UNKNOWN, "x.y"))
    assert conclude(results, frozenset({"x.y"})) == ("pass", 0, True)
    assert conclude(results, frozenset({"a.b"})) == ("incomplete", 3, False)
    assert conclude((failing(Action.REBOOT, "x.y"),), frozenset({"x.y"})) == ("reboot", 30, True), (
        "a failure counts, optional or not"
    )
    assert conclude((plain(UNKNOWN),), frozenset({"a.b"})) == ("incomplete", 3, False), (
        "nothing was judged at all"
    )


def test_a_finding_is_of_its_own_cause_unless_it_is_said() -> None:
    assert Finding(FAIL, "x", Action.REBOOT).shared is False


def test_warnings_do_not_set_the_action() -> None:
    warned = failing(Action.REPLACE, severity=WARN)
    assert worst_action((warned,)) is Action.NONE
    both = failing(Action.REBOOT)
    both = both._replace(findings=(*both.findings, *warned.findings))
    assert worst_action((both,)) is Action.REBOOT, (
        "a warning within a failed result does not count either"
    )


def test_the_order_of_actions() -> None:
    words = "none monitor restart-app fix-config investigate reset-gpu reboot power-cycle inspect replace"
    assert " ".join(action.value for action in Action) == words
    assert [action.rank for action in Action] == list(range(10))
    assert list(ACTIONS) == list(Action)


@pytest.mark.parametrize("action", list(Action))
def test_every_action_has_verdict_code_and_two_sentences(action: Action) -> None:
    row = ACTIONS[action]
    assert row.todo.endswith((".", ")"))
    assert row.proof.endswith(".")
    assert row.todo != row.proof
    expected = {
        "pass": range(1),
        "warn": range(1),
        "software": range(20, 30),
        "reboot": range(30, 40),
        "hardware": range(40, 50),
    }
    assert row.exit_code in expected[row.verdict]


def test_a_heavier_action_never_has_a_lower_code() -> None:
    codes = [ACTIONS[action].exit_code for action in Action]
    assert codes == sorted(codes)
    assert [bool(code) for code in codes] == [action not in WARN_ONLY for action in Action]


def test_the_words_of_others_are_all_mapped() -> None:
    assert CATALOGUE_WORDS == {
        "update-software": Action.FIX_CONFIG,
        "contact-support": Action.INVESTIGATE,
        "hardware-inspect": Action.INSPECT,
        "hardware-replace": Action.REPLACE,
    }
    assert sorted(RECOVERY_ACTIONS) == list(range(8))
    assert [RECOVERY_ACTIONS[n].value for n in range(8)] == [
        "none", "reset-gpu", "reboot", "monitor", "reset-gpu", "fix-config", "reset-gpu", "power-cycle",
    ]  # fmt: skip


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
    assert worst_exit_code([fine, warned], fail_on_warn=True) == 10
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
    _, code, complete = conclude(results)
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
    echo = plain(SKIP)._replace(reason="explained by a.b (gpu:A)")
    assert conclude((failing(Action.REBOOT), echo)) == ("reboot", 30, True), "it lacked nothing"
    assert conclude((failing(Action.REBOOT), echo._replace(unread=lacked))) == ("reboot", 30, False)
    left_out = plain(SKIP)._replace(reason="not supported: x", unread=lacked)
    assert conclude((failing(Action.REBOOT), left_out)) == ("reboot", 30, True), (
        "a lack that is no echo has been weighed already"
    )
