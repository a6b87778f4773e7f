"""What a burn-in of eight GPUs comes to: whom its failures blame, and what they do not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
from building import was_read
from burnt import burn_test, load
from nodes_recordings import base, judged, judged_facts

from gpuscan import collectors
from gpuscan.collectors.burnin import wrong_beside
from gpuscan.engine.report import Report
from gpuscan.model import Amount, BurnTest, Node, Rate
from gpuscan.model.outcome import Action, Result, Status
from gpuscan.recording import Recording, patch

EIGHT: Node = collectors.node(base("h200-8x-ib"))
GPUS = {gpu.label: gpu.address for gpu in was_read(EIGHT.gpus)}
QUICK = base("h200-2x-quick")
TWICE: dict[str, Any] = {"mismatches": 3, "mismatches_again": (1,)}


def trial(gpu: str, name: str, rates: tuple[Rate, ...] = (), **facts: Any) -> BurnTest:
    """A test of one of the eight GPUs in which nothing was wrong, but for *facts*."""
    good = {
        "operations": 100,
        "mismatches": 0,
        "what": "words",
        "first_mismatches": (),
        "remap_pending": False,
        "grown": (),
        "logged": (),
    }
    made = burn_test(
        gpu,
        name,
        address=GPUS[gpu],
        **{**good, "error": "", "text": "", "hash_again": "", **facts},
    )
    return made._replace(rates=rates)


def pairs(*bad: str, **facts: Any) -> Iterator[BurnTest]:
    """The tests of all pairs; those that have one of *bad* in them are as *facts* say."""
    for gpu, to in permutations(GPUS, 2):
        yield trial(gpu, "peer", to=to, **(facts if {gpu, to} & set(bad) else {}))


def report(*tests: BurnTest) -> Report:
    return judged_facts(EIGHT._replace(tests=tests), "h200-8x")


def failed(told: Report, check: str = "corruption") -> dict[str, Result]:
    found = [
        result
        for result in told.results
        if result.check == f"burnin.{check}" and result.status is Status.FAIL
    ]
    return {result.subject.partition(":")[2]: result for result in found}


def find_targets(told: Report) -> list[str]:
    return [target.subject for target in told.targets]


def test_a_bad_gpu_is_replaced_though_every_other_gpu_gets_wrong_words_from_it() -> None:
    """Its pairs show on all eight GPUs: that is no cause that they share."""
    told = report(trial("SXM3", "memory", **TWICE), *pairs("SXM3", **TWICE))
    assert (told.exit_code, find_targets(told)) == (41, ["gpu:SXM3"])
    assert len(failed(told)) == 1 + 14
    assert not [finding for result in told.results for finding in result.findings if finding.shared]


ONCE: dict[str, Any] = {"mismatches": 1, "mismatches_again": (0,)}
ECC = (Amount("uncorrectable ECC errors", 1),)


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (trial("SXM3", "exact-bf16", **ONCE), trial("SXM3", "memory", **ONCE), 41),
        (trial("SXM3", "exact-bf16", **ONCE), trial("SXM3", "exact-bf16-hot", **ONCE), 41),
        (trial("SXM3", "exact-bf16", **ONCE), trial("SXM4", "exact-bf16", **ONCE), 20),
        (trial("SXM3", "exact-bf16", **ONCE), trial("SXM3", "memory"), 20),
        (
            trial("SXM3", "exact-bf16", **ONCE),
            trial("SXM3", "memory", **{**ONCE, "grown": ECC}),
            30,
        ),
        (trial("SXM3", "exact-bf16", **ONCE), trial("SXM3", "pcie", **ONCE), 40),
    ],
    ids=["another test", "hot", "another GPU", "right", "ECC", "the way"],
)
def test_wrong_in_two_tests_is_wrong_twice(first: BurnTest, second: BurnTest, code: int) -> None:
    found = [first, second]
    told = report(*(test._replace(wrong_beside=wrong_beside(test, found)) for test in found))
    assert told.exit_code == code
    assert (
        Action.REPLACE in {finding.action for result in told.results for finding in result.findings}
    ) == (code == 41)


def test_the_gpu_in_all_pairs_that_fail_is_blamed() -> None:
    told = report(*pairs("SXM3", **TWICE))
    assert (told.exit_code, find_targets(told)) == (40, ["gpu:SXM3"])
    assert all(
        "SXM3 is in all 14 pairs that fail like this" in result.findings[0].message
        for result in failed(told).values()
    )


def test_of_one_pair_both_ends_are_blamed_and_of_many_those_that_stand_out() -> None:
    one = report(trial("SXM3", "peer", to="SXM4", **TWICE), trial("SXM4", "peer", to="SXM3"))
    assert (one.exit_code, sorted(find_targets(one))) == (40, ["gpu:SXM3", "gpu:SXM4"])
    both = report(*pairs("SXM3", "SXM4", **TWICE))
    assert sorted(find_targets(both)) == ["gpu:SXM3", "gpu:SXM4"]


def test_slow_pairs_blame_the_gpu_that_they_have_in_common() -> None:
    slow: dict[str, Any] = {"rates": (Rate("peer_one_way_gbps", 200.0, (), 392.0),)}
    told = report(*pairs("SXM3", **slow))
    assert (told.exit_code, find_targets(told)) == (20, ["gpu:SXM3"])
    median = judged_facts(
        EIGHT._replace(tests=tuple(pairs("SXM3", **slow))),
        "h200-8x",
        ("burnin.peer_one_way_gbps=null",),
    )
    assert len(failed(median, "node_median")) == 14
    assert find_targets(median) == ["gpu:SXM3"]


def test_the_product_of_half_of_the_gpus_is_no_reason_to_replace_them() -> None:
    odd: dict[str, Any] = {"hash": "ff", "hash_again": "ff", "common_hash": "00"}
    told = report(*(trial(gpu, "stress-bf16", **odd) for gpu in list(GPUS)[:4]))
    assert told.exit_code == 40
    assert report(trial("SXM3", "stress-bf16", **odd)).exit_code == 41


@pytest.mark.parametrize(
    ("got", "again", "common", "code", "words"),
    [
        ("00", "", "00", 0, ""),
        ("00", "00", "00", 0, ""),
        ("00", "ff", "00", 20, "and ff when it was run again"),
        ("ff", "00", "00", 20, "and 00 when it was run again"),
        ("ff", "", "00", 20, "not run again"),
        ("ff", "ff", "00", 41, "ff in both runs, most GPUs have 00"),
        ("ff", "ff", "", 20, "no two GPUs computed the same product"),
    ],
)
def test_a_product_of_its_own_is_a_reason_only_twice(
    got: str, again: str, common: str, code: int, words: str
) -> None:
    told = report(trial("SXM3", "stress-bf16", hash=got, hash_again=again, common_hash=common))
    assert told.exit_code == code
    assert [
        words in result.findings[0].message for result in failed(told, "product_match").values()
    ] == [True] * (code > 0)


def test_one_gpu_alone_is_compared_with_its_second_try() -> None:
    """There is no other GPU to compare with, and its own two products differ."""
    told = report(trial("SXM3", "stress-bf16", hash="00", hash_again="ff"))
    assert told.exit_code == 20


def test_a_collective_blames_the_node() -> None:
    told = report(
        burn_test("node", "nccl", operations=9, what="words", first_mismatches=(), **TWICE)
    )
    assert (told.exit_code, find_targets(told)) == (40, [])


@pytest.mark.parametrize(
    ("shares", "samples", "status", "words"),
    [
        ({"hw_slowdown": 0.5}, 2, Status.WARN, "power or cooling"),
        ({"hw_slowdown": 0.5}, 4, Status.FAIL, "power or cooling"),
        ({"sw_thermal": 0.02}, 100, Status.FAIL, ": fan, airflow"),
        ({"sw_thermal": 0.01}, 1000, Status.PASS, ""),
        ({"power_brake": 0.5, "hw_slowdown": 0.5}, 10, Status.FAIL, ": power supplies"),
        ({"power_brake": 0.5, "hw_thermal": 0.5}, 10, Status.FAIL, "limit and fan"),
    ],
)
def test_what_slows_a_gpu_down_is_named(
    shares: dict[str, float], samples: int, status: Status, words: str
) -> None:
    never = dict.fromkeys(("hw_slowdown", "hw_thermal", "sw_thermal", "power_brake"), 0.0)
    told = report(
        trial(
            "SXM3",
            "stress-bf16",
            load=load(**never | shares, slowed=round(samples * max(shares.values()))),
        )
    )
    (result,) = [result for result in told.results if result.check == "burnin.slowdown"]
    assert result.status is status
    assert all(words in finding.message for finding in result.findings)


def test_a_gpu_that_cannot_be_opened_was_not_under_load() -> None:
    (result,) = failed(
        report(trial("SXM3", "open", ended="lost", error="X", text="X: no")), "completion"
    ).values()
    assert "could not be opened: X: no" in result.findings[0].message


# --- what a GPU does not have


def without(names: tuple[str, ...], changes: dict[str, Any]) -> Recording:
    """The quick burn-in of a GPU and driver that sample less."""
    loads = {}
    for key in QUICK.keys():  # noqa: SIM118
        value = QUICK.get(key)
        if (
            key.startswith("burnin:")
            and isinstance(value, dict)
            and (value.get("load") or {}).get("samples")
        ):
            told = {name: each for name, each in value["load"].items() if name not in names}
            loads[key] = {
                **value,
                "load": told | {"lacks": dict.fromkeys(names, ["not-supported", "Not Supported"])},
            }
    return patch(QUICK, loads | changes)


SETTINGS = ("gpu.count=2", "capabilities=[]")
NONE = {"error": ["not-supported", "Not Supported", 3]}
NO_SENSOR = {
    "nvml:nvmlDeviceGetFieldValues(*,82,0)": NONE,
    "nvml:nvmlDeviceGetTemperatureThreshold(*,2)": NONE,
}


def test_a_gpu_without_a_sensor_is_not_incomplete_for_it() -> None:
    told = judged(without(("memory_c",), NO_SENSOR), "h200-4x", SETTINGS)
    assert told.exit_code == 0
    (reasons,) = {result.status for result in told.results if result.check == "burnin.temperature"}
    assert reasons is Status.SKIP


def test_a_sensor_that_is_silent_under_load_alone_is_unread() -> None:
    assert judged(without(("memory_c",), {}), "h200-4x", SETTINGS).exit_code == 3


def test_wrong_words_are_wrong_on_a_gpu_that_remaps_no_rows() -> None:
    twice = {"status": "fail", "mismatches": 3, "again": {"status": "fail", "mismatches": 1}}
    wrong = {"burnin:memory(0000:00:06.0)": {"with": twice}}
    told = judged(
        patch(QUICK, wrong | {"nvml:nvmlDeviceGetRemappedRows(*)": NONE}), "h200-4x", SETTINGS
    )
    assert (told.exit_code, told.complete) == (41, True)


def test_a_second_try_whose_detector_proved_nothing_is_none() -> None:
    again = {"status": "unknown", "mismatches": 5, "numbers": {"got": "ff"}}
    for test in ("exact-bf16", "stress-bf16"):
        node = collectors.node(
            patch(QUICK, {f"burnin:{test}(0000:00:06.0)": {"with": {"again": again}}})
        )
        (found,) = [each for each in was_read(node.tests) if each.label == f"SXM2 {test}"]
        assert (found.mismatches_again, found.hash_again) == ((), "")
