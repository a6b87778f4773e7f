"""What was lifted lately and not exercised since, by the archive; what is held elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from program import Call

from gpuscan.model import Held
from gpuscan.state.archive import Archive
from gpuscan.state.elsewhere import told_elsewhere
from gpuscan.state.holds import stored
from gpuscan.state.lifted import lifted_lately

PART = "gpu:SXM4"
REASON = Held(
    40, "inspect", "pcie.link_width", PART, "SXM4", "", "165", "x8", "passive", "", "p", 10.0, 10.0
)
OTHER = REASON._replace(check="nvlink.links")
PROOF = {"check": REASON.check, "subject": PART, "outcome": "not-seen"}
Event = tuple[float, str, Any]
SET: Event = (10.0, "hold", stored([REASON, OTHER]))
LIFTED: Event = (20.0, "hold", stored([OTHER]))


def run(at_s: float, level: str) -> dict[str, Any]:
    texts = ("hostname", "boot_id", "verdict", "action", "profile", "headline")
    row = dict.fromkeys(texts, "x") | {"uuid": str(at_s), "at": at_s, "source": "live"}
    return {**row, "exit_code": 0, "complete": 1, "level": level, "full": 1, "findings": []}


@pytest.mark.parametrize(
    ("events", "runs", "left"),
    [
        ((SET,), (), []),
        ((SET, LIFTED), (), [REASON.check]),
        ((SET, LIFTED), ((25.0, "passive"),), [REASON.check]),
        ((SET, LIFTED), ((25.0, "quick"),), []),
        ((SET, LIFTED), ((15.0, "quick"),), [REASON.check]),
        ((SET, (15.0, "proof", PROOF), LIFTED), (), []),
        ((SET, LIFTED, (25.0, "proof", PROOF)), ((25.0, "proof"),), []),
        ((SET, LIFTED, (25.0, "proof", {**PROOF, "outcome": "unfinished"})), (), [REASON.check]),
        ((SET, LIFTED, (25.0, "proof", {**PROOF, "subject": "gpu:SXM1"})), (), [REASON.check]),
        ((SET, LIFTED, (25.0, "proof", None)), (), [REASON.check]),
        ((SET, LIFTED, (25.0, "hold", stored([REASON]))), (), [OTHER.check]),
        ((SET, LIFTED, (25.0, "hold", ["nonsense"])), (), [REASON.check, OTHER.check]),
    ],
)  # fmt: skip
def test_what_was_lifted_is_remembered_until_it_is_exercised(
    tmp_path: Path, events: Sequence[Event], runs: Sequence[tuple[float, str]], left: list[str]
) -> None:
    archive = Archive(str(tmp_path), write=True)
    for at_s, kind, data in events:
        archive.note("m", at_s, kind, "", data)
    for at_s, level in runs:
        archive.keep("m", run(at_s, level), {}, ())
    assert [row["check"] for row in lifted_lately(archive, "m", 5.0, 30.0)] == left
    assert lifted_lately(archive, "another", 5.0, 30.0) == []
    assert lifted_lately(archive, "m", 28.0, 30.0) == [], "too long ago"


def test_another_machines_hold_is_told(call: Call, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    assert list(told_elsewhere(state)) == []
    words = ("run", "--replay", "demo-broken", "--state-dir", state, "-q")
    assert call(*words).code == 41
    (told,) = told_elsewhere(state)
    assert told.startswith("held on a machine without a name, whose recording was judged here: gpu")
    assert "memory.row_remap" in told
