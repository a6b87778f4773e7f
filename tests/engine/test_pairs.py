"""What fails between two GPUs: the GPU that the failing pairs have in common is blamed, not
those at the other ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from building import was_read
from burnt import burn_test
from machine import EIGHT
from nodes_recordings import judged_facts

from gpuscan import collectors
from gpuscan.engine.report import Report
from gpuscan.model import BurnTest
from gpuscan.model.outcome import Result, Status
from gpuscan.model.subject import Subject
from gpuscan.recording import load
from gpuscan.renderers import folding, text

NODE = collectors.node(load(str(EIGHT)))
GPUS = {gpu.label: gpu.address for gpu in was_read(NODE.gpus)}
GOOD = {"peer_one_way_gbps": 391.4, "peer_both_gbps": 760.0}
Bad = Callable[[str, str], bool]


def pair(gpu: str, to: str, **facts: Any) -> BurnTest:
    whole: dict[str, Any] = {
        "what": "words",
        "operations": 4096,
        "mismatches": 0,
        "remap_pending": False,
        "first_mismatches": (),
        "error": "",
        "text": "",
        **facts,
    }
    return burn_test(gpu, "peer", whole.pop("rates", GOOD), to=to, address=GPUS[gpu], **whole)


def slow(gpu: str, to: str) -> BurnTest:
    at = list(GPUS).index(gpu) + 0.1 * list(GPUS).index(to)  # no two measure the same
    return pair(gpu, to, rates={name: 0.75 * rate - at for name, rate in GOOD.items()})


def wrong(gpu: str, to: str) -> BurnTest:
    return pair(gpu, to, mismatches=3, mismatches_again=(2,))


def stuck(gpu: str, to: str) -> BurnTest:
    return pair(gpu, to, ended="stuck", text="told nothing for 60 s")


FAULTS = [
    (slow, "burnin.floor"),
    (wrong, "burnin.corruption"),
    (stuck, "burnin.completion"),
]


def report(
    made: Callable[[str, str], BurnTest], bad: Bad, gpus: Sequence[str] = tuple(GPUS)
) -> Report:
    pairs = [(gpu, to) for gpu in gpus for to in gpus if gpu != to]
    tests = tuple(made(*both) if bad(*both) else pair(*both) for both in pairs)
    return judged_facts(NODE._replace(tests=tests), "h100-8x")


def failed(found: Report, check: str) -> list[Result]:
    return [
        result for result in found.results if result.check == check and result.status is Status.FAIL
    ]


def find_targets(found: Report) -> set[str]:
    return {target.subject for target in found.targets}


@pytest.mark.parametrize(("made", "check"), FAULTS)
@pytest.mark.parametrize(
    ("bad", "culprit", "number"),
    [
        (lambda gpu, to: "SXM5" in (gpu, to), "SXM5", "all 14"),
        (lambda gpu, _to: gpu == "SXM5", "SXM5", "all 7"),
        (lambda _gpu, to: to == "SXM5", "SXM5", "all 7"),
        (lambda gpu, to: gpu == "SXM5" and to in ("SXM1", "SXM2"), "SXM5", "all 2"),
    ],
)
def test_one_gpu_that_all_have_in_common(
    made: Any, check: str, bad: Bad, culprit: str, number: str
) -> None:
    found = report(made, bad)
    rows = failed(found, check)
    assert find_targets(found) == {f"gpu:{culprit}"}
    assert {row.address for row in rows} == {GPUS[culprit]}
    assert all(f.culprits == (culprit,) and not f.shared for row in rows for f in row.findings)
    assert all(
        f"{culprit} is in {number} pairs that fail like this" in f.message
        for row in rows
        for f in row.findings
    )


@pytest.mark.parametrize(("made", "check"), FAULTS)
def test_of_two_bad_gpus_each_is_blamed_for_its_own(made: Any, check: str) -> None:
    found = report(made, lambda gpu, to: bool({"SXM5", "SXM2"} & {gpu, to}))
    assert find_targets(found) == {"gpu:SXM2", "gpu:SXM5"}
    assert any(
        "SXM2 is in 14 of the 26 pairs" in f.message
        for row in failed(found, check)
        for f in row.findings
    )


@pytest.mark.parametrize(("made", "check"), FAULTS)
@pytest.mark.parametrize(
    ("bad", "gpus", "culprits"),
    [
        (lambda gpu, to: {gpu, to} == {"SXM5", "SXM2"}, tuple(GPUS), {"gpu:SXM2", "gpu:SXM5"}),
        (lambda gpu, to: (gpu, to) == ("SXM5", "SXM2"), tuple(GPUS), {"gpu:SXM2", "gpu:SXM5"}),
        (lambda _gpu, _to: True, ("SXM2", "SXM5"), {"gpu:SXM2", "gpu:SXM5"}),
        (lambda _gpu, _to: True, tuple(GPUS), {f"gpu:{gpu}" for gpu in GPUS}),
    ],
)
def test_where_nothing_tells_the_ends_apart_both_are_named(
    made: Any, check: str, bad: Bad, gpus: Sequence[str], culprits: set[str]
) -> None:
    found = report(made, bad, gpus)
    assert find_targets(found) == culprits
    assert not any(
        "pairs that fail like this" in f.message
        for row in failed(found, check)
        for f in row.findings
    )


def test_what_is_slow_in_one_test_is_not_shared_with_another() -> None:
    memory = burn_test("SXM1", "hbm", {"hbm_copy_gbps": 2000.0}, address=GPUS["SXM1"])
    pairs = tuple(slow(gpu, to) for gpu in GPUS for to in GPUS if gpu != to)
    found = judged_facts(NODE._replace(tests=(memory, *pairs)), "h100-8x")
    shared = {
        r.subject.split(" ")[1]: f.shared for r in failed(found, "burnin.floor") for f in r.findings
    }
    assert shared == {"hbm": False, "peer": True}


def test_many_pairs_that_are_slow_take_a_few_lines() -> None:
    found = report(slow, lambda _gpu, _to: True)
    lines = text.render([found], verbosity=0).splitlines()
    assert sum(line.startswith("FAIL") for line in lines) == 4
    assert any("and 108 more of these (-v shows them)" in line for line in lines)
    whole = text.render([found], verbosity=1)
    assert whole.count("FAIL") == 112


def test_many_pairs_with_one_sentence_are_named_in_part() -> None:
    every = [
        Subject("test", f"{gpu} peer {to}", gpu=gpu, test="peer", peer=to)
        for gpu in GPUS
        for to in GPUS
        if gpu != to
    ]
    assert folding.fold(every).startswith("test peer on SXM3 to SXM1, ")
    assert folding.fold(every).endswith(" and 48 more")
    assert folding.fold(every[:8]).count(" to ") == 8
