"""When a run proposes a proof, of what, and how."""

from __future__ import annotations

from typing import Any

import pytest
from building import was_read
from over_time import EIGHT

from gpuscan import profile
from gpuscan.collectors import node as collect
from gpuscan.engine.case import SWAP, Case
from gpuscan.engine.hold import key_of
from gpuscan.engine.proposing import propose_proof
from gpuscan.model import Held, Node, Past
from gpuscan.model.proof import Outcome, ProofRow, Proposal
from gpuscan.model.report_rows import RunInfo
from gpuscan.recording import load
from gpuscan.renderers.proof import proposal

BASE = collect(load(EIGHT))
SERIALS = {gpu.label: str(gpu.serial) for gpu in was_read(BASE.gpus)}
NOW_S, PART = 100.0, "gpu:SXM4"


def held(check: str = "nvlink.links", subject: str = PART, **changes: Any) -> Held:
    label = subject.partition(":")[2]
    serial = SERIALS.get(label, "")
    one = Held(40, "inspect", check, subject, label, "", serial, "", "passive", "", "", 1.0, 2.0)
    return one._replace(**changes)


LINKS = held()
BEGUN = held(SWAP, code=41, action="replace")
PORT = held("infiniband.symbol_errors", "port:mlx5_3/1")


def node(before: tuple[Held, ...], lifted: tuple[Held, ...] = ()) -> Node:
    return BASE._replace(past=Past(NOW_S, 1, (), (), (), (), before, lifted=lifted))


def proposed(
    before: tuple[Held, ...],
    after: tuple[Held, ...] | None = None,
    lifted: tuple[Held, ...] = (),
    **run: Any,
) -> Proposal | None:
    case = Case(node(before, lifted), profile.load("h100-8x"), (), run=RunInfo()._replace(**run))
    kept = before if after is None else after
    rows = [
        ProofRow(one.check, one.subject, one.serial, Outcome.NOT_EXERCISED, 0, "", 0, None, None, 0,
                 unproven=True)
        for one in before
        if key_of(one) not in map(key_of, kept)
    ]  # fmt: skip
    return propose_proof(case, kept, rows)


NAME = "gpu SXM4 (nvlink.links)"


@pytest.mark.parametrize(
    ("given", "command", "faults", "seconds"),
    [
        (((LINKS,),), "gpuscan prove", (NAME,), 600),
        (((LINKS, held("pcie.replays")),), "gpuscan prove", (NAME, "gpu SXM4 (pcie.replays)"), 600),
        (((LINKS,), ()), f"gpuscan prove --part {PART}", (NAME,), 600),
        (((), (), (LINKS,)), f"gpuscan prove --part {PART}", (NAME,), 600),
        (((PORT,),), "gpuscan prove", ("port mlx5_3/1 (infiniband.symbol_errors)",), 600),
        (((PORT, LINKS), (PORT,)), f"gpuscan prove --hold --part {PART}", None, 600),
        (
            ((held(serial="1650000000999"), BEGUN),),
            "gpuscan swap verify --level quick",
            (NAME,),
            300,
        ),
    ],
)
def test_what_nobody_has_exercised_is_proposed(
    given: tuple[Any, ...], command: str, faults: tuple[str, ...] | None, seconds: float
) -> None:
    one = proposed(*given)
    assert one is not None
    assert (one.command, one.seconds) == (command, seconds)
    assert faults is None or one.faults == faults


@pytest.mark.parametrize(
    ("given", "run"),
    [
        (((),), {}),
        (((LINKS,),), {"recording": "node.json.gz"}),
        (((LINKS,),), {"proof": True}),
        (((LINKS,), (LINKS._replace(seen_s=NOW_S),)), {}),
        (((LINKS,), (LINKS._replace(exercised_s=50.0),)), {}),
        (((), (), (LINKS,)), {"level": "quick"}),
        (((LINKS._replace(asleep=True),),), {}),
        (((LINKS._replace(of_root=True),),), {}),
        (((held("driver.version", "node"),),), {}),
        (((held("host.memory_errors", "node"),),), {}),
        (((LINKS, BEGUN),), {}),
    ],
    ids=["nothing held", "recording", "proof", "shows now", "exercised", "a burn-in since",
         "asleep", "root's", "a setting", "nothing exercises it", "before the swap"],
)  # fmt: skip
def test_nothing_is_proposed_in_vain(given: tuple[Any, ...], run: dict[str, Any]) -> None:
    assert proposed(*given, **run) is None


def test_a_proposal_is_one_short_sentence() -> None:
    one = Proposal("gpuscan prove", (NAME,), 600.0)
    assert proposal(one) == f"gpuscan prove exercises {NAME} for 10 min: is the fault gone?"
    many = Proposal("gpuscan prove", tuple(f"gpu SXM{n} (a.b)" for n in range(8)), 600.0)
    assert "gpu SXM2 (a.b) and 5 more for 10 min: are the faults gone?" in proposal(many)


@pytest.mark.parametrize(
    ("events", "over_s", "told"),
    [
        (3, 60.0, "gpuscan prove exercises gpu SXM4 (xid.faults) for 10 min"),
        (
            1,
            5340.0,
            "gpuscan prove --confidence 0.9 exercises gpu SXM4 (xid.faults) for about 3.4 h",
        ),
        (1, 1e7, "gpuscan prove --confidence 0.9 exercises gpu SXM4 (xid.faults) for about 12.0 h"),
    ],
)
def test_a_fault_that_is_rare_is_given_the_time_that_it_takes(
    events: int, over_s: float, told: str
) -> None:
    found = proposed((held("xid.faults", events=events, over_s=over_s),))
    assert found is not None
    assert proposal(found) == f"{told}: is the fault gone?"
