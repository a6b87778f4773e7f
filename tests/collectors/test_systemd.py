"""Services as systemd states them, judged in a live scan."""

from __future__ import annotations

from typing import Any

import pytest
from building import was_read
from nodes_recordings import base, judged, not_passed

from gpuscan import collectors
from gpuscan.collectors import systemd
from gpuscan.model import Unread
from gpuscan.recording import Recording, patch

NOT_FOUND = Unread("", "not-found", "No such file or directory", 2)


def block(unit: str, active: str, sub: str, enabled: str, loaded: str = "loaded") -> str:
    result = "exit-code" if active == "failed" else "success"
    return (
        f"Id={unit}.service\nLoadState={loaded}\nActiveState={active}\nSubState={sub}\n"
        f"Result={result}\nUnitFileState={enabled}\n"
    )


def shown(name: str, *blocks: str) -> Recording:
    return patch(base(name), {systemd.SHOW: "\n".join(blocks)})


STATES: dict[tuple[str, str], dict[str, Any]] = {
    ("active", "running"): {"enabled": 0, "disabled": 0, "masked": 0},
    ("active", "exited"): {"enabled": 0, "disabled": 0, "masked": 0},
    ("reloading", "reload"): {"enabled": 0, "disabled": 0, "masked": 0},
    ("activating", "start"): {"enabled": "warn", "disabled": "warn", "masked": "warn"},
    ("activating", "auto-restart"): {"enabled": 20, "disabled": 20, "masked": 20},
    ("failed", "failed"): {"enabled": 20, "disabled": 20, "masked": 20},
    ("inactive", "dead"): {"enabled": "warn", "disabled": 0, "masked": 0},
}
CASES = [
    (*state, enabled, outcome) for state, row in STATES.items() for enabled, outcome in row.items()
]


@pytest.mark.parametrize("unit", systemd.UNITS)
@pytest.mark.parametrize(("active", "sub", "enabled", "outcome"), CASES)
def test_each_state_of_each_unit(
    unit: str, active: str, sub: str, enabled: str, outcome: Any
) -> None:
    if outcome == "warn" and active == "inactive" and unit == "nvidia-fabricmanager":
        outcome = 20  # it must run where there are NVSwitches
    report = judged(shown("h100-8x-ib", block(unit, active, sub, enabled)))
    assert report.exit_code == (outcome if outcome == 20 else 0)
    status = not_passed(report).get("service.state", {}).get(f"service:{unit}")
    assert status == {20: "fail/fix-config", "warn": "warn/fix-config", 0: None}[outcome]


@pytest.mark.parametrize("name", ["h100-8x-ib", "h200-8x-ib", "a100-8x-ib", "b200-8x-ib", "t4-4x"])
def test_a_fabric_manager_that_has_nothing_to_manage_may_fail(name: str) -> None:
    recording = shown(name, block("nvidia-fabricmanager", "failed", "failed", "enabled"))
    assert judged(recording, "default").exit_code == (0 if name == "t4-4x" else 20)


@pytest.mark.parametrize(
    ("booted", "answer", "exit_code"),
    [
        (NOT_FOUND, NOT_FOUND, 0),  # a container, or a machine without systemd
        (["notify"], Unread("", "not-supported", "commands are not run for another root", 95), 0),
        (["notify"], Unread("", "timed-out", "gave no answer within 10 s", 110), 3),
        (["notify"], Unread("", "garbled", "Failed to connect to bus", 5), 3),
        (["notify"], "Id=nvidia-dcgm.service\n", 3),
        (["notify"], "nonsense", 3),
    ],
)
def test_systemd_that_does_not_answer_is_unread(booted: Any, answer: Any, exit_code: int) -> None:
    changed = patch(base("h100-8x-ib"), {systemd.BOOTED: booted, systemd.SHOW: answer})
    assert judged(changed).exit_code == exit_code


def test_units_that_are_not_installed_are_no_services() -> None:
    recording = shown("h100-8x-ib", block("openibd", "inactive", "dead", "", "not-found"))
    assert was_read(collectors.node(recording).services) == ()
