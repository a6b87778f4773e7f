"""Incidents: which lines of the driver count, what each code asks for, and when the GPU's state
overrules it.
"""

from __future__ import annotations

from typing import Any

import pytest
from building import was_read
from nodes_recordings import base, exit_of, judged, told

from gpuscan import catalogue, collectors
from gpuscan.engine.report import Report
from gpuscan.model import Incident
from gpuscan.model.outcome import RECOVERY_ACTIONS, Action
from gpuscan.recording import Recording, patch

FAULT = "xid.faults"
OLD, NEW = (
    ("h100-8x-r535", "0000:52:00"),
    ("demo", "0000:00:07"),
)  # field 230 is too new there, and is read here
UNREAD = {
    "nvml:nvmlDeviceGetFieldValues(0000:00:07.0,230,0)": {
        "error": ["no-permission", "Insufficient Permissions", 4]
    }
}


def logged(where: tuple[str, str], *messages: str, changes: Any = None) -> Recording:
    """A healthy node whose driver logged these lines; @ stands for the GPU."""
    return patch(
        base(where[0]), changes or {}, [message.replace("@", where[1]) for message in messages]
    )


def incidents(
    *messages: str, where: tuple[str, str] = NEW, changes: Any = None
) -> tuple[Incident, ...]:
    return was_read(collectors.node(logged(where, *messages, changes=changes)).incidents)


def words(report: Report) -> dict[str, str]:
    return {
        result.subject.partition(":")[2]: told(result)
        for result in report.results
        if result.check == FAULT
    }


def xid_line(code: int | str, text: str = "something") -> str:
    return f"NVRM: Xid (PCI:@): {code}, pid=812, name=python3, {text}"


def recovery(after: str, label: str) -> str:
    return (
        f"NVRM: Xid (PCI:@): 154, GPU recovery action changed from 0x0 (None) to {after} ({label})"
    )


@pytest.mark.parametrize("number", RECOVERY_ACTIONS)
@pytest.mark.parametrize("label", ["None", "Node Reboot Required", "words of a driver to come"])
def test_what_xid_154_asks_for_is_its_number_and_not_its_words(number: int, label: str) -> None:
    action = RECOVERY_ACTIONS[number]
    report = judged(logged(OLD, recovery(f"0x{number:x}", label)))
    failed = {Action.NONE: "pass", Action.MONITOR: "warn/monitor"}.get(
        action, f"fail/{action.value}"
    )
    if number == 0 and label != "None":
        failed = "fail/investigate"  # a damaged digit must not turn a request into none
    assert words(report) == {"Xid 154 on SXM4": failed}
    assert report.exit_code == (
        exit_of(failed.removeprefix("fail/")) if failed.startswith("fail") else 0
    )


@pytest.mark.parametrize(
    "text", ["to 0x63 (of tomorrow)", "no number at all", "to 0xffffffff (x)", "to zero"]
)
def test_an_xid_154_that_nobody_knows_is_to_be_investigated(text: str) -> None:
    line = f"NVRM: Xid (PCI:@): 154, GPU recovery action changed from 0x0 (None) {text}"
    assert words(judged(logged(OLD, line))) == {"Xid 154 on SXM4": "fail/investigate"}


@pytest.mark.parametrize(
    ("steps", "result"),
    [
        (("0x1", "0x2"), "fail/reboot"),
        (("0x2", "0x1"), "fail/reset-gpu"),
        (("0x1", "0x0"), "pass"),
        (("0x0", "0X4"), "fail/reset-gpu"),
    ],
)
def test_the_last_xid_154_decides(steps: tuple[str, ...], result: str | None) -> None:
    lines = [recovery(step, "None" if step == "0x0" else "label") for step in steps]
    report = judged(logged(OLD, *lines))
    assert words(report) == {"Xid 154 on SXM4": result or "fail/investigate"}
    (incident,) = incidents(*lines, where=OLD)
    assert incident.events == len(steps)


MAPPED, UNMAPPED, UNLISTED = (48, 62, 64, 74, 79, 95), (46, 119, 140), 999


@pytest.mark.parametrize("code", MAPPED)
def test_a_clear_state_makes_mapped_codes_history(code: int) -> None:
    report = judged(logged(NEW, xid_line(code)))
    assert words(report) == {f"Xid {code} on SXM8": "warn/monitor"}
    assert (report.exit_code, report.verdict) == (0, "warn")


@pytest.mark.parametrize("code", UNMAPPED)
def test_a_clear_state_leaves_unmapped_codes_active(code: int) -> None:
    action = catalogue.entry(f"xid:{code}").action.value
    report = judged(logged(NEW, xid_line(code)))
    assert words(report) == {f"Xid {code} on SXM8": f"fail/{action}"}
    assert report.exit_code == exit_of(action) >= 20


@pytest.mark.parametrize("code", [*MAPPED, *UNMAPPED])
@pytest.mark.parametrize("how", ["too old", "unread", "gone"])
def test_where_the_state_was_not_read_the_catalogue_decides(code: int, how: str) -> None:
    action = catalogue.entry(f"xid:{code}").action.value
    where = {"too old": OLD, "unread": NEW, "gone": ("demo", "0000:fd:00")}[how]
    report = judged(logged(where, xid_line(code), changes=UNREAD if how == "unread" else {}))
    assert list(words(report).values()) == [f"fail/{action}"]
    assert report.exit_code == exit_of(action)


@pytest.mark.parametrize("wanted", [1, 2, 3, 99])
def test_a_state_that_wants_something_makes_no_history(wanted: int) -> None:
    changes = {"nvml:nvmlDeviceGetFieldValues(0000:00:07.0,230,0)": wanted}
    report = judged(logged(NEW, xid_line(119), xid_line(48), changes=changes))
    assert "warn/monitor" not in words(report).values()
    assert report.exit_code >= (20 if wanted == 99 else 30)


def test_programs_faults_only_warn_whatever_the_state_is() -> None:
    for where in (OLD, NEW):
        (word,) = words(judged(logged(where, xid_line(13)))).values()
        assert word.startswith("warn/")


SXIDS = {
    "fatal": (20034, "Fatal", "fail/reset-gpu"),
    "noise": (10001, "Non-fatal", "pass"),
    "unlisted": (99999, "", "warn/monitor"),
    "unlisted and fatal": (99999, "Fatal", "fail/reset-gpu"),
    "unlisted and not fatal": (99999, "Non-fatal", "warn/monitor"),
}


@pytest.mark.parametrize("name", SXIDS)
def test_an_sxid_has_the_action_of_its_own_catalogue(name: str) -> None:
    """No GPU's state speaks for a switch; a code that is an Xid, too, is not mistaken for one."""
    code, severity, expected = SXIDS[name]
    line = f"nvidia-nvswitch0: SXid (PCI:0000:83:00.0): {code}, {severity}, Link 30 LTSSM Fault Up"
    report = judged(logged(NEW, line))
    assert words(report) == {f"SXid {code} on 0000:83:00.0": expected}
    assert report.exit_code == (30 if expected.startswith("fail") else 0)


@pytest.mark.parametrize("where", [OLD, NEW])
def test_an_unlisted_code_warns_and_drains_on_recurrence(where: tuple[str, str]) -> None:
    line, (label,) = xid_line(UNLISTED), [f"Xid {UNLISTED} on {'SXM4' if where is OLD else 'SXM8'}"]
    once = judged(logged(where, line))
    assert (words(once), once.exit_code) == ({label: "warn/monitor"}, 0)
    assert "open a ticket" in next(
        f.message for r in once.results for f in r.findings if r.check == FAULT
    )
    again = judged(logged(where, line, *["usb 1-1: something else"] * 90, line))
    assert (words(again), again.exit_code) == ({label: "fail/investigate"}, 20)


def test_an_unlisted_code_drains_if_the_gpu_shows_a_fault() -> None:
    failed = {"nvml:nvmlDeviceGetRemappedRows(0000:00:07.0)": [0, 9, 0, 1]}
    report = judged(logged(NEW, xid_line(UNLISTED), changes=failed))
    assert report.exit_code == 41  # the flag, under which the code is folded


def test_a_clear_gpu_does_not_make_an_sxid_history() -> None:
    report = judged(
        logged(NEW, "nvidia-nvswitch3: SXid (PCI:@.0): 20034, Fatal, Link 30 LTSSM Fault Up")
    )
    assert words(report) == {"SXid 20034 on SXM8": "fail/reset-gpu"}


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU @.0: GPU has fallen off the bus.",
        "NVRM: GPU 0000@.0: GPU has fallen off the bus and is not responding to commands.",
        "NVRM: GPU @: GPU has fallen off the bus.",
    ],
)
def test_a_gpu_that_fell_off_the_bus_without_an_xid(line: str) -> None:
    report = judged(logged(OLD, line))
    assert words(report) == {"Xid 79 on SXM4": "fail/reboot"}
    assert report.exit_code == 30
    (incident,) = incidents("NVRM: Xid (PCI:@): 79, GPU has fallen off the bus.", line, where=OLD)
    assert (incident.code, incident.events) == (79, 2), "both lines are of one event"


@pytest.mark.parametrize("where", [OLD, NEW])
@pytest.mark.parametrize(
    "line",
    [
        (
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED]"
            " (0x00000053) returned @ g.c:2"
        ),
        (
            "NVRM: nvCheckOkFailedNoLog: Check failed: Reset required [NV_ERR_RESET_REQUIRED]"
            " (0x00000053) returned from y @ h.c:7"
        ),
    ],
)
def test_a_gpu_that_must_be_reset_without_an_xid(line: str, where: tuple[str, str]) -> None:
    report = judged(logged(where, line, line))
    assert words(report) == {"nvrm reset-required": "fail/reset-gpu"}
    assert report.exit_code == 30


@pytest.mark.parametrize("digits", [10, 300, 4300, 4301, 5000, 100_000])
@pytest.mark.parametrize(
    "line", ["NVRM: Xid (PCI:@): {}, x", "nvidia-nvswitch0: SXid (PCI:@.0): {}, Fatal, x"]
)
def test_a_number_without_end_is_no_crash(line: str, digits: int) -> None:
    """Python refuses to make a number of more than 4300 digits."""
    report = judged(logged(NEW, line.format("9" * digits)))
    assert not [result.traceback for result in report.results if result.traceback]
    (word,) = words(report).values()
    assert word in ("fail/reset-gpu", "warn/monitor")


def test_a_recovery_action_without_end_is_no_crash() -> None:
    assert words(judged(logged(OLD, recovery("0x" + "f" * 5000, "x")))) == {
        "Xid 154 on SXM4": "fail/investigate"
    }


@pytest.mark.parametrize(
    "line",
    ["usb 1-1: Xid", "NVRM: Xid"],
)
def test_what_only_looks_like_one_is_none(line: str) -> None:
    assert incidents(line) == ()


@pytest.mark.parametrize("line", ["NVRM: Xid (PCI:@): , x", "Xid (PCI:@): 79, no driver's line"])
def test_what_may_be_the_rest_of_one_is_not_understood(line: str) -> None:
    report = judged(logged(OLD, line))
    assert (report.exit_code, words(report)) == (3, {"": "unknown"})


@pytest.mark.parametrize(
    "address", ["0000:00:07", "00000000:00:07", "0000:00:07.0", "00000000:00:07.0"]
)
def test_every_way_to_write_the_gpu_means_the_gpu(address: str) -> None:
    (incident,) = incidents(f"NVRM: Xid (PCI:{address}): 119, x", f"NVRM: Xid ({address}): 119, y")
    assert (incident.label, incident.address, incident.events) == (
        "Xid 119 on SXM8",
        "0000:00:07.0",
        2,
    )
