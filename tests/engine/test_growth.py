"""Judging takes no more than n log n steps of what comes from outside, and folding never lowers the
exit code.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import growth
import pytest
from building import was_read
from nodes_recordings import base, judged

from gpuscan import collectors
from gpuscan.incidents import diagnose
from gpuscan.incidents.diagnose import MOST_INCIDENTS, Situation, exit_code, find_incidents
from gpuscan.kernellog.event import Event
from gpuscan.recording import Recording
from gpuscan.renderers import find

SIZES = {"GPUs": (16, 32, 64), "lost GPUs": (16, 32, 64), "ports down": (70, 140, 280)}
MOST = 2.9  # from one size to its double, where n log n gives 2.2 and the square 4
NODE = base("h100-8x-ib")


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work runs: the same on any machine."""
    count = 0

    def step(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return step

    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


def judge(recording: Recording) -> None:
    report = judged(recording, "h100-8x")
    for name in ("text", "json", "junit"):
        find(name)([report], verbosity=0, many=False)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", growth.KINDS)
def test_judging_grows_no_faster_than_what_it_judges(kind: str) -> None:
    judge(NODE)
    rest = lines_run(lambda: judge(NODE))  # of the node that everything is added to
    sizes = SIZES.get(kind, (100, 200, 400))
    recordings = [growth.KINDS[kind](size) for size in sizes]
    steps = [lines_run(partial(judge, one)) - rest for one in recordings]
    print(f"{kind}: {dict(zip(sizes, steps, strict=True))}")
    assert steps[2] <= MOST * max(steps[1], rest / 10), steps


def test_finding_incidents_grows_no_faster_than_the_log() -> None:
    """The same of the incidents alone, over what one user may write."""
    for kind in (growth.cgroups, growth.distinct_xids, growth.resets):
        nodes = [kind(size) for size in (100, 200)]
        collectors.node(nodes[0])
        steps = [lines_run(partial(collectors.node, one)) for one in nodes]
        assert steps[1] <= MOST * steps[0], (kind, steps)


def events(chance: random.Random) -> list[Event]:
    """A log of 40 lines: codes and parts, cures, some fatal."""
    codes = (13, 31, 43, 45, 48, 63, 74, 79, 94, 119, 154)
    made: list[Event] = []
    at_s = 100.0
    for line in range(40):
        at_s += chance.choice((0.0, 1.0, 40.0, 400.0))
        address = f"000{chance.randrange(4)}:1b:00.0"
        if chance.random() < 0.15:
            made.append(Event("reset", 0, "reset:gpu", address=address, line=line, at_s=at_s))
            continue
        code = chance.choice(codes)
        values = {"to": chance.choice((0, 1, 2, 4))} if code == 154 else {}
        cause = chance.choice((0, 79, 48)) if code == 45 else 0
        made.append(
            Event(
                "xid",
                code,
                f"xid:{code}",
                address=address,
                line=line,
                at_s=at_s,
                cause=cause,
                values=values,
            )
        )
    return made


@pytest.mark.parametrize("most", [1, 3, 10])
def test_folding_never_lowers_the_exit_code(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(most)
    (gpu, *_) = was_read(collectors.node(NODE).gpus)
    situation = Situation((gpu,), 580)
    folded = 0
    for _ in range(200):
        log = events(chance)
        monkeypatch.setattr(diagnose, "MOST_INCIDENTS", 10_000)
        whole = find_incidents(log, situation)
        monkeypatch.setattr(diagnose, "MOST_INCIDENTS", most)
        short = find_incidents(log, situation)
        assert exit_code(short) >= exit_code(whole)
        folded += len(short) < len(whole)
    assert folded > 50


def test_a_flood_is_told_in_one_incident() -> None:
    """And the fatal error behind it is found."""
    flood = growth.cgroups(MOST_INCIDENTS + 100)
    report = judged(flood, "h100-8x")
    assert len(report.incidents) <= MOST_INCIDENTS + 4
    (rest,) = [one for one in report.incidents if "are left out" in one.because]
    assert "other incidents no more serious" in rest.because
    dead = "NVRM: Xid (PCI:0000:99:00): 79, pid=7, name=p, GPU has fallen off the bus."
    lines = [f"cgroup: fork rejected by pids controller in /user.slice/u{n}" for n in range(600)]
    assert judged(growth.logged([*lines, dead]), "h100-8x").exit_code >= 30
