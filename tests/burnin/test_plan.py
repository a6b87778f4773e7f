"""The plans of a burn-in: which GPUs are loaded, how long it takes, when it ends at the latest."""

from __future__ import annotations

from typing import Any

import pytest
from fake_burnin import GPUS, SCAN, burn_in
from paths import RECORDINGS

from gpuscan import collectors
from gpuscan.burnin.checkpoint import EarlierWork
from gpuscan.burnin.exercise import announce, limit_deadline
from gpuscan.burnin.plan import BurnInPlan, make_plan
from gpuscan.burnin.request import BurnInOptions
from gpuscan.live.supervisor import ReadOptions
from gpuscan.model.outcome import Status
from gpuscan.recording import Recording, load, patch

HOUR_S = 3600.0
LONG = [("long", hours * HOUR_S) for hours in (1, 24, 72, 24 * 7, 24 * 30)]
PROCESSES = "nvml:nvmlDeviceGetComputeRunningProcesses({})"
IN_USE = [{"pid": 77, "usedGpuMemory": 1}]
QUICK = BurnInOptions("quick")


def node_of(recording: Recording) -> Any:
    return collectors.node(recording)


@pytest.mark.parametrize("name", ["h100-2x", "h100-8x-ib"])
@pytest.mark.parametrize(
    ("level", "duration_s"), [("quick", 0.0), ("medium", 0.0), ("long", 0.0), *LONG]
)
def test_a_good_node_is_done_before_the_deadline(name: str, level: str, duration_s: float) -> None:
    """The last round begins when the time is nearly spent, and then takes as long as any other."""
    node = node_of(load(str(RECORDINGS / f"{name}.json.gz")))
    plan = make_plan(node, BurnInOptions(level, duration_s, force=True))
    one_s = sum(step.seconds for step in plan.steps)
    assert plan.rounds_s >= duration_s
    assert plan.expected_s >= plan.rounds_s, "rounds are whole"
    assert level != "long" or duration_s or plan.expected_s < 5700, "90 minutes are announced"
    assert ReadOptions(deadline_s=plan.deadline_s).reading_s() > plan.expected_s + (
        one_s if plan.rounds_s else 0
    )


def refusals(recording: Recording, options: BurnInOptions = QUICK) -> dict[str, str]:
    return dict(make_plan(node_of(recording), options).refused)


def test_gpus_that_other_programs_use_are_not_loaded() -> None:
    used = patch(SCAN, {PROCESSES.format("*"): IN_USE})
    refused = refusals(used)
    assert set(refused) == set(GPUS)
    assert all("other programs compute on the GPUs (process 77" in why for why in refused.values())
    assert refusals(used, QUICK._replace(force=True)) == {}


def test_a_gpu_is_not_loaded_beside_a_program_on_another() -> None:
    node = node_of(patch(SCAN, {PROCESSES.format(GPUS[1]): IN_USE}))
    first, second = node.gpus
    plan = make_plan(node._replace(gpus=(first,)), QUICK, beside=[second])
    assert "process 77" in plan.refused[GPUS[0]]
    alone = make_plan(node._replace(gpus=(first,)), QUICK)
    assert alone.gpus == (GPUS[0],)


def test_gpus_whose_programs_are_unread_are_not_loaded() -> None:
    silent = patch(SCAN, {PROCESSES.format("*"): {"error": ["garbled", "planted"]}})
    assert all("could not be read (planted)" in why for why in refusals(silent).values())
    never = patch(SCAN, {PROCESSES.format("*"): {"error": ["not-supported", "x"]}})
    assert refusals(never) == {}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("nvml:nvmlDeviceGetMigMode({})", [1, 1], "MIG is on"),
        ("nvml:nvmlDeviceGetComputeMode({})", 3, "compute mode is exclusive process"),
    ],
)
def test_a_gpu_in_an_unsuitable_mode_costs_only_its_own_tests(
    key: str, value: Any, words: str
) -> None:
    done = burn_in(scan=patch(SCAN, {key.format(GPUS[0]): value}))
    (result,) = done.of("completion", Status.UNKNOWN)
    assert (done.report.complete, result.address) == (False, GPUS[0])
    assert words in result.reason
    assert done.of("corruption", Status.PASS), "the other GPU is tested"


def test_a_refused_burn_in_is_incomplete() -> None:
    used = patch(SCAN, {PROCESSES.format("*"): IN_USE})
    plan = make_plan(node_of(used), QUICK)
    assert (plan.steps, plan.gpus, plan.expected_s) == ((), (), 0.0)


def quick_plan() -> BurnInPlan:
    return make_plan(node_of(SCAN), QUICK)


@pytest.mark.parametrize(
    ("given_s", "most_s"), [(None, 320.0), (180.0, 169.0), (3600.0, 320.0), (8.0, 5.25)]
)
def test_a_given_deadline_covers_the_scans_around_it(given_s: float | None, most_s: float) -> None:
    """Also where it is what a scan alone would have."""
    plan = limit_deadline(quick_plan(), given_s, scanned_s=1.0)
    assert most_s - 25 < plan.deadline_s <= most_s


def test_a_deadline_that_is_too_short_is_announced() -> None:
    nothing = EarlierWork(Recording({}, []))
    plan = quick_plan()
    assert "too short" not in announce(plan, nothing)
    assert "level quick on 2 GPUs" in announce(plan, nothing)
    assert "too short to finish" in announce(plan._replace(deadline_s=12.0), nothing)


def test_a_resumed_one_says_since_when() -> None:
    earlier = EarlierWork(Recording({}, []), spent_s=600.0, began_at=1_795_859_252.0)
    text = announce(quick_plan(), earlier)
    assert "resumed after 10 min, begun 2026-11-28 " in text
