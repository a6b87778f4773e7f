"""Missing data never counts as healthy: readings of every recording and fault are taken away."""

from __future__ import annotations

import re

import pytest
from faults import FAULTS
from nodes_recordings import FILES, base, judged_facts, site_pins_a_profile
from nodes_synthetic import VARIANTS
from sweep import (
    GARBAGE,
    How,
    accusing_readings,
    baseline,
    fail_with,
    find_blind_passes,
    find_improvements,
    litter,
    place_of,
    planted_fault,
    readings_by_area,
    replace_by,
    sampled_readings,
    single_readings,
    sweep,
)

from gpuscan import collectors
from gpuscan.model import READING_KINDS, Unread
from gpuscan.model.outcome import Status
from gpuscan.recording import Recording, patch

pytestmark = pytest.mark.sweep


@pytest.mark.parametrize("name", ["h100-8x-ib", "h200-1x", "demo"])
def test_every_reading_is_missed(name: str) -> None:
    """Each reading is taken away, by every kind of error or one of them in turn."""
    node = baseline(base(name))
    assert [
        hole for keys, kinds in sampled_readings(base(name)) for hole in sweep(node, [keys], kinds)
    ] == []


def test_every_reading_of_a_burn_in_is_missed() -> None:
    """Each is replaced by every kind of error, a third of them by nonsense."""
    node = baseline(base("h200-2x-quick"), "h200-4x", How(("gpu.count=2",)))
    assert node.report.exit_code == 0
    keys = [
        keys
        for keys in single_readings(base("h200-2x-quick"))
        if str(keys).startswith(("{'burnin:", "{'tail:"))
    ]
    assert len(keys) > 40
    assert sweep(node, keys, READING_KINDS) == []
    assert litter(node, keys[::3], GARBAGE) == []


@pytest.mark.parametrize("name", sorted({*FILES, *VARIANTS} - {"h100-8x-ib", "h200-1x"}))
def test_every_area_of_a_recording_is_missed(name: str) -> None:
    """All readings of an area are taken away at once; the profile is chosen by the machine where
    the recording names none.
    """
    if base(name).meta.profile is None and site_pins_a_profile():
        pytest.skip("this machine pins a profile in /etc/gpuscan/config.yaml")
    node = baseline(base(name), base(name).meta.profile or "auto")
    assert sweep(node, readings_by_area(base(name)), ("no-permission", "not-found")) == []


def test_the_names_that_choose_a_profile_are_missed() -> None:
    if site_pins_a_profile():
        pytest.skip("this machine pins a profile in /etc/gpuscan/config.yaml")
    node = baseline(base("h100-8x-ib"), "auto")
    assert node.report.exit_code == 0
    dmi = [
        keys
        for keys in single_readings(base("h100-8x-ib"))
        if str(keys).startswith(("{'file:/sys/class/dmi", "{'dir:"))
    ]
    assert sweep(node, [*dmi, set().union(*dmi)], ("no-permission", "not-found", "garbled")) == []


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_is_healed_by_not_looking(name: str) -> None:
    """What proves the fault is replaced by every kind of error and by nonsense; of all else an
    eighth of the areas is taken away, by one kind each in turn.
    """
    node = planted_fault(name)
    assert sweep(node, accusing_readings(node, 3), READING_KINDS) == []
    assert litter(node, accusing_readings(node, 1), GARBAGE) == []
    turn = list(FAULTS).index(name)
    for number, keys in enumerate(readings_by_area(node.recording)[turn % 8 :: 8], turn):
        assert sweep(node, [keys], [READING_KINDS[number % len(READING_KINDS)]]) == []


def test_nonsense_neither_crashes_nor_passes() -> None:
    """Readings of one GPU and of the machine become nonsense, and those that only the eight-GPU
    node has.
    """
    few = [
        keys
        for keys in single_readings(base("demo"))
        if not re.search(r"nvml:.*0000:00:0[789]", str(keys))
    ]
    assert litter(baseline(base("demo")), few, GARBAGE) == []
    other = [
        keys
        for keys in single_readings(base("h100-8x-ib"))
        if not re.search(r"nvml:|uevent|mlx5_[1-7]|0000:(?!1b)", str(keys))
    ]
    assert litter(baseline(base("h100-8x-ib")), other, GARBAGE) == []


def test_nonsense_does_not_stop_the_planning() -> None:
    """The scan plans its next readings by the ones it has, whatever those say."""
    node = baseline(base("h100-8x-ib"))
    for value in (*GARBAGE, Unread("", "garbled", "planted")):
        for keys in readings_by_area(node.recording):
            change = fail_with("garbled") if isinstance(value, Unread) else replace_by(value)
            readings = [
                change(reading) if reading.key in keys else reading for reading in node.recording
            ]
            planned = collectors.plan(
                Recording({}, ["*"], [reading for reading in readings if reading])
            )
            assert all(type(key) is str for key in planned)


def test_one_sample_of_two_is_not_enough() -> None:
    """A reading taken twice and lost once is unread."""
    for number in (0, 1):
        node = baseline(base("h100-8x-ib"))
        key = "nvml:nvmlDeviceGetCurrentClocksEventReasons(0000:52:00.0)"
        lost = base("h100-8x-ib").all(key)[number]
        readings = [
            fail_with("timed-out")(reading) if reading is lost else reading
            for reading in node.recording
        ]
        facts = collectors.node(
            Recording(node.recording.meta, ["*"], [reading for reading in readings if reading])
        )
        report = judged_facts(facts, "h100-8x")
        assert report.exit_code in (3, 30)
        assert list(find_blind_passes(node, report, [key])) == []


def test_the_sweep_notices_a_hole() -> None:
    """A report that forgets a fault, or passes without its reading, is listed."""
    node, healthy = planted_fault("row-remap-failed"), baseline(base("h100-8x-ib"))
    assert [hole for hole in find_improvements(node, healthy.report) if "became pass" in hole]
    assert "exit 41 became 0" in list(find_improvements(node, healthy.report))
    key = "nvml:nvmlDeviceGetRemappedRows(0000:52:00.0)"
    assert len(list(find_blind_passes(healthy, healthy.report, [key]))) == 4


GROWING = (
    "nvml:nvmlDeviceGetPcieReplayCounter(0000:52:00.0)",
    "nvml:nvmlDeviceGetFieldValues(0000:52:00.0,163,7)",
    "nvml:nvmlDeviceGetFieldValues(0000:52:00.0,75,0)",
    "file:/sys/bus/pci/devices/0000:52:00.0/aer_dev_fatal",
    "file:/sys/class/infiniband/mlx5_3/ports/1/counters/link_downed",
)


@pytest.mark.parametrize("key", GROWING)
def test_growth_needs_both_samples(key: str) -> None:
    """A failed sample leaves no pass; one that was never to be taken makes a skip."""
    node = baseline(base("h100-8x-ib"))
    (first, last), lost = base("h100-8x-ib").all(key), {"error": ["timed-out", "planted"]}
    for samples in ([lost, last.value], [first.value, lost]):
        report = judged_facts(
            collectors.node(patch(node.recording, {key: {"samples": samples}})), "h100-8x"
        )
        assert report.exit_code in (3, 30)
        assert list(find_blind_passes(node, report, [key])) == []
    once = judged_facts(
        collectors.node(patch(node.recording, {key: {"samples": [last.value]}})), "h100-8x"
    )
    assert once.exit_code == 0
    hit = [result for result in once.results if place_of(result) in node.booked[key]]
    assert {result.status for result in hit if "not recorded" in result.reason} == {Status.SKIP}
    assert any("read once" in result.reason for result in hit)
