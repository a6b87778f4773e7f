"""A test that ran in several rounds, told as one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuscan.burnin.merging import WORST, merged, tried_again, tries


def result(status: str, mismatches: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "status": status,
        "text": status,
        "mismatches": mismatches,
        "operations": 5,
        "seconds": 1.0,
        "first": [],
        **more,
    }


def test_what_was_wrong_in_two_rounds_was_wrong_twice() -> None:
    """Although each was right when it was run again at once."""
    first = merged(None, result("fail", 1, again={"mismatches": 0}))
    both = merged(first, result("fail", 2, again={"mismatches": 0}))
    assert both["mismatches"] == 3
    assert both["again"]["mismatches"] == 2
    assert merged(first, result("pass"))["again"]["mismatches"] == 0


def test_what_was_wrong_twice_stays_so_where_a_later_round_is_right() -> None:
    """A GPU that was wrong once is run again in each further round, and then has a newer second
    try.
    """
    twice = tried_again(merged(None, result("fail", 3)), result("fail", 2, numbers={"tflops": 1.0}))
    assert twice["again"] == {
        "status": "fail",
        "text": "fail",
        "mismatches": 2,
        "numbers": {"tflops": 1.0},
    }
    later = tried_again(merged(twice, result("pass")), result("pass"))
    assert later["again"]["mismatches"] == 2
    assert tried_again(merged(None, result("fail", 3)), result("pass"))["again"]["mismatches"] == 0
    assert tried_again(twice, result("unknown", 1))["again"] == twice["again"]
    assert "again" not in tried_again(result("fail", 3), result("skip"))


def test_the_newest_is_measured_and_the_highest_kept() -> None:
    first = merged(
        None,
        result(
            "pass", numbers={"tflops": 700.0}, load={"samples": 3, "core_c": 70, "power_w": 690.0}
        ),
    )
    both = merged(
        first,
        result(
            "pass", numbers={"tflops": 650.0}, load={"samples": 2, "core_c": 66, "power_w": 650.0}
        ),
    )
    assert both["numbers"] == {"tflops": 650.0}
    assert both["load"] == {"samples": 5, "core_c": 70, "power_w": 650.0}
    assert (both["operations"], both["seconds"], both["runs"]) == (10, 2.0, 2)


def test_heat_of_an_earlier_round_is_not_forgotten() -> None:
    hot = merged(None, result("pass", load={"samples": 3, "hw_thermal": 0.4, "power_brake": 0.0}))
    assert merged(hot, result("pass", load={"samples": 3, "hw_thermal": 0.0, "power_brake": 0.1}))[
        "load"
    ] == {
        "samples": 6,
        "hw_thermal": 0.4,
        "power_brake": 0.1,
    }


def test_a_flag_that_flashes_once_a_round_is_seen_once_at_a_time() -> None:
    """Of a soak's thousand samples a share that is the worst round's tells nothing."""
    both = merged(None, result("pass", load={"samples": 2, "hw_slowdown": 0.5, "slowed": 1}))
    for slowed in (0, 1, 1):
        both = merged(
            both, result("pass", load={"samples": 2, "hw_slowdown": slowed / 2, "slowed": slowed})
        )
    assert (both["load"]["samples"], both["load"]["slowed"]) == (8, 1)


def test_the_slowest_round_counts_with_its_own_second_try() -> None:
    def stress(tflops: float, *again: float) -> dict[str, Any]:
        second: dict[str, Any] = (
            {"again": {"mismatches": 0, "numbers": {"tflops": again[0]}}} if again else {}
        )
        how: dict[str, Any] = {
            "kind": "stress",
            "step": "stress-bf16",
            "options": {"dtype": "bf16"},
        }
        return result("pass", numbers={"tflops": tflops, "got": "ab"}, **how, **second)

    slow = merged(merged(merged(None, stress(700.0)), stress(500.0, 510.0)), stress(690.0))
    assert tries(slow) == {"gemm_bf16_tflops": [500.0, 510.0]}
    assert tries(merged(merged(None, stress(500.0, 699.0)), stress(690.0))) == {
        "gemm_bf16_tflops": [690.0]
    }


def test_other_bits_in_another_round_are_a_wrong_word() -> None:
    first = merged(None, result("pass", numbers={"got": "aa"}))
    both = merged(first, result("pass", numbers={"got": "bb"}))
    assert (both["status"], both["mismatches"]) == ("fail", 1)
    assert "in the round before it was aa" in both["text"]
    assert merged(first, result("pass", numbers={"got": "aa"}))["status"] == "pass"


def test_what_one_round_could_not_sample_is_lacking() -> None:
    seen = {"samples": 3, "hw_thermal": 0.0}
    blind = {"samples": 0, "lacks": {"reasons": ["timed-out", "planted"]}}
    for order in ((seen, blind), (blind, seen)):
        first, second = order
        both = merged(merged(None, result("pass", load=first)), result("pass", load=second))
        assert both["load"]["lacks"] == {"reasons": ["timed-out", "planted"]}


def test_a_round_that_was_cut_short_keeps_what_was_measured() -> None:
    both = merged(
        merged(None, result("pass", numbers={"tflops": 700.0})),
        {"status": "unknown", "text": "killed"},
    )
    assert (both["status"], both["text"], both["numbers"]) == (
        "unknown",
        "killed",
        {"tflops": 700.0},
    )


@given(st.lists(st.tuples(st.sampled_from(WORST), st.integers(0, 3)), min_size=1, max_size=6))
def test_nothing_bad_is_ever_forgotten(rounds: list[tuple[str, int]]) -> None:
    told: dict[str, Any] | None = None
    for status, mismatches in rounds:
        told = merged(told, result(status, mismatches))
    assert told is not None
    assert told["status"] == max((status for status, _ in rounds), key=WORST.index)
    assert told["mismatches"] == sum(mismatches for _, mismatches in rounds)
