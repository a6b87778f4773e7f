"""Several rounds of a test, merged into one result."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuscan.burnin.merging import add_second_try, merge, slowest_tries
from gpuscan.burnin.results import BurnInResult, BurnInStatus, LoadSummary, SecondTry


def result(status: str, mismatches: int = 0, **more: Any) -> BurnInResult:
    return BurnInResult(
        BurnInStatus(status), status, seconds=1.0, operations=5, mismatches=mismatches, **more
    )


def load(samples: int, **values: float) -> LoadSummary:
    return LoadSummary(samples, values)


def repeated(found: BurnInResult) -> int | None:
    return found.again.mismatches if found.again is not None else None


def test_mismatches_in_two_rounds_count_as_twice() -> None:
    """Although each round was right when it was repeated at once."""
    first = merge(None, result("fail", 1, again=SecondTry(mismatches=0)))
    both = merge(first, result("fail", 2, again=SecondTry(mismatches=0)))
    assert (both.mismatches, repeated(both)) == (3, 2)
    assert repeated(merge(first, result("pass"))) == 0


def test_twice_wrong_stays_so_after_a_good_round() -> None:
    """A GPU that was wrong once repeats the test in each further round, and then has a newer
    second try.
    """
    again = result("fail", 2, numbers={"tflops": 1.0})
    twice = add_second_try(merge(None, result("fail", 3)), again)
    assert twice.again == SecondTry(BurnInStatus.FAIL, "fail", 2, {"tflops": 1.0})
    later = add_second_try(merge(twice, result("pass")), result("pass"))
    assert repeated(later) == 2
    assert repeated(add_second_try(merge(None, result("fail", 3)), result("pass"))) == 0
    assert add_second_try(twice, result("unknown", 1)).again == twice.again
    assert add_second_try(result("fail", 3), result("skip")).again is None


def test_newest_numbers_and_highest_load_are_kept() -> None:
    first = result("pass", numbers={"tflops": 700.0}, load=load(3, core_c=70, power_w=690.0))
    second = result("pass", numbers={"tflops": 650.0}, load=load(2, core_c=66, power_w=650.0))
    both = merge(merge(None, first), second)
    assert both.numbers == {"tflops": 650.0}
    assert both.load == load(5, core_c=70, power_w=650.0)
    assert (both.operations, both.seconds, both.runs) == (10, 2.0, 2)


def test_heat_of_an_earlier_round_is_kept() -> None:
    hot = merge(None, result("pass", load=load(3, hw_thermal=0.4, power_brake=0.0)))
    both = merge(hot, result("pass", load=load(3, hw_thermal=0.0, power_brake=0.1)))
    assert both.load == load(6, hw_thermal=0.4, power_brake=0.1)


def test_slowdown_is_counted_per_round() -> None:
    """Of a soak's thousand samples, the worst round's share says nothing."""
    both = merge(None, result("pass", load=load(2, hw_slowdown=0.5, slowed=1)))
    for slowed in (0, 1, 1):
        both = merge(both, result("pass", load=load(2, hw_slowdown=slowed / 2, slowed=slowed)))
    assert both.load is not None
    assert (both.load.samples, both.load.values["slowed"]) == (8, 1)


def test_slowest_round_counts_with_its_own_second_try() -> None:
    def stress(tflops: float, *again: float) -> BurnInResult:
        second = SecondTry(mismatches=0, numbers={"tflops": again[0]}) if again else None
        return result(
            "pass",
            numbers={"tflops": tflops, "got": "ab"},
            kind="stress",
            step="stress-bf16",
            options={"dtype": "bf16"},
            again=second,
        )

    slow = merge(merge(merge(None, stress(700.0)), stress(500.0, 510.0)), stress(690.0))
    assert slowest_tries(slow) == {"gemm_bf16_tflops": (500.0, 510.0)}
    recovered = merge(merge(None, stress(500.0, 699.0)), stress(690.0))
    assert slowest_tries(recovered) == {"gemm_bf16_tflops": (690.0,)}


def test_another_product_in_another_round_is_a_mismatch() -> None:
    first = merge(None, result("pass", numbers={"got": "aa"}))
    both = merge(first, result("pass", numbers={"got": "bb"}))
    assert (both.status, both.mismatches) == (BurnInStatus.FAIL, 1)
    assert "in the round before it was aa" in both.text
    assert merge(first, result("pass", numbers={"got": "aa"})).status is BurnInStatus.PASS


def test_what_one_round_could_not_sample_is_missing() -> None:
    seen = load(3, hw_thermal=0.0)
    blind = LoadSummary(0, {}, {"reasons": ("timed-out", "planted")})
    for first, second in ((seen, blind), (blind, seen)):
        both = merge(merge(None, result("pass", load=first)), result("pass", load=second))
        assert both.load is not None
        assert both.load.missing == {"reasons": ("timed-out", "planted")}


def test_lowest_pcie_generation_of_all_rounds_counts() -> None:
    one, other = (result("pass", load=load(1, pcie_generation=seen)) for seen in (3, 5))
    both = merge(merge(None, one), other)
    assert both.load is not None
    assert both.load.values["pcie_generation"] == 3


def test_a_round_cut_short_keeps_what_was_measured() -> None:
    both = merge(
        merge(None, result("pass", numbers={"tflops": 700.0})),
        BurnInResult(BurnInStatus.UNKNOWN, "killed"),
    )
    assert (both.status.value, both.text, both.numbers) == ("unknown", "killed", {"tflops": 700.0})


@given(
    st.lists(st.tuples(st.sampled_from(BurnInStatus), st.integers(0, 3)), min_size=1, max_size=6)
)
def test_nothing_bad_is_ever_forgotten(rounds: list[tuple[BurnInStatus, int]]) -> None:
    merged: BurnInResult | None = None
    for status, mismatches in rounds:
        merged = merge(merged, result(status.value, mismatches))
    assert merged is not None
    assert merged.status is max((status for status, _ in rounds), key=lambda each: each.severity)
    assert merged.mismatches == sum(mismatches for _, mismatches in rounds)
