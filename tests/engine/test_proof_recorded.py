"""The proof of three invented holds on a real H200: what it came to, and that a reading taken away
makes none of it look better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from nodes_recordings import base, judged

from gpuscan.model import READING_KINDS
from gpuscan.model.proof import Outcome, ProofRow
from gpuscan.recording import patch

RECORDING = base("h200-1x-proof")
GPU = "0000:00:06.0"
WRONG = {"with": {"status": "fail", "mismatches": 3, "again": {"status": "pass", "mismatches": 0}}}
BURNT = sorted({key for key in RECORDING.keys() if key.startswith("burnin:")})
OTHERS = sorted({key for key in RECORDING.keys() if not key.startswith("burnin:")})


def rows(changes: Mapping[str, Any]) -> dict[str, ProofRow]:
    report = judged(patch(RECORDING, dict(changes)), "h200-1x")
    return {row.check: row for row in report.proof}


SHOWN = rows({})


def test_each_fault_was_exercised_and_did_not_show() -> None:
    assert {row.outcome for row in SHOWN.values()} == {Outcome.NOT_SEEN}
    memory, pcie, wrong = (
        SHOWN[check] for check in ("memory.row_remap", "pcie.replays", "burnin.corruption")
    )
    assert (memory.unit, memory.confidence) == ("words read", None)
    assert memory.amount == 834_131_197_952
    assert pcie.unit == "words moved"
    assert pcie.amount == 43_822_088_192 + 43_620_761_600
    assert (wrong.unit, wrong.amount, wrong.then_c) == ("matrix products", 21_328, 64)
    assert wrong.rate is not None
    assert wrong.rate.exposure == 1329


SEEN: dict[str, dict[str, Any]] = {
    "burnin.corruption": {f"burnin:exact-fp8({GPU})": WRONG},
    "memory.row_remap": {f"nvml:nvmlDeviceGetRemappedRows({GPU})": [0, 8, 0, 1]},
}


@pytest.mark.parametrize("check", SEEN)
def test_a_fault_that_is_back_is_seen(check: str) -> None:
    assert rows(SEEN[check])[check].outcome is Outcome.SEEN


@pytest.mark.parametrize("kind", sorted(READING_KINDS))
@pytest.mark.parametrize("key", BURNT)
def test_a_test_that_was_not_read_proves_nothing(key: str, kind: str) -> None:
    """The plan is what says that there was a proof: without it there is none, and so no row."""
    now = rows({key: {"error": [kind, "not read"]}})
    for check, before in SHOWN.items():
        row = now.get(check)
        if row is None or row.outcome is not Outcome.NOT_SEEN:
            continue
        assert row.amount <= before.amount
        assert (row.confidence or 0.0) <= (before.confidence or 0.0)


@pytest.mark.sweep
@pytest.mark.parametrize("check", SEEN)
def test_no_reading_that_lacks_hides_a_fault_that_is_back(check: str) -> None:
    fault = SEEN[check]
    hidden = []
    for number, key in enumerate((*BURNT, *OTHERS)):
        kind = sorted(READING_KINDS)[number % len(READING_KINDS)]
        now = rows({**fault, key: {"error": [kind, "not read"]}}).get(check)
        if now is not None and now.outcome is Outcome.NOT_SEEN:
            hidden.append(f"{key} ({kind})")
    assert hidden == [], hidden
