"""NVML that hangs, crashes or talks nonsense, in every call in turn: the scan ends in time, leaves
nobody behind, and never calls such a node healthy.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from building import module
from fake_nvml import Change
from machine import EIGHT, Done, Machine, gpus_of
from nodes_recordings import judged

from gpuscan.recording import load

CONTRACT = (3, 20, 30, 31, 40, 41)
WAYS = {
    "hang": Change(hang=True),
    "crash": Change(crash=True),
    "scribble": Change(scribble=True),
    "unknown error": Change(code=999),
}
HUGE = 2**32 - 1
SAMPLE, SEED = 3, 20261129
LIMITS = "init=4,call=1,host=10"
# makes the test take every call in every way, which takes an hour
ALL = "GPUSCAN_TEST_EVERY_CALL"


def calls() -> list[str]:
    """The keys of all calls but batches of fields: those of no GPU, and those of the first."""
    recording = load(str(EIGHT))
    first = gpus_of(recording)[0]
    keys = [r.key for r in recording if r.key.startswith("nvml:") and r.error is None]
    own = [key for key in keys if first in key or "(0000:" not in key]
    return list(dict.fromkeys(key for key in own if "FieldValues" not in key))


def trials(calls: list[str]) -> list[tuple[str, str]]:
    """A sample of calls for each way, or all."""
    if os.environ.get(ALL):
        return [(key, way) for key in calls for way in WAYS]
    chance = random.Random(SEED)
    return [(key, way) for way in WAYS for key in chance.sample(calls, SAMPLE)]


def judged_keys() -> set[str]:
    """The keys of the facts that a check reads: what no check reads, no verdict needs."""
    results = judged(load(str(EIGHT)), "h100-8x").results
    return {key for one in results for read in one.evidence for key in read.keys}


def told(done: Done, key: str) -> bool:
    """Whether the report names the call in which NVML's process died or hung."""
    texts = [row["text"] for check in done.report["checks"] for row in check.get("unread", ())]
    return any(key in text for text in texts)


@pytest.mark.system
@pytest.mark.parametrize(("key", "way"), trials(calls()))
def test_one_call_that_fails(eight: Machine, key: str, way: str) -> None:
    eight.nvml({key: WAYS[way]})
    done = eight.run("--deadline", "30", limits=LIMITS)
    if way == "unknown error" and key not in judged_keys():
        assert done.code in (0, *CONTRACT), done.err  # it is an answer, and nobody asked for it
    else:
        assert done.code in CONTRACT, done.err
    if way != "unknown error":
        assert not done.report["summary"]["complete"]
        assert done.code != 3 or told(done, key), done.err
    assert "Traceback" not in done.err
    assert done.report["run"]["duration_s"] <= 30


@pytest.mark.system
@pytest.mark.parametrize("count", [HUGE, 3_000_000])
def test_a_count_that_no_machine_has(eight: Machine, count: int) -> None:
    """In a container that cannot list PCI it is all that tells how many GPUs there are."""
    listing = eight.root / "sys" / "bus" / "pci" / "devices"
    listing.rename(listing.with_name("elsewhere"))
    eight.nvml({"nvml:nvmlDeviceGetCount()": Change(value=count)})
    done = eight.run("--deadline", "30", limits=LIMITS)
    assert done.code == 3
    assert "Traceback" not in done.err
    assert "the scan's process died" not in done.err
    assert sum("HandleByIndex" in key for key in eight.recorded.keys()) == 0


@pytest.mark.system
def test_a_check_that_never_ends_costs_the_verdict_and_not_the_deadline(
    eight: Machine, tmp_path: Path
) -> None:
    endless = """
    @check(action=Action.REPLACE)
    def test_endless(node: Node) -> None:
        \"\"\"It ends.\"\"\"
        while True:
            pass
    """
    folder = module(tmp_path / "checks", endless)
    done = eight.run("--deadline", "2", "--checks", folder)
    assert done.code == 3
    assert done.out == ""
    assert "not judged within 2 s" in done.err
