"""A fake machine of two GPUs in which faults are planted, and what a run or a proof says of them.

Time flies in the program as it does in the fake GPU's worker, and in the worker it passes by the
work alone: so a level and a proof do the same number of products and copies on any machine, and a
fault that is rarer, or needs more heat, than a level shows is missed by it every time.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from machine import Done, Machine
from paths import ROOT, TESTS

from gpuscan.profile import load as load_profile

# ten times as fast for six seconds: on a machine that is slower, deadlines come at their time
TIME_FLIES = """import time
real, began = time.monotonic, time.monotonic()

def flown():
    spent_s = real() - began
    return began + min(10 * spent_s, 54 + spent_s)

time.monotonic = flown
from gpuscan.__main__ import main
main()
"""
LIMITS = "init=600,call=450,host=300,worker=600"  # of a time that flies
STEADY = {"steady": True, "ms": 100}
A_ROUND = "25s"  # of a proof: no test of its first round is shortened
Faults = Mapping[str, Mapping[str, Any]]  # by GPU, as the fake binding reads them
PERFTEST = """#!{python}
import socket, sys
port = int(sys.argv[sys.argv.index("-p") + 1])
if sys.argv[-1] == "127.0.0.1":
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.recv(9)
    with open({counter!r}, "w") as file:
        file.write({count!r})
    print(" #bytes  #iterations  BW peak[Gb/sec]  BW average[Gb/sec]  MsgRate[Mpps]")
    print(" 1048576  141000  0.00  393.98  0.046967")
else:
    with socket.create_server(("", port)) as server:
        server.accept()[0].sendall(b"served")
"""


class Stand(NamedTuple):
    """The machine, the words of its profile, and its *folder* for states and marks."""

    machine: Machine
    words: tuple[str, ...]
    folder: Path

    def run(self, *words: str, faults: Faults | None = None, state: str = "state") -> Done:
        """Run the program with *faults* planted."""
        whole = {gpu: {**STEADY, **(faults or {}).get(gpu, {})} for gpu in self.machine.gpus()}
        path = os.pathsep.join([str(ROOT), str(TESTS), str(TESTS / "fake_cuda" / "binding")])
        tools = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        env = {"PYTHONPATH": path, "FAKE_CUDA_FAULTS": json.dumps(whole), "PATH": tools}
        given = (*words, "--format", "json", *self.words, "--state-dir", str(self.folder / state))
        return self.machine.plain(*given, limits=LIMITS, env=env, script=TIME_FLIES)

    def hold(self, faults: Faults | None = None, level: str = "quick") -> dict[str, dict[str, Any]]:
        """Let a run find the fault; return what the node is held for, by check."""
        done = self.run("run", "--level", level, faults=faults)
        assert done.code >= 20, done.report["findings"]
        return {one["check"]: one for one in reversed(done.report["hold"]["reasons"])}

    def quick(self, faults: Faults) -> Done:
        """Run the generic burn-in as one who knows of no fault."""
        return self.run("run", "--level", "quick", faults=faults, state="another")

    def prove(self, faults: Faults | None = None) -> tuple[int, dict[str, dict[str, Any]]]:
        """Return a proof's exit code, and its rows of the first reason of each check."""
        done = self.run("prove", "--time", A_ROUND, faults=faults)
        rows = done.report["proof"]
        return done.code, {row["check"]: row for row in reversed(rows)}

    def put_perftest(self, counter: Path, count: int) -> None:
        """Put an `ib_write_bw` on PATH, by whose traffic a port's *counter* comes to *count*."""
        tool = self.folder / "bin" / "ib_write_bw"
        tool.parent.mkdir(exist_ok=True)
        words = {"python": sys.executable, "counter": str(counter), "count": f"{count}\n"}
        tool.write_text(PERFTEST.format(**words), "utf-8")
        tool.chmod(0o755)


def stand(machine: Machine, folder: Path, profile: str = "") -> Stand:
    """Return a stand on which a GPU of *profile* has no floors: the stand-in's speeds mean
    nothing.
    """
    if not profile:
        return Stand(machine, (), folder)
    burnin = load_profile(profile).data["burnin"]
    floors = [key for key, value in burnin.items() if isinstance(value, (int, float))]
    path = folder / "slow.yaml"
    lines = [f"extends: {profile}", "burnin:", "  estimates: []"]
    path.write_text("\n".join([*lines, *(f"  {key}: null" for key in floors)]) + "\n", "utf-8")
    return Stand(machine, ("--profile", str(path)), folder)


def assert_proven(row: Mapping[str, Any]) -> None:
    """The fault was exercised and did not show, with the confidence that the row's own numbers
    give.
    """
    assert row["outcome"] == "not-seen", row["why"]
    assert row["amount"] > 0
    rate = row["rate"]
    unseen = row["then_c"] is not None and row["hottest_c"] is None  # too short to be sampled
    if rate is None or unseen:
        assert row["confidence"] is None
        return
    exposure = row["seconds" if rate["unit"] == "seconds under load" else "amount"]
    sure = 1 - math.exp(-rate["events"] / rate["exposure"] * exposure)
    assert row["confidence"] == pytest.approx(sure)
    assert 0 < row["confidence"] <= 1
