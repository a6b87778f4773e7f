"""NVML's return codes: every code in every call, on one GPU and on all, has the class that the table
gives it, and no check that needs the answer passes.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest
from nodes_recordings import base, judged
from nodes_synthetic import GPUS

from gpuscan import collectors
from gpuscan.collectors import gpu_facts
from gpuscan.engine.report import Report
from gpuscan.model.nvml import ACCESS, RETURN_CODES, UNKNOWN_ERROR, Meaning, meaning_of
from gpuscan.model.outcome import ACTIONS, Status
from gpuscan.recording import Recording, patch
from gpuscan.recording.keys import handle

pynvml: Any = importlib.import_module("pynvml")

NAME = "h100-8x-ib"
ONE = GPUS[2]
CALLS = sorted(
    {ask.call + ask.args for ask in gpu_facts.OWN if ask.call != gpu_facts.FIELD}
    | {ask.call + ask.args for group in gpu_facts.GROUPS for ask in group.asks}
)
CALLS = [call for call in CALLS if not call.startswith(("/", gpu_facts.FIELD))]
CODES = sorted(RETURN_CODES)


ANSWERED = {reading.key for reading in base(NAME) if reading.error is None}
EACH = 4  # calls for a code; `GPUSCAN_WHOLE_GRID=1` asks for all


def sampled(code: int) -> list[str]:
    """A few calls for each code, others for the next one: all have their turn."""
    if os.environ.get("GPUSCAN_WHOLE_GRID"):
        return CALLS
    first = CODES.index(code) * EACH
    return [CALLS[(first + n) % len(CALLS)] for n in range(EACH)]


def key_of(call: str, gpu: str) -> str:
    name, comma, args = call.partition(",")
    return f"nvml:{name}({gpu}{comma}{args})"


def failing(call: str, code: int, gpus: tuple[str, ...]) -> Recording:
    error = {"error": [meaning_of(code).kind, "as NVML puts it", code]}
    return patch(base(NAME), {key_of(call, gpu): error for gpu in gpus})


def wanted(code: int, *, alone: bool) -> tuple[int, ...]:
    """The exit codes that the table allows for a call that fails with a code."""
    meant = meaning_of(code)
    word = meant.access if meant.of_gpu else "erring" if code == UNKNOWN_ERROR and alone else ""
    return (ACTIONS[ACCESS[word].action].exit_code,) if word else (0, 3)


def passes_on(report: Report, key: str) -> list[str]:
    """The checks that pass and name the reading among their evidence."""
    return [
        result.check
        for result in report.results
        if result.status is Status.PASS and any(key in seen.keys for seen in result.evidence)
    ]


def test_the_table_has_every_code_of_the_binding() -> None:
    known = {value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
    assert known == set(RETURN_CODES)
    assert set(range(1, 31)) | {999} == set(RETURN_CODES)


def test_every_access_of_the_table_has_its_work() -> None:
    words = {meaning.access for meaning in RETURN_CODES.values()} - {""}
    assert words <= set(ACCESS)
    assert meaning_of(777) == Meaning("garbled")


@pytest.mark.sweep
@pytest.mark.parametrize("code", CODES)
def test_a_code_has_one_class_in_every_call_of_one_gpu(code: int) -> None:
    """A passing check never rests on a call that failed, and the exit is the table's."""
    for call in sampled(code):
        report = judged(failing(call, code, (ONE,)))
        answered = key_of(call, GPUS[0]) in ANSWERED
        assert report.exit_code in wanted(code, alone=answered), call
        assert passes_on(report, key_of(call, ONE)) == [], call


@pytest.mark.sweep
@pytest.mark.parametrize("code", CODES)
def test_a_code_has_one_class_in_every_call_of_all_gpus(code: int) -> None:
    for call in sampled(code):
        report = judged(failing(call, code, GPUS))
        assert report.exit_code in wanted(code, alone=False), call
        assert passes_on(report, key_of(call, ONE)) == [], call


@pytest.mark.parametrize("code", CODES)
def test_a_gpu_that_cannot_be_opened_never_passes(code: int) -> None:
    error = {"error": [meaning_of(code).kind, "as NVML puts it", code]}
    report = judged(patch(base(NAME), {handle(ONE): error}))
    word = meaning_of(code).access
    least = ACTIONS[ACCESS[word].action].exit_code if word and code != UNKNOWN_ERROR else 3
    assert report.exit_code >= least, report.exit_code


OLDER = [ask for ask in (*gpu_facts.OWN, gpu_facts.CLOCKS, *gpu_facts.LINK_ASKS[3]) if ask.older]
NEVER = {"not supported": ["not-supported", "Not Supported", 3], "too old": ["not-found", "-", 13]}


@pytest.mark.parametrize("lack", NEVER)
@pytest.mark.parametrize("ask", OLDER, ids=[ask.fact for ask in OLDER])
def test_an_older_call_gives_the_same_fact(ask: gpu_facts.Query, lack: str) -> None:
    """Without the new call, and with the old one, the node is judged alike."""
    first = base(NAME)
    changes: dict[str, Any] = {}
    for gpu in GPUS:
        for older in ask.older:
            changes[older.key(gpu)] = {"samples": [one.value for one in first.all(ask.key(gpu))]}
        changes[ask.key(gpu)] = {"error": NEVER[lack]}
    second = patch(first, changes)
    assert judged(second).exit_code == judged(first).exit_code == 0
    absent = patch(first, {ask.key(gpu): {"error": NEVER[lack]} for gpu in GPUS})
    asked = collectors.plan(absent)
    assert [key for key in (older.key(ONE) for older in ask.older) if key not in asked] == []
    assert [
        key for key in (older.key(ONE) for older in ask.older) if key in collectors.plan(first)
    ] == []
