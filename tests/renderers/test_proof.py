"""How people are told what a proof came to: in the text, in one line, in JUnit."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from building import plain, report_of

from gpuscan.model.outcome import Status
from gpuscan.model.proof import SECONDS, FaultRate, Outcome, ProofRow, Proposal
from gpuscan.model.report_rows import RunInfo
from gpuscan.renderers import junit, proof, text
from gpuscan.renderers.headline import headline
from gpuscan.renderers.json_ import document

RATE = FaultRate(2, 4000.0, "matrix products", "the archive: wrong in 2 runs")
ROW = ProofRow(
    "burnin.corruption", "gpu:SXM4", "165", Outcome.NOT_SEEN, 8412.0, "matrix products", 480.0,
    71, 70.0, 58_880.0, 0.985, 0.894, RATE,
)  # fmt: skip
PART = "gpu SXM4, serial 165 (burnin.corruption): "
DONE = (
    "exercised 8,412 matrix products in 8 min, core up to 71 °C (70 °C when it showed); its"
    " neighbours 58,880 matrix products beside it"
)
SURE = (
    "confidence 98.5 % (89.4 % allowing for so few events) that it would have shown, at 2 in 4,000"
    " matrix products (the archive: wrong in 2 runs)"
)
IDLE: dict[str, Any] = {"seconds": 0.0, "confidence": None, "outcome": Outcome.NOT_EXERCISED}
HOURS = FaultRate(120, 3600.0, SECONDS, "InfiniBand", documented=True)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, [f"{PART}did not show again", DONE, SURE]),
        ({"rate": None, "confidence": None}, [f"{PART}did not show again", DONE]),
        (
            {**IDLE, "why": "nothing here exercises it"},
            [f"{PART}not proven by exercise: nothing here exercises it"],
        ),
        (
            {**IDLE, "outcome": Outcome.BY_STATE},
            [f"{PART}needs no exercise: the scan shows whether it is gone"],
        ),
        (
            {"outcome": Outcome.SEEN, "why": "burnin.corruption: 3 wrong", "confidence": None},
            [f"{PART}showed again: 3 wrong", DONE],
        ),
        (
            {"outcome": Outcome.UNFINISHED, "why": "cut", "confidence": None, "serial": ""},
            [
                "gpu SXM4 (burnin.corruption): did not show again, but was not exercised to the"
                " end: cut",
                DONE,
            ],
        ),
        (
            {"unit": SECONDS, "amount": 480.0, "beside": 3360.0, "hottest_c": None,
             "rate": HOURS, "confidence": 0.99999},
            [
                f"{PART}did not show again",
                "exercised 8 min; its neighbours 56 min beside it",
                "confidence more than 99.99 % that it would have shown (InfiniBand)",
            ],
        ),
    ],
    ids=["sure", "no rate", "not exercised", "by state", "seen", "unfinished", "documented"],
)  # fmt: skip
def test_a_proof_is_told_in_a_few_sentences(changes: dict[str, Any], told: list[str]) -> None:
    row = ROW._replace(**changes)
    assert list(proof.sentences(row)) == told
    assert proof.sentence(row) == "; ".join(told)
    first, *rest = (line.text for line in proof.lines((row,)))
    assert [first.removeprefix("Proof:   "), *(line.strip() for line in rest)] == told


def test_a_row_survives_json() -> None:
    (row,) = document(report_of(proof=(ROW,)))["proof"]
    assert proof.parse(row) == ROW
    assert proof.parse({**row, "rate": None, "of_a_newer_gpuscan": 1}) == ROW._replace(rate=None)


def test_what_is_lifted_without_a_proof_is_told_in_every_form() -> None:
    row = ROW._replace(**IDLE, unproven=True)
    report = report_of(proof=(row, ROW._replace(check="a.b")))
    told = "not exercised since the fault: gpu SXM4 (burnin.corruption)"
    assert headline(report).endswith(f"; {told}")
    assert text.render([report], verbosity=-1) == f"{headline(report)}\n"
    out = ET.fromstring(junit.render([report], verbosity=0)).findtext("testsuite/system-out")
    assert out is not None
    assert out.splitlines()[-1] == told
    assert "did not show again; exercised 8,412" in out


def test_a_proofs_one_line_says_what_it_came_to() -> None:
    rows = (ROW, ROW._replace(check="a.b"), ROW._replace(check="c.d", outcome=Outcome.SEEN))
    line = headline(report_of(proof=rows, run=RunInfo(proof=True)))
    assert "; did not show again: gpu SXM4 (burnin.corruption), gpu SXM4 (a.b); showed" in line
    assert "show" not in headline(report_of(proof=rows)), "a burn-in's own findings say it"


def test_a_proof_that_was_cut_short_says_what_to_do() -> None:
    row = ROW._replace(outcome=Outcome.UNFINISHED, confidence=None)
    unknown = [plain(Status.UNKNOWN, check) for check in ("burnin.completion", "proof.exercised")]
    report = report_of(*unknown, proof=(row,), run=RunInfo(proof=True))
    assert headline(report) == (
        "incomplete (3); did not show again, but was not exercised to the end: gpu SXM4"
        " (burnin.corruption)"
    )
    told = "Incomplete: keep the node drained. Mend what kept the proof from its end, then run it"
    assert f"{told} again.\n" in text.render([report], verbosity=0)
    other = report_of(*unknown, plain(Status.UNKNOWN, "a.b"), run=RunInfo(proof=True))
    assert "doctor" in text.render([other], verbosity=0)


def test_a_proposal_ends_the_report() -> None:
    proposed = Proposal("gpuscan prove", ("gpu SXM4 (a.b)",), 600.0)
    out = text.render([report_of(proposed=proposed)], verbosity=0)
    told = "gpuscan prove exercises gpu SXM4 (a.b) for 10 min: is the fault gone?"
    assert out.splitlines()[-1] == f"Prove:   {told}"
