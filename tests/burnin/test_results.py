"""The JSON of burn-in results: what recordings and workers hold is read, and written as it was."""

from __future__ import annotations

from typing import Any

import pytest
from nodes_recordings import base

from gpuscan.burnin.results import BurnInResult, BurnInStatus
from gpuscan.recording import Reading

QUICK = base("h200-2x-quick")
RESULTS = [
    reading
    for reading in QUICK
    if reading.key.startswith("burnin:") and reading.key != "burnin:plan()"
]


@pytest.mark.parametrize("reading", RESULTS, ids=lambda reading: reading.key)
def test_recorded_results_come_out_as_they_went_in(reading: Reading) -> None:
    written = BurnInResult.from_json(reading.value).to_json()
    assert {"hot": False, **written} == {"hot": False, **reading.value}


def test_every_optional_part_comes_out_as_it_went_in() -> None:
    row: dict[str, Any] = {
        "seconds": 2.5,
        "error": {"name": "CUDA_ERROR_ECC_UNCORRECTABLE", "code": 214},
        "status": "lost",
        "text": "lost",
        "operations": 7,
        "mismatches": 1,
        "first": [
            {
                "address": "0x10",
                "expected": "0x1",
                "got": "0x3",
                "xor": "0x2",
                "again": "0x1",
                "second_read": "right",
                "card": "0000:1b:00.0",
            }
        ],
        "numbers": {"tflops": 1.5},
        "proof": {"proven": True, "injected": []},
        "options": {"dtype": "bf16"},
        "load": {"samples": 3, "core_c": 60, "lacks": {"gpm": ["not-supported", "no GPM"]}},
        "step": "stress-bf16",
        "kind": "stress",
        "hot": True,
        "runs": 2,
        "again": {"status": "pass", "text": "right", "mismatches": 0, "numbers": {"tflops": 1.0}},
        "earlier": {"gemm_bf16_tflops": [1.25, 1.5]},
    }
    result = BurnInResult.from_json(row)
    assert result.to_json() == row
    assert list(result.to_json()) == list(row)
    assert (result.status, result.first[0].gpu) == (BurnInStatus.LOST, "0000:1b:00.0")


@pytest.mark.parametrize(
    "change",
    [
        {"status": "fine"},
        {"operations": -1},
        {"operations": 1.5},
        {"mismatches": True},
        {"seconds": float("nan")},
        {"first": 3},
        {"first": ["x"]},
        {"load": [1]},
        {"load": {"samples": "x"}},
        {"load": {"samples": 1, "lacks": {"gpm": "x"}}},
        {"again": "x"},
        {"again": {"status": "fine"}},
        {"earlier": {"gemm": "x"}},
        {"error": "CUDA_ERROR"},
        {"numbers": []},
    ],
    ids=str,
)
def test_garbled_results_are_refused(change: dict[str, Any]) -> None:
    good = {"status": "pass", "text": "", "operations": 1, "mismatches": 0}
    assert BurnInResult.from_json(good).status is BurnInStatus.PASS
    rows: list[Any] = [good | change, [], None, "x"]
    for garbled in rows:
        with pytest.raises(ValueError):  # noqa: PT011
            BurnInResult.from_json(garbled)


def test_statuses_rise_in_severity() -> None:
    order = ("skip", "pass", "unknown", "fail", "lost", "stuck")
    assert [BurnInStatus(name).severity for name in order] == list(range(6))
