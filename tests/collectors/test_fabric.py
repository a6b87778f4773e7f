"""InfiniBand ports: spares, states that nobody knows, files that make no sense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from building import was_read
from nodes_recordings import base, judged, not_passed

from gpuscan import collectors
from gpuscan.engine.report import Report
from gpuscan.model import is_unread
from gpuscan.recording import Recording, patch

ROOT = "/sys/class/infiniband"
GARBLED = {"error": ["garbled", "Input/output error", 5]}
DOWN = {"state": "1: DOWN\n", "phys_state": "2: Polling\n", "rate": "10 Gb/sec (4X SDR)\n"}


def port(hca: str, **files: Any) -> dict[str, Any]:
    return {f"file:{ROOT}/{hca}/ports/1/{name}": value for name, value in files.items()}


def with_a_ninth(*also: Mapping[str, Any], **files: Any) -> Recording:
    """The node of eight ports with a ninth, as the first but for these of its files."""
    recording = base("h100-8x-ib")
    copied = {
        reading.key.replace("/mlx5_0/", "/mlx5_8/").replace("0000:18:00.0", "0000:e1:00.0"): (
            {"error": [reading.error.kind, reading.error.text]}
            if reading.error is not None
            else reading.value
        )
        for reading in recording
        if f"{ROOT}/mlx5_0/" in reading.key or "/devices/0000:18:00.0/" in reading.key
    }
    listing = {
        f"dir:{ROOT}": [*recording.get(f"dir:{ROOT}"), "mlx5_8"],
        f"link:{ROOT}/mlx5_8/device": "../../../0000:e1:00.0",
    }
    changes = {**copied, **listing, **port("mlx5_8", **files)}
    for more in also:
        changes |= more
    return patch(recording, changes)


def wrong(report: Report) -> dict[str, str]:
    """What did not pass, of ports: {check[subject]: status/action}."""
    return {
        f"{check}[{subject}]": word
        for check, subjects in not_passed(report).items()
        for subject, word in subjects.items()
        if check.startswith("infiniband.")
    }


def test_one_port_more_than_expected_is_no_fault() -> None:
    assert wrong(judged(with_a_ninth())) == {}


SPARES = {
    "polling": (DOWN, "warn/inspect"),
    "disabled": ({**DOWN, "phys_state": "3: Disabled\n"}, "warn/fix-config"),
    "waiting without a link": ({**DOWN, "state": "2: INIT\n"}, "warn/inspect"),
}


@pytest.mark.parametrize("name", SPARES)
def test_a_spare_port_that_is_not_active_only_warns(name: str) -> None:
    """And the low rate that a port without a link shows is no fault of its own."""
    files, word = SPARES[name]
    report = judged(with_a_ninth(**files))
    assert wrong(report) == {"infiniband.port_state[port:mlx5_8/1]": word}
    assert (report.exit_code, report.verdict) == (0, "warn")


@pytest.mark.parametrize("number", [8, 9])
def test_a_port_is_a_spare_only_where_the_expected_number_is_active(number: int) -> None:
    """With nine expected, or another one down, it is missed."""
    others = [port("mlx5_3", **DOWN)] if number == 8 else []
    report = judged(with_a_ninth(*others, **DOWN), settings=[f"infiniband.ports={number}"])
    assert wrong(report)["infiniband.port_state[port:mlx5_8/1]"] == "fail/inspect"
    assert report.exit_code == 40


def test_where_nothing_is_expected_every_port_counts() -> None:
    report = judged(with_a_ninth(**DOWN), settings=["infiniband.ports=null"])
    assert wrong(report)["infiniband.port_state[port:mlx5_8/1]"] == "fail/inspect"


def test_a_spare_s_state_that_was_not_read_is_unknown_as_any_other() -> None:
    report = judged(with_a_ninth(state=GARBLED))
    assert wrong(report)["infiniband.port_state[port:mlx5_8/1]"] == "unknown"


@pytest.mark.parametrize("state", ["5: ACTIVE_DEFER\n", "0: NOP\n", "9: WEIRD\n", "7: active\n"])
def test_a_state_that_nobody_knows_is_to_be_investigated(state: str) -> None:
    report = judged(patch(base("h100-8x-ib"), port("mlx5_3", state=state)))
    assert wrong(report) == {"infiniband.port_state[port:mlx5_3/1]": "fail/investigate"}
    (finding,) = [finding for result in report.results for finding in result.findings]
    assert state.partition(": ")[2].strip() in finding.message


@pytest.mark.parametrize("state", ["", "4\n", "ACTIVE\n", "4:\n", ": ACTIVE\n", "x: ACTIVE\n"])
def test_a_state_that_makes_no_sense_is_unread(state: str) -> None:
    report = judged(patch(base("h100-8x-ib"), port("mlx5_3", state=state)))
    assert wrong(report)["infiniband.port_state[port:mlx5_3/1]"] == "unknown"
    assert report.exit_code == 3


@pytest.mark.parametrize(
    "rate", ["nan", "NaN", "-nan", "inf", "-inf", "Infinity", "1e999", "fast", ""]
)
def test_a_rate_that_is_no_number_is_unread(rate: str) -> None:
    """NaN is below nothing, so it would pass for any rate."""
    recording = patch(base("h100-8x-ib"), port("mlx5_3", rate=f"{rate} Gb/sec (4X NDR)\n"))
    rates: dict[str, Any] = {
        one.label: one.rate_gbps for one in was_read(collectors.node(recording).ports)
    }
    assert {label: rate.kind for label, rate in rates.items() if is_unread(rate)} == {
        "mlx5_3/1": "garbled"
    }
    report = judged(recording)
    assert wrong(report) == {"infiniband.port_rate[port:mlx5_3/1]": "unknown"}
    assert report.exit_code == 3


@pytest.mark.parametrize(
    "physical", [GARBLED, {"error": ["timed-out", "no answer", 110]}, "", "Polling", None], ids=str
)
def test_a_port_that_is_down_fails_whatever_else_was_not_read(physical: Any) -> None:
    changes = port("mlx5_3", **{**DOWN, "phys_state": physical})
    report = judged(patch(base("h100-8x-ib"), changes))
    assert wrong(report) == {"infiniband.port_state[port:mlx5_3/1]": "fail/inspect"}
    assert report.exit_code == 40
