"""InfiniBand over generated fabrics: a rail's fault is found with its class, whatever storage
ports, spares and virtual functions stand beside it, and a healthy fabric is never failed.
"""

from __future__ import annotations

import pytest
from fabrics import FAULTS, draw
from nodes_recordings import judged, not_passed

TWINS = 60  # healthy and faulty fabrics each; a thousand were run once
SEED = 1000


@pytest.mark.parametrize("number", range(SEED, SEED + TWINS))
def test_a_healthy_fabric_is_not_failed(number: int) -> None:
    fabric = draw(number, faulty=False)
    report = judged(fabric.recording, fabric.profile, fabric.settings)
    assert report.exit_code in fabric.right, (fabric.about, fabric.settings, not_passed(report))


@pytest.mark.parametrize("number", range(SEED, SEED + TWINS))
def test_a_faulty_rail_is_found_with_its_class(number: int) -> None:
    fabric = draw(number, faulty=True)
    report = judged(fabric.recording, fabric.profile, fabric.settings)
    assert report.exit_code in fabric.right, (fabric.about, fabric.settings, not_passed(report))


def test_the_sample_plants_every_fault() -> None:
    planted = {draw(number, faulty=True).about.partition(":")[0] for number in range(1000, 1060)}
    assert planted == set(FAULTS)
