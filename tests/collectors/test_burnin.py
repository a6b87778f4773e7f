"""What becomes of a burn-in's readings: samples under load, speeds beside the node's, counters
that rose; and their limits.
"""

from __future__ import annotations

from typing import Any, cast

import pytest
from burnt import burn_test, load
from nodes_recordings import base, judged, judged_facts

from gpuscan import collectors
from gpuscan.burnin.merging import merge_loads
from gpuscan.burnin.rates import rates
from gpuscan.burnin.results import LoadSummary
from gpuscan.burnin.sampling import LoadSampler, sample_keys
from gpuscan.model import Amount, BurnTest, Node, Rate, Unread, is_unread
from gpuscan.model.outcome import Result, Status
from gpuscan.profile.capture import capture_profile
from gpuscan.recording import Reading, patch

QUICK = base("h200-2x-quick")
GPU, OTHER = "0000:00:06.0", "0000:00:07.0"
REPLAYS = f"nvml:nvmlDeviceGetPcieReplayCounter({GPU})"
SETTINGS = ("gpu.count=2",)
NODE: Node = collectors.node(QUICK)


def found_of(label: str, changes: dict[str, Any]) -> BurnTest:
    node: Any = collectors.node(patch(QUICK, changes))
    (found,) = [test for test in node.tests if test.label == label]
    return cast(BurnTest, found)


def result_of(check: str, test: BurnTest, *settings: str) -> Result:
    """What a check says of one test on a GPU of the quick burn-in's node."""
    told = judged_facts(NODE._replace(tests=(test,)), "h200-4x", (*SETTINGS, *settings))
    (found,) = [result for result in told.results if result.check == f"burnin.{check}"]
    return found


def of_gpu(name: str, **facts: Any) -> BurnTest:
    good: dict[str, Any] = {
        "text": "",
        "error": "",
        "mismatches": 0,
        "operations": 1,
        "what": "words",
        "grown": (),
        "logged": (),
    }
    return burn_test("SXM2", name, address=GPU, **{**good, **facts})


# --- limits


@pytest.mark.parametrize(
    ("label", "few", "many", "action"),
    [
        ("PCIe replays", 80, 81, "inspect"),
        ("NVLink replays", 1000, 1001, "inspect"),
        ("NVLink CRC errors", 100, 101, "inspect"),
        ("corrected ECC errors", 100, 101, "investigate"),
        ("rows remapped after correctable errors", 8, 9, "investigate"),
        ("NVLink recoveries", None, 1, "inspect"),
        ("rows remapped after uncorrectable errors", None, 1, "investigate"),
    ],
)
def test_so_many_errors_are_noted_and_one_more_fails(
    label: str, few: int | None, many: int, action: str
) -> None:
    for count, status in ((few, Status.WARN), (many, Status.FAIL)):
        if count is not None:
            found = result_of("error_counters", of_gpu("memory", grown=(Amount(label, count),)))
            assert (found.status, found.findings[0].action.value) == (status, action)


@pytest.mark.parametrize(
    ("now", "status"),
    [
        ({"core_c": 89, "memory_c": 60}, Status.FAIL),
        ({"core_c": 88, "memory_c": 95}, Status.FAIL),
        ({"core_c": 88, "memory_c": 94}, Status.PASS),
    ],
)
def test_the_temperature_that_a_gpu_names_is_one_too_many(
    now: dict[str, int], status: Status
) -> None:
    test = of_gpu("stress-bf16", load=load(**now, slowdown_c=89, memory_max_c=95))
    assert result_of("temperature", test).status is status


def test_a_gpu_may_be_so_much_warmer_and_no_more() -> None:
    for core_c, status in ((72, Status.PASS), (73, Status.WARN)):
        test = of_gpu("stress-bf16", load=load(core_c=core_c, usual_core_c=60))
        assert result_of("temperature_spread", test).status is status


def test_only_bf16_is_expected_to_draw_all_the_power() -> None:
    weak = load(power_w=400.0, limit_w=700)
    for dtype, status in (("bf16", Status.WARN), ("fp64", Status.PASS)):
        test = of_gpu(f"stress-{dtype}", load=weak)._replace(
            rates=(Rate(f"gemm_{dtype}_tflops", 1.0, (), 1.0),)
        )
        assert result_of("power", test).status is status


@pytest.mark.parametrize(
    "name", ["SYSTEM_NOT_READY", "SYSTEM_DRIVER_MISMATCH", "DEVICE_UNAVAILABLE", "OUT_OF_MEMORY"]
)
def test_what_a_setting_keeps_from_being_opened_is_mended_by_one(name: str) -> None:
    found = result_of("completion", of_gpu("open", ended="lost", error=f"CUDA_ERROR_{name}"))
    assert found.findings[0].action.value == "fix-config"


def test_a_floor_itself_is_reached() -> None:
    for speed, status in ((590.0, Status.PASS), (589.9, Status.FAIL)):
        test = of_gpu("stress-bf16")._replace(rates=(Rate("gemm_bf16_tflops", speed, (), speed),))
        assert result_of("floor", test).status is status


@pytest.mark.parametrize(("estimates", "status"), [("[nccl]", Status.WARN), ("[]", Status.FAIL)])
def test_floors_of_collectives_may_be_estimates(estimates: str, status: Status) -> None:
    test = burn_test("node", "nccl", text="", error="")._replace(
        rates=(Rate("all-reduce p2p 2 1GiB", 200.0, (), 0.0),)
    )
    settings = ("burnin.nccl={all-reduce p2p 2 1GiB: 300}", f"burnin.estimates={estimates}")
    assert result_of("floor", test, *settings).status is status


@pytest.mark.parametrize(
    ("name", "label", "fabric", "status"),
    [
        ("peer", "peer_one_way_gbps", "true", Status.FAIL),
        ("peer", "peer_one_way_gbps", "null", Status.WARN),
        ("pcie-together", "pcie_together_to_card_gbps", "true", Status.WARN),
        ("pcie", "pcie_both_gbps", "true", Status.WARN),
        ("pcie", "pcie_to_card_gbps", "true", Status.FAIL),
    ],
)
def test_who_is_slow_by_design_or_by_the_host_is_only_told(
    name: str, label: str, fabric: str, status: Status
) -> None:
    test = of_gpu(name, to="SXM4" if name == "peer" else "")._replace(
        rates=(Rate(label, 80.0, (), 100.0),)
    )
    floors = tuple(
        f"burnin.{key}=null" for key in ("peer_one_way_gbps", "pcie_both_gbps", "pcie_to_card_gbps")
    )
    assert result_of("node_median", test, f"gpu.fabric={fabric}", *floors).status is status


@pytest.mark.parametrize(
    ("ended", "action", "told"),
    [
        ("failed", "", "fail/investigate"),
        ("failed", "replace", "fail/replace"),
        ("failed", "monitor", "fail/investigate"),
        ("warned", "inspect", "warn/monitor"),
        ("warned", "", "warn/investigate"),
    ],
)
def test_what_a_tool_calls_failed_drains_and_what_it_warns_of_warns(
    ended: str, action: str, told: str
) -> None:
    found = result_of("tools", of_gpu("dcgmi-diag", kind="tool", ended=ended, action=action))
    assert f"{found.status.value}/{found.findings[0].action.value}" == told


# --- facts


def test_a_failure_in_which_nothing_was_wrong_makes_no_sense() -> None:
    found: Any = found_of("SXM2 memory", {f"burnin:memory({GPU})": {"with": {"status": "fail"}}})
    assert (is_unread(found.ended), found.ended.kind) == (True, "garbled")


def test_a_test_of_speed_that_tells_none_makes_no_sense() -> None:
    found: Any = found_of(
        "SXM2 hbm", {f"burnin:hbm({GPU})": {**QUICK.get(f"burnin:hbm({GPU})"), "numbers": {}}}
    )
    assert (is_unread(found.rates), found.rates.kind) == (True, "garbled")


def test_what_a_round_could_not_sample_was_not_sampled() -> None:
    """Although another round did."""
    change = {"with": {"load": {"lacks": {"reasons": ["timed-out", "planted"]}}}}
    found: Any = found_of("SXM2 stress-bf16", {f"burnin:stress-bf16({GPU})": change})
    assert found.load.hw_thermal.kind == "timed-out"
    assert found.load.core_c == 66


def test_gpus_of_another_model_are_not_compared() -> None:
    uevent = f"file:/sys/bus/pci/devices/{OTHER}/uevent"
    changes = {
        uevent: QUICK.get(uevent).replace("2335", "2330"),
        f"burnin:stress-bf16({OTHER})": {"with": {"numbers": {"got": "0"}}},
    }
    found: Any = found_of("SXM2 stress-bf16", changes)
    assert (found.common_hash.kind, found.rates[0].usual.kind) == ("not-recorded", "not-recorded")


def counted(*values: Any) -> Any:
    """What grew of a GPU in the test of its PCIe link: one reading after another behind it, a
    value or an error.
    """
    patched = patch(QUICK, {})
    for value in values:
        error = value._replace(key=REPLAYS) if is_unread(value) else None
        patched.add(
            Reading(REPLAYS, None if error is not None else value, error, 0.0, 0.0, "after:pcie")
        )
    node: Any = collectors.node(patched)
    return next(test for test in node.tests if test.label == "SXM2 pcie").grown


def test_growth_of_several_rounds_is_added_up_and_a_reset_is_none() -> None:
    assert counted(5, 7) == (Amount("PCIe replays", 7),)
    assert counted(5, 1) == (Amount("PCIe replays", 5),)


def test_a_counter_that_every_gpu_has_and_none_is_read_of_is_told() -> None:
    assert counted(Unread("", "timed-out", "no answer")).kind == "timed-out"
    none = counted(Unread("", "not-supported", "Not Supported"))
    assert (none.kind, "counts no PCIe replays" in none.text) == ("not-recorded", True)


def test_a_kernel_log_that_nobody_followed_was_not_silent() -> None:
    found: Any = found_of("SXM2 memory", {"tail:/dev/kmsg": None})
    assert found.logged.kind == "blocked-behind"


def test_two_gpus_that_do_not_reach_each_other_are_told_apart() -> None:
    told = rates("peer", "peer", {}, {"peers": {OTHER: {"direct": False, "one_way_gbps": 21.0}}})
    assert told == {"peer_through_host_one_way_gbps": 21.0}
    assert judged(QUICK, "h200-4x", SETTINGS).exit_code == 0


# --- samples


def sampled(**rows: list[Any]) -> dict[str, Any]:
    """The summary of some rounds of samples, by what each call answered."""
    samples = LoadSampler(GPU)
    asked = dict(
        zip(("core_c", "power_w", "sm_clock_mhz", "reasons"), sample_keys(GPU), strict=False)
    )
    for name, values in rows.items():
        for value in values:
            error = value if is_unread(value) else None
            samples.add([Reading(asked[name], None if error is not None else value, error)])
    return samples.summary().to_json()


def test_samples_are_told_by_their_highest_mean_and_median() -> None:
    told = sampled(
        core_c=[60, 70, 65], power_w=[600_000, 700_000, 500_000], sm_clock_mhz=[1000, 1980, 1200]
    )
    assert told == {
        "samples": 3,
        "core_c": 70,
        "power_w": 600.0,
        "most_power_w": 700.0,
        "sm_clock_mhz": 1200,
    }


@pytest.mark.parametrize(
    ("left", "status"), [((12,), Status.PASS), ((12, 0, 3), Status.FAIL), ((4, -1), Status.FAIL)]
)
def test_a_margin_stands_for_the_temperature_that_a_gpu_does_not_name(
    left: tuple[int, ...], status: Status
) -> None:
    """As on Blackwell: the least that any round left counts."""
    key = f"burnin:stress-bf16({GPU})"
    rounds: LoadSummary | None = None
    for margin_c in left:
        rounds = merge_loads(rounds, LoadSummary(2, {"core_c": 70, "margin_c": margin_c}))
    assert rounds is not None
    changes = {
        f"nvml:nvmlDeviceGetTemperatureThreshold({GPU},1)": None,
        key: {**QUICK.get(key), "load": rounds.to_json()},
    }
    found: Any = found_of("SXM2 stress-bf16", changes)
    warm = found.load._replace(memory_c=60, memory_max_c=95)
    test = of_gpu("stress-bf16", load=warm)
    assert result_of("temperature", test).status is status


def test_a_margin_is_sampled_beside_the_rest() -> None:
    samples, (*_, key) = LoadSampler(GPU), sample_keys(GPU, margin=True)
    for left in (9, 4, 6):
        samples.add([Reading(key, left, None)])
    assert samples.summary().to_json() == {"samples": 3, "margin_c": 4}
    assert key not in sample_keys(GPU)


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (0x8, "hw_slowdown"),
        (0x40, "hw_thermal"),
        (0x20, "sw_thermal"),
        (0x80, "power_brake"),
        (0x4, "power_cap"),
    ],
)
def test_each_reason_has_its_bit(bit: int, name: str) -> None:
    """NVML: nvmlClocksEventReason…"""
    told = sampled(reasons=[bit, 0, 0x1, 0x2])
    assert {
        key: value for key, value in told.items() if value and key not in ("samples", "slowed")
    } == {name: 0.25}
    assert told["slowed"] == (name != "power_cap")


def test_what_was_never_answered_is_lacking_with_its_reason() -> None:
    lack = Unread("", "timed-out", "no answer")
    assert sampled(core_c=[60], reasons=[lack, lack])["lacks"] == {
        "reasons": ["timed-out", "no answer"]
    }
    assert "lacks" not in sampled(reasons=[lack, 0])


# --- a profile made of it


def test_of_two_tries_the_better_one_makes_the_floor() -> None:
    test = of_gpu("hbm")._replace(rates=(Rate("hbm_read_gbps", 2000.0, (4000.0,), 4000.0),))
    (line,) = [
        line
        for line in capture_profile([NODE._replace(tests=(test,))]).splitlines()
        if "hbm_read_gbps" in line
    ]
    assert float(line.partition(":")[2]) == 3400.0
