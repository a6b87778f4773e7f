"""The words of a verdict: the table of actions, and the exit styles."""

from __future__ import annotations

import pytest

from gpuscan.engine.suite import WARN_ONLY
from gpuscan.model.outcome import (
    ACTIONS,
    BROKEN_STYLES,
    CATALOGUE_WORDS,
    EXIT_STYLES,
    RECOVERY_ACTIONS,
    Action,
    Finding,
    Status,
    exit_code,
)


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


def test_a_finding_is_of_its_own_cause_unless_it_is_said() -> None:
    assert Finding(Status.FAIL, "x", Action.REBOOT).shared is False


def test_the_order_of_actions() -> None:
    words = (
        "none monitor restart-app fix-config investigate reset-gpu reboot power-cycle inspect"
        " replace"
    )
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
        "none", "reset-gpu", "reboot", "monitor", "reset-gpu", "fix-config", "reset-gpu",
        "power-cycle",
    ]  # fmt: skip
