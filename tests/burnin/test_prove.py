"""Proofs through the command line: a node is held, its fault is exercised and shows again, is
mended, and shows no more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from machine import EIGHT, Done, Machine
from paths import RECORDINGS, ROOT, TESTS
from program import start

from gpuscan.profile import load as load_profile
from gpuscan.recording import Recording, load

pytestmark = pytest.mark.burnin
TWO = RECORDINGS / "h100-2x.json.gz"
LIMITS = "init=60,call=45,host=30,worker=60"
Make = Callable[[Recording], Machine]


@pytest.fixture
def two(machine: Make) -> Machine:
    return machine(load(str(TWO)))


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    """The state folder, and the profile of a GPU without floors: the stand-in's speeds mean
    nothing.
    """
    burnin = load_profile("h100").data["burnin"]
    floors = [key for key, value in burnin.items() if isinstance(value, (int, float))]
    path = tmp_path / "slow.yaml"
    lines = ["extends: h100", "burnin:", "  estimates: []", *(f"  {key}: null" for key in floors)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return "--profile", str(path), "--state-dir", str(tmp_path / "state")


def env(faults: Mapping[str, Any] | None = None) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(TESTS), str(TESTS / "fake_cuda" / "binding")])
    return {"PYTHONPATH": path, "FAKE_CUDA_FAULTS": json.dumps(faults or {})}


def proof(two: Machine, *given: str, faults: Mapping[str, Any] | None = None) -> Done:
    asked = ("prove", "--format", "json", "--time", "2s")
    return two.plain(*asked, *given, limits=LIMITS, env=env(faults))


def test_a_fault_is_exercised_until_it_is_gone(two: Machine, words: tuple[str, ...]) -> None:
    bad, _ = two.gpus()
    faults = {bad: {"flip": "gemm"}}
    found = two.plain(*two.scan("--level", "quick", *words), limits=LIMITS, env=env(faults))
    assert found.code == 41
    (reason,) = found.report["hold"]["reasons"]
    assert "exact-bf16" in reason["tests"]
    again = proof(two, *words, faults=faults)
    (row,) = again.report["proof"]
    assert (again.code, row["outcome"], row["confidence"]) == (41, "seen", None)
    mended = proof(two, *words)
    (row,) = mended.report["proof"]
    assert row["outcome"] == "not-seen"
    assert row["amount"] > 0
    assert row["beside"] > 0
    assert 0 < row["confidence"] < 1
    assert row["rate"]["events"] == 2
    assert mended.report["hold"]["code"] == 41, "a proof lifts nothing"
    assert mended.report["hold"]["reasons"][0]["exercised_s"] > reason["seen_s"]
    assert "\n    exercised 20" in two.plain("status", *words[2:]).out
    ticket = json.loads(start(["ticket", "--format", "json", *words[2:]]).out)
    (told,) = ticket["exercised"]
    assert {name: told[name] for name in ("outcome", "amount", "beside", "confidence")} == {
        name: row[name] for name in ("outcome", "amount", "beside", "confidence")
    }
    kinds = [
        entry["text"].split("; ")[0] for entry in ticket["timeline"] if entry["kind"] == "proof"
    ]
    part = f"gpu SXM1, serial {row['serial']} (burnin.corruption)"
    assert kinds[0].startswith(f"{part}: showed again: ")
    assert kinds[1] == f"{part}: did not show again"
    runs = json.loads(start(["history", "list", "--format", "json", *words[2:]]).out)
    assert [len(run["proof"]) for run in runs] == [1, 1, 0]
    assert [run["level"] for run in runs] == ["proof", "proof", "quick"]


def test_without_a_hold_there_is_nothing_to_prove(two: Machine, words: tuple[str, ...]) -> None:
    done = two.plain("prove", *words, limits=LIMITS, env=env())
    assert done.code == 2
    assert "nothing is held on this node" in done.err


def test_without_the_binding_nobody_is_blamed(two: Machine, words: tuple[str, ...]) -> None:
    path = os.pathsep.join([str(ROOT), str(TESTS)])
    given = ("prove", "--part", "gpu:SXM1", *words)
    done = two.plain(*given, limits=LIMITS, env={"PYTHONPATH": path})
    assert (done.code, done.out) == (2, "")
    assert "pip install 'cuda-bindings" in done.err
    assert two.plain("status", *words[2:]).out.startswith("incomplete"), "nothing is held"


def test_a_confidence_that_no_rate_gives_is_told(machine: Make, tmp_path: Path) -> None:
    node = machine(load(str(EIGHT)))
    given = ("--part", "port:mlx5_0/1", "--confidence", "0.99", "--state-dir", str(tmp_path / "s"))
    done = node.plain("prove", *given, limits=LIMITS, env={**env(), "PATH": "/nonexistent"})
    assert done.code == 3
    assert "--confidence: nothing tells how often these faults come" in done.err
