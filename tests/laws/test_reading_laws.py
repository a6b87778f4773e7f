"""More evidence of harm never lowers the exit code: faults added to recordings, and to each other.

`gpuscan.engine.exceptions.may_ask_less` names the only exceptions. A pair whose faults change the
same reading adds no evidence, and is left out; so is one of two logs of which one is replaced.
"""

from __future__ import annotations

import random
from fnmatch import fnmatchcase
from functools import cache
from itertools import permutations
from typing import Any

import pytest
from faults import FAULTS
from nodes_recordings import NAMES, base, checks, judged

from gpuscan.engine.exceptions import may_ask_less
from gpuscan.engine.report import Report
from gpuscan.model.outcome import ACTIONS, FAILED, Action, Result, Status
from gpuscan.recording import patch

SAMPLE, SEED = 100, 20261129
LOGS = ("kmsg:", "run:journalctl", "run:dmesg")
JUDGED_BY = ("base", "profile", "settings", "context")


def judge(names: tuple[str, ...], on: str = "") -> Report:
    """Return the report on a recording with these faults, judged as the first of them is."""
    first, faults = FAULTS[names[0]], [FAULTS[name] for name in names]
    changes: dict[str, Any] = {}
    for fault in faults:
        changes |= fault.get("set", {})
    lines = [line for fault in faults for line in fault.get("log", ())]
    settings = () if on else first.get("settings", ())
    profile = "" if on else first.get("profile", "")
    busy = first.get("context") == "busy"
    return judged(patch(base(on or first["base"]), changes, lines), profile, settings, busy=busy)


@cache
def alone(name: str) -> Report:
    return judge((name,))


@cache
def of_base(name: str, *, busy: bool) -> int:
    return judged(base(name), busy=busy).exit_code


@cache
def changed(name: str) -> frozenset[str]:
    """Return the keys that a fault changes in its recording, "log" for a log that it replaces."""
    keys = base(FAULTS[name]["base"]).keys()
    found: set[str] = set()
    for key in FAULTS[name].get("set", {}):
        found |= {one for one in keys if fnmatchcase(one, key)} if "*" in key else {key}
    return frozenset(found | {"log" for key in found if key.startswith(LOGS)})


def is_harm(name: str) -> bool:
    """Return whether a patch plants a fault at all: others are healthy twins, or cures."""
    expect = FAULTS[name]["expect"]
    return bool(expect["findings"] or expect.get("unknown"))


def are_apart(first: str, then: str) -> bool:
    """Return whether two faults are of one recording, judged alike, and change other readings."""
    one, other = FAULTS[first], FAULTS[then]
    if any(one.get(key) != other.get(key) for key in JUDGED_BY):
        return False
    if changed(first) & changed(then):
        return False
    replaced = (one.get("log") and "log" in changed(then)) or (
        other.get("log") and "log" in changed(first)
    )
    in_order = bool(one.get("log") and other.get("log")) or first < then
    return in_order and not replaced


@cache
def pairs() -> tuple[tuple[str, str], ...]:
    """Return the pairs of faults, in both orders where both add to the log."""
    harm = [name for name in FAULTS if is_harm(name)]
    return tuple(pair for pair in permutations(harm, 2) if are_apart(*pair))


def heavier_than(report: Report, code: int) -> list[Result]:
    """Return the failures of a report that alone lead to more than an exit code."""
    return [
        result
        for result in report.results
        if result.status is Status.FAIL and exit_alone(result) > code
    ]


def exit_alone(result: Result) -> int:
    failures = [one.action for one in result.findings if one.severity is Status.FAIL]
    return max(ACTIONS[Action(action)].exit_code for action in failures)


def violation(pair: tuple[str, str]) -> str:
    """Return how a pair breaks the law, "" if it does not."""
    apart, both = [alone(name) for name in pair], judge(pair)
    codes = [report.exit_code for report in apart]
    if both.exit_code >= max(codes):
        return ""
    after = {(one.check, one.subject): one for one in both.results}
    lost = [one for report in apart for one in heavier_than(report, both.exit_code)]
    excepted = both.exit_code >= min(codes)
    if lost and excepted and all(may_ask_less(one, after, checks()) for one in lost):
        return ""
    gone = [f"{one.check}[{one.subject}]" for one in lost]
    return f"{' + '.join(pair)}: {codes} -> {both.exit_code} {gone}"


@cache
def additions() -> tuple[tuple[str, str], ...]:
    """Return (fault, recording) where the recording has all that the fault changes, and the change
    takes no finding of its own away.
    """
    found = []
    for name, fault in FAULTS.items():
        if not is_harm(name):
            continue
        busy = fault.get("context") == "busy"
        for on in NAMES:
            keys = [key for key in base(on).keys() if base(on).all(key)[0].error is None]
            changes = fault.get("set", {})
            fits = all(any(fnmatchcase(key, one) for key in keys) for one in changes)
            if fits and (not changes or of_base(on, busy=busy) < FAILED):
                found.append((name, on))
    return tuple(found)


def lowered(addition: tuple[str, str]) -> str:
    name, on = addition
    least = of_base(on, busy=FAULTS[name].get("context") == "busy")
    code = judge((name,), on).exit_code
    return f"{name} on {on}: {least} -> {code}" if code < least else ""


def test_the_pairs_are_of_one_recording_and_not_of_one_reading() -> None:
    assert are_apart("reset-required-without-xid", "xid-119")
    assert are_apart("xid-48", "xid-79")
    assert are_apart("xid-79", "xid-48")
    assert are_apart("aer-completion-timeouts", "inforom-corrupt")
    assert not are_apart("inforom-corrupt", "aer-completion-timeouts")  # the same pair
    assert not are_apart("inforom-corrupt", "card-lost")  # one reading
    assert not are_apart("kernel-log-denied", "xid-119")  # a log that is replaced


@pytest.mark.parametrize(
    ("pair", "code"),
    [
        (("aer-completion-timeouts", "inforom-corrupt"), 30),
        (("link-state-unread", "nvlink-slow"), 30),
    ],
)
def test_what_was_read_of_a_reported_part_is_judged(pair: tuple[str, str], code: int) -> None:
    assert judge(pair).exit_code == code


@pytest.mark.parametrize("busy", [False, True])
def test_what_may_wait_hides_nothing_that_is_due(*, busy: bool) -> None:
    """A pending row remap may wait for the job to end; a GSP that times out may not."""
    pending = FAULTS["row-remap-pending"]
    line = "NVRM: Xid (PCI:0000:52:00): 119, Timeout after 6s of waiting for RPC response from GSP!"
    report = judged(patch(base(pending["base"]), pending["set"], [line]), busy=busy)
    assert report.exit_code == 30
    assert [one.subject for one in report.results if one.check == "xid.faults" and one.findings]


@pytest.mark.parametrize(
    "pair",
    [
        ("port-at-half-rate", "port-init"),
        ("memory-held-by-nobody", "program-that-draws"),
        ("hca-pcie-slow", "hcas-missing"),
        ("burnin-wrong-row-pending", "burnin-wrong-twice"),
    ],
)
def test_only_the_exceptions_lower_an_exit_code(pair: tuple[str, str]) -> None:
    assert judge(pair).exit_code < max(alone(name).exit_code for name in pair)
    assert violation(pair) == ""


@pytest.mark.sweep
def test_a_second_fault_lowers_no_exit_code_in_a_sample() -> None:
    chosen = random.Random(SEED).sample(pairs(), SAMPLE)
    assert [found for pair in chosen if (found := violation(pair))] == []


@pytest.mark.sweep
def test_a_fault_on_another_recording_lowers_no_exit_code_in_a_sample() -> None:
    chosen = random.Random(SEED).sample(additions(), SAMPLE)
    assert [found for one in chosen if (found := lowered(one))] == []


@pytest.mark.laws
@pytest.mark.parametrize("name", [name for name in FAULTS if is_harm(name)])
def test_no_second_fault_lowers_the_exit_code(name: str) -> None:
    """Every fault, followed by every other of its recording."""
    followed = [pair for pair in pairs() if pair[0] == name]
    assert [found for pair in followed if (found := violation(pair))] == []


@pytest.mark.laws
def test_no_fault_on_any_recording_lowers_the_exit_code() -> None:
    assert [found for one in additions() if (found := lowered(one))] == []
