"""Faults are patches on recordings: each is found, with one root cause and the right action."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from faults import FAULTS, faulty
from nodes_recordings import NAMES, base, checks, exit_of, judged, told

from gpuscan import catalogue, collectors
from gpuscan.engine.report import Report
from gpuscan.model import Incident, Unread
from gpuscan.model.outcome import Action, Status
from gpuscan.recording import Recording, patch

WORDED = (64, 154)  # their lines name the action


def findings(report: Report) -> dict[str, str]:
    """The heaviest action of each result that found something: {check[subject]: action}."""
    return {
        f"{result.check}[{result.subject}]": told(result).partition("/")[2]
        for result in report.results
        if result.findings
    }


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found_with_its_action(name: str) -> None:
    expect, report = FAULTS[name]["expect"], faulty(name)
    assert findings(report) == expect["findings"]
    assert (report.exit_code, report.verdict) == (expect["exit"], expect["verdict"])
    unknown = [
        f"{result.check}[{result.subject}]"
        for result in report.results
        if result.status is Status.UNKNOWN
    ]
    assert unknown == expect.get("unknown", [])
    assert not [result.traceback for result in report.results if result.traceback]
    failures = [f for r in report.results for f in r.findings if f.severity is Status.FAIL]
    if failures:
        assert report.exit_code == max(exit_of(finding.action.value) for finding in failures)


def newer_keys(recording: Recording) -> list[str]:
    """What today's scan asks of the GPUs beyond an older recording."""
    return [key for key in collectors.plan(recording) if key not in recording]


@pytest.mark.parametrize("name", FAULTS)
def test_fault_changes_recorded_keys(name: str) -> None:
    """A key that matches nothing would make a fault look harmless."""
    fault = FAULTS[name]
    assert set(fault) <= {"about", "base", "profile", "settings", "context", "set", "log", "expect"}
    assert set(fault["expect"]) <= {"exit", "verdict", "findings", "unknown"}
    assert fault["base"] in NAMES
    keys = [*base(fault["base"]).keys(), *newer_keys(base(fault["base"]))]
    for changed in fault.get("set", {}):
        assert changed.startswith(("run:", "history:")) or any(
            fnmatchcase(key, changed) for key in keys
        ), changed


def test_every_check_fails_or_warns_somewhere() -> None:
    """A new check needs a fault in which it fails.

    Checks of changes have their swap stories, and checks of imported texts their texts.
    """
    found = {
        finding.partition("[")[0]
        for fault in FAULTS.values()
        for finding in fault["expect"]["findings"]
    }
    assert found == {
        one.id for one in checks() if one.subject != "change" and not one.mark.imported
    }


@pytest.mark.parametrize(
    "name", [name for name in FAULTS if name.startswith("xid-") and name[4:].isdigit()]
)
def test_an_xid_alone_has_the_action_of_the_catalogue(name: str) -> None:
    code = int(name.partition("-")[2])
    (incident,) = _incidents(name)
    if code not in WORDED:
        assert (incident.code, incident.action) == (code, catalogue.entry(f"xid:{code}").action)
    action = Action(incident.action)
    if action is Action.INVESTIGATE:
        action = Action.MONITOR  # seen once, with a healthy GPU: a warning
    assert FAULTS[name]["expect"]["exit"] == exit_of(action.value)
    assert list(findings(faulty(name)).values()) == (
        [] if action is Action.NONE else [action.value]
    )


def _incidents(name: str) -> tuple[Incident, ...]:
    fault = FAULTS[name]
    recording = patch(base(fault["base"]), fault.get("set", {}), fault["log"])
    incidents = collectors.node(recording).incidents
    assert not isinstance(incidents, Unread)
    return incidents


def test_a_pending_remap_may_wait_for_the_job_to_end() -> None:
    (finding,) = [
        finding for result in faulty("row-remap-pending").results for finding in result.findings
    ]
    assert (finding.urgency, finding.action) == ("next-idle", Action.RESET_GPU)


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("pcie-x8", False),
        ("pcie-x8-on-five", True),
        ("power-brake-everywhere", True),
        ("nvlink-all-down-everywhere", True),
        ("nvlink-all-down-on-one-card", False),
        ("row-remap-failed-everywhere", False),
    ],
)
def test_a_fault_of_half_the_gpus_is_shared(name: str, shared: bool) -> None:
    marks = [finding.shared for result in faulty(name).results for finding in result.findings]
    assert marks
    assert set(marks) == {shared}


def test_a_brake_in_one_sample_only_is_ignored() -> None:
    """Both samples must show it. `patch` changes all samples of a key, so these are built here."""
    healthy = base("h100-8x-ib")
    key = "nvml:nvmlDeviceGetCurrentClocksEventReasons(0000:52:00.0)"
    for samples, exit_code in (((0x88, 0x1), 0), ((0x1, 0x88), 0), ((0x88, 0x88), 40)):
        values = iter(samples)
        changed = [
            reading._replace(value=next(values)) if reading.key == key else reading
            for reading in healthy
        ]
        assert judged(Recording(healthy.meta, healthy.scope, changed)).exit_code == exit_code, (
            samples
        )
