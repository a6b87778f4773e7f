"""What a proof's rows say of the tests that a run did: on nodes made by hand, and of a thousand
simulated repairs that mended nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pytest
from building import failing, was_read
from burnt import burn_test, load
from faults import FAULTS
from nodes_recordings import base, judged_facts
from over_time import EIGHT

from gpuscan.collectors import node as collect
from gpuscan.engine.confidence import exposure_for
from gpuscan.engine.proof import proof_rows
from gpuscan.engine.proving import ask_all
from gpuscan.engine.report import Report
from gpuscan.model import BurnTest, Held, Node, Past, PastTest, Unread, read_or
from gpuscan.model.outcome import Action, Result, Status
from gpuscan.model.proof import FaultRate, Outcome, ProofAsked, ProofRow
from gpuscan.model.subject import Subject
from gpuscan.recording import load as load_recording
from gpuscan.recording import patch

BASE = collect(load_recording(EIGHT))
GPUS = {gpu.label: gpu for gpu in was_read(BASE.gpus)}
PART, OTHER = "SXM4", "SXM7"
WRONG = "burnin.corruption"
NO_LIBRARY: Any = Unread("burnin:nccl()", "not-recorded", "no libnccl.so.2 was found")
GONE: Any = Unread("run:ib_write_bw", "not-recorded", "ib_write_bw is not on PATH")


def held(check: str, tests: str = "", subject: str = f"gpu:{PART}") -> Held:
    label = subject.partition(":")[2]
    serial = str(GPUS[label].serial) if label in GPUS else ""
    first = Held(40, "inspect", check, subject, label, "", serial, "", "quick", "", "", 1.0, 2.0)
    return first._replace(tests=tests)


def done(name: str, gpu: str = PART, **facts: Any) -> BurnTest:
    address = GPUS[gpu].address if gpu in GPUS else ""
    compared = {"what": "matrix products", "operations": 100, "mismatches": 0}
    warm = load(core_c=60)
    return burn_test(gpu, name, **{"address": address, "load": warm, **compared, **facts})


def row(
    reason: Held,
    tests: Sequence[BurnTest],
    *results: Result,
    burnt: tuple[PastTest, ...] = (),
    node: Node = BASE,
) -> ProofRow:
    past = Past(3.0, 1, (), (), (), (), (reason,), burnt=burnt)
    (one,) = proof_rows(node._replace(past=past, tests=tuple(tests)), results)
    return one


def on_test(test: BurnTest, check: str, status: Status = Status.FAIL) -> Result:
    about = Subject("test", test.label, test.address, gpu=test.gpu, test=test.name, peer=test.to)
    return failing(Action.INSPECT, check, status)._replace(about=about, status=status)


def test_a_test_that_this_machine_does_not_offer_takes_nothing_from_the_others() -> None:
    tests = [done("peer", to=OTHER), done("nccl", "node", ended=NO_LIBRARY)]
    assert row(held("nvlink.links"), tests).outcome is Outcome.NOT_SEEN
    alone = row(held("nvlink.links"), tests[1:])
    assert (alone.outcome, alone.why) == (Outcome.NOT_EXERCISED, NO_LIBRARY.text)


def test_a_test_in_which_the_gpu_failed_exercised_nothing_to_the_end() -> None:
    dead = done("exact-fp8", ended="lost", text="CUDA_ERROR_UNKNOWN")
    reason = held(WRONG, f"{PART} exact-fp8")
    assert row(reason, [dead]).outcome is Outcome.UNFINISHED
    assert row(reason, [dead], on_test(dead, "burnin.completion")).outcome is Outcome.SEEN


def test_heat_shows_only_where_the_temperature_was_read() -> None:
    reason = held("thermal.core_temperature")
    assert row(reason, [done("stress-bf16")]).outcome is Outcome.NOT_SEEN
    blind = row(reason, [done("stress-bf16", load=load())])
    assert (blind.outcome, blind.why) == (
        Outcome.UNFINISHED,
        "no temperature was read under load",
    )


@pytest.mark.parametrize(
    ("core_c", "sure", "told"),
    [
        (65, True, ""),
        (64, False, "the core stayed below 70 °C, at which it showed: no confidence"),
        (None, False, "the core was not seen to reach 70 °C, at which it showed: no confidence"),
    ],
)
def test_a_gpu_that_was_not_as_hot_gives_no_confidence(
    core_c: int | None, sure: bool, told: str
) -> None:
    burnt = (PastTest(f"test:{PART} exact-fp8", 1, 100.0, 1.0, 70.0),)
    warm = load() if core_c is None else load(core_c=core_c)
    tests = [done("exact-fp8", load=warm)]
    one = row(held(WRONG, f"{PART} exact-fp8"), tests, burnt=burnt)
    assert (one.outcome, one.confidence is not None, one.why) == (Outcome.NOT_SEEN, sure, told)


@pytest.mark.parametrize(
    ("check", "tests", "found", "again"),
    [
        (WRONG, "exact-fp8", "burnin.floor", False),
        (WRONG, "exact-fp8", "burnin.kernel_log", True),
        ("burnin.floor", "stress-bf16", "burnin.floor", True),
        ("burnin.floor", "stress-bf16", WRONG, False),
        ("burnin.temperature", "exact-fp8", "burnin.slowdown", True),
        ("thermal.core_temperature", "", "burnin.temperature", True),
        ("pcie.replays", "", "burnin.error_counters", True),
        ("pcie.replays", "", "burnin.floor", False),
    ],
)
def test_only_a_fault_of_its_kind_is_the_fault_again(
    check: str, tests: str, found: str, again: bool
) -> None:
    names = {"exact-fp8", "stress-bf16", "pcie"}
    mine = [done(name) for name in sorted(names)]
    reason = held(check, f"{PART} {tests}" if tests else "")
    outcome = row(reason, mine, *(on_test(test, found) for test in mine)).outcome
    assert outcome is (Outcome.SEEN if again else Outcome.NOT_SEEN)


def test_a_line_in_the_log_is_the_fault_again_on_its_gpu_alone() -> None:
    reason = held("xid.faults")
    tests = [done("stress-bf16"), done("stress-bf16", OTHER)]
    logged = failing(Action.RESET_GPU, "xid.faults")
    for gpu, outcome in ((PART, Outcome.SEEN), (OTHER, Outcome.NOT_SEEN)):
        about = Subject("incident", f"Xid 119 on {gpu}", GPUS[gpu].address, "xid:119")
        assert row(reason, tests, logged._replace(about=about)).outcome is outcome


def test_a_state_that_is_no_fault_of_that_kind_is_not_the_fault_again() -> None:
    reason, tests = held("memory.row_remap_pending"), [done("memory-hot")]
    about = Subject("gpu", PART, GPUS[PART].address)
    for check, action, outcome in (
        ("memory.uncorrectable_ecc", Action.RESET_GPU, Outcome.SEEN),
        ("memory.ecc_mode", Action.FIX_CONFIG, Outcome.NOT_SEEN),
    ):
        result = failing(action, check)._replace(about=about)
        assert row(reason, tests, result).outcome is outcome


def test_errors_that_are_too_few_to_fail_leave_no_confidence() -> None:
    reason = held("nvlink.link_errors")
    mine = [done("peer", to=OTHER, seconds=0.01)]
    clean = row(reason, mine)
    assert clean.confidence == pytest.approx(1 - math.exp(-1)), "100 a second"
    few = row(reason, mine, on_test(mine[0], "burnin.error_counters", Status.WARN))
    assert (few.outcome, few.confidence) == (Outcome.NOT_SEEN, None)
    assert few.why.startswith("less than fails: burnin.error_counters")


def test_what_the_check_itself_could_not_read_shows_nothing() -> None:
    lack = Unread("nvml:a()", "no-permission", "not allowed")
    about = Subject("gpu", PART, GPUS[PART].address)
    blind = Result("pcie.replays", about, Status.UNKNOWN, "", unread=(("gpu.pcie", lack),))
    one = row(held("pcie.replays"), [done("pcie")], blind)
    assert (one.outcome, one.why) == (Outcome.UNFINISHED, "pcie.replays: not allowed")


def test_each_port_has_its_own_traffic() -> None:
    one, other, *_ = was_read(BASE.ports)
    two_ports = BASE._replace(ports=(one, other._replace(label="mlx5_1/2", number=2)))
    tests = [
        burn_test("node", "ib_write_bw", kind="tool", part="mlx5_0", seconds=30.0),
        burn_test("node", "ib_write_bw", kind="tool", part="mlx5_1 port 2", ended=GONE),
    ]
    first = row(held("infiniband.link_flaps", subject="port:mlx5_0/1"), tests, node=two_ports)
    assert (first.outcome, first.amount) == (Outcome.NOT_SEEN, 30.0)
    second = row(held("infiniband.link_flaps", subject="port:mlx5_1/2"), tests, node=two_ports)
    assert second.outcome is Outcome.NOT_EXERCISED
    assert second.why.startswith("ib_write_bw is not on PATH")


AGAIN = (Outcome.SEEN, Outcome.BY_STATE)


def clean_tests(asked: ProofAsked, gpus: Mapping[str, str]) -> list[BurnTest]:
    """The tests that were asked for, with nothing wrong in them, on GPUs (label to address)."""
    if asked.tests == ("ib_write_bw",):
        hca, _, port = asked.subject.removeprefix("port:").partition("/")
        part = hca if port == "1" else f"{hca} port {port}"
        return [burn_test("node", "ib_write_bw", kind="tool", part=part, seconds=30.0)]
    return [
        done(name, gpu, address=gpus[gpu], **({"to": "another"} if name == "peer" else {}))
        for name in asked.tests
        for gpu in asked.gpus
    ]


def rows_after_clean_tests(facts: Node, report: Report, reasons: Sequence[Held]) -> list[ProofRow]:
    """The rows of a node held for these reasons, once all that they ask for was done."""
    facts = facts._replace(past=Past(3.0, 1, (), (), (), (), tuple(reasons)))
    gpus = {gpu.label: gpu.address for gpu in read_or(facts.gpus, ())}
    clean = [test for one in ask_all(facts) for test in clean_tests(one, gpus)]
    tests = (*read_or(facts.tests, ()), *clean)
    return list(proof_rows(facts._replace(tests=tests), report.results))


@pytest.mark.sweep
@pytest.mark.parametrize("name", FAULTS)
def test_what_held_a_node_is_seen_again_after_clean_tests(name: str) -> None:
    """For each known fault: where all that is asked for was done and found nothing, but the check
    still fails, the proof says so; and says nothing of the kind of a GPU that has no such fault.
    """
    fault = FAULTS[name]
    recording = patch(base(fault["base"]), fault.get("set", {}), fault.get("log", ()))
    facts = collect(recording)._replace(past=Past(3.0, 1, (), (), (), (), ()))
    profile = fault.get("profile", "") or recording.meta.profile or "auto"
    busy = fault.get("context") == "busy"
    report = judged_facts(facts, profile, tuple(fault.get("settings", ())), busy=busy)
    for one in rows_after_clean_tests(facts, report, report.held):
        if one.outcome is Outcome.NOT_EXERCISED:
            assert one.why.startswith("nothing here exercises it"), one
        else:
            assert one.outcome in AGAIN, one
    failed = {one.subject for one in report.results if one.status is Status.FAIL}
    failed |= {one.subject for one in report.held}
    good = [gpu for gpu in read_or(facts.gpus, ()) if f"gpu:{gpu.label}" not in failed]
    mine = [one for one in report.held if one.subject.startswith("gpu:")]
    for gpu in good[:1]:
        moved = [
            one._replace(
                subject=f"gpu:{gpu.label}",
                slot=gpu.label,
                address=gpu.address,
                serial=str(read_or(gpu.serial, "")),
                tests="",
            )
            for one in mine
        ]
        for row_ in rows_after_clean_tests(facts, report, moved):
            assert row_.outcome is not Outcome.SEEN, "the fault is another GPU's"


REPAIRS, EACH = 1000, 1e-4  # simulated, and events of the planted fault in a product
CHANCE_SEED = 16


def repairs(events: int, wanted: float, *, known: bool) -> tuple[float, float, float]:
    """Simulate repairs that mended nothing, each proven for as long as a confidence was *wanted*.

    Return the share in which the fault showed, and the means of confidence and cautious figure that
    the rows would have had: where the archive had so many *events* in as much work as they take on
    average (*known*), or in as much as it took until the last of them.
    """
    chance = random.Random(CHANCE_SEED + events)
    reason, name = held(WRONG, f"{PART} exact-fp8"), f"test:{PART} exact-fp8"
    found, sure, careful = 0, [], []
    for _ in range(REPAIRS):
        work = events / EACH if known else chance.gammavariate(events, 1 / EACH)
        rate = FaultRate(events, work, "matrix products", "")
        exposure = exposure_for(rate, wanted)
        test = done("exact-fp8", operations=exposure)
        archive = (PastTest(name, events, work, 60.0, 60.0),)
        clean = row(reason, [test], burnt=archive)
        if chance.expovariate(EACH) < exposure:
            found += row(reason, [test], on_test(test, WRONG)).outcome is Outcome.SEEN
        assert clean.confidence is not None
        assert clean.cautious is not None
        sure.append(clean.confidence)
        careful.append(clean.cautious)
    return found / REPAIRS, fmean(sure), fmean(careful)


def deviations(share: float, expected: float) -> float:
    """Return by how many standard deviations a share of the repairs differs from what it should
    be.
    """
    return abs(share - expected) / math.sqrt(expected * (1 - expected) / REPAIRS)


@pytest.mark.parametrize("wanted", [0.5, 0.9, 0.99])
def test_the_confidence_is_the_share_of_unmended_parts_that_are_found(wanted: float) -> None:
    share, sure, _ = repairs(20, wanted, known=True)
    assert sure == pytest.approx(wanted)
    assert deviations(share, sure) < 4


@pytest.mark.parametrize("events", [1, 2, 5, 20])
def test_the_cautious_figure_holds_for_a_rate_that_is_known_from_few_events(events: int) -> None:
    """Which the confidence does not: 99 % are 82 % after one event, 91, 96 and 98 % after 2, 5 and
    20.
    """
    share, sure, careful = repairs(events, 0.99, known=False)
    assert sure == pytest.approx(0.99)
    assert deviations(share, careful) < 4
    if events <= 5:
        assert deviations(share, sure) > 4


def test_a_test_that_counted_nothing_proves_nothing() -> None:
    empty = done("exact-fp8", operations=0)
    assert row(held(WRONG, f"{PART} exact-fp8"), [empty]).outcome is Outcome.UNFINISHED
