"""The plans of a burn-in: how long they take, and when they end at the latest."""

from __future__ import annotations

import pytest
from paths import RECORDINGS

from gpuscan import collectors
from gpuscan.burnin.plan import make_plan
from gpuscan.burnin.request import BurnInOptions
from gpuscan.live.supervisor import Options
from gpuscan.recording import load

HOUR_S = 3600.0
LONG = [("long", hours * HOUR_S) for hours in (1, 24, 72, 24 * 7, 24 * 30)]


@pytest.mark.parametrize("name", ["h100-2x", "h100-8x-ib"])
@pytest.mark.parametrize(
    ("level", "duration_s"), [("quick", 0.0), ("medium", 0.0), ("long", 0.0), *LONG]
)
def test_a_good_node_is_done_before_the_deadline(name: str, level: str, duration_s: float) -> None:
    """The last round begins when the time is nearly spent, and then takes as long as any other."""
    node = collectors.node(load(str(RECORDINGS / f"{name}.json.gz")))
    plan = make_plan(node, BurnInOptions(level, duration_s, force=True))
    one_s = sum(step.seconds for step in plan.steps)
    assert plan.rounds_s >= duration_s
    assert plan.expected_s >= plan.rounds_s, "rounds are whole"
    assert level != "long" or duration_s or plan.expected_s < 5700, "90 minutes are announced"
    assert Options(deadline_s=plan.deadline_s).reading_s() > plan.expected_s + (
        one_s if plan.rounds_s else 0
    )
