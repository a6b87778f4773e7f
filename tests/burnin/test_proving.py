"""Which tests a proof plans for a hold: by the hold and the archive alone, on a node of eight."""

from __future__ import annotations

import json
import math

import pytest
from building import was_read
from faults import faulty
from hypothesis import given
from hypothesis import strategies as st
from over_time import EIGHT

from gpuscan.burnin.levels import TIMES, make_steps
from gpuscan.burnin.plan import make_plan
from gpuscan.burnin.proving import SPARE, Wish, add_proof, make_proof, steps_of
from gpuscan.burnin.proving import TIMES as PROOF_TIMES
from gpuscan.burnin.request import BurnInOptions
from gpuscan.collectors import node as collect
from gpuscan.engine import judging
from gpuscan.engine.confidence import cautious, confidence, exposure_for
from gpuscan.engine.drives import level_of
from gpuscan.engine.proving import ask_all, ask_named, refuse_unknown
from gpuscan.errors import UsageError
from gpuscan.model import Fault, Held, Node, Past, PastTest, Unread
from gpuscan.model.proof import SECONDS, FaultRate, ProofAsked
from gpuscan.recording import load

BASE = collect(load(EIGHT))
GPUS = {gpu.label: gpu for gpu in was_read(BASE.gpus)}
PART, OTHER = "SXM4", "SXM7"
LABELS = {gpu.address: label for label, gpu in GPUS.items()}


def held(check: str, subject: str = f"gpu:{PART}", tests: str = "") -> Held:
    label = subject.partition(":")[2]
    serial = str(GPUS[label].serial) if label in GPUS else ""
    first = Held(41, "replace", check, subject, label, "", serial, "", "quick", "", "", 1.0, 2.0)
    return first._replace(tests=tests)


def node(*reasons: Held, same: str = "", burnt: tuple[PastTest, ...] = ()) -> Node:
    faults = tuple(
        Fault(one.check, one.subject, one.serial, same, "replace", 2.0, "", "") for one in reasons
    )
    return BASE._replace(past=Past(3.0, 1, faults, (), (), (), reasons, burnt=burnt))


def logged(code: int) -> str:
    """What the archive has of a logged fault."""
    return json.dumps({"observed": code})


def asked(reason: Held, **more: object) -> ProofAsked:
    (one,) = ask_all(node(reason, **more))  # type: ignore[arg-type]
    return one


@pytest.mark.parametrize(
    ("check", "same", "tests"),
    [
        ("nvlink.link_errors", "", ("peer", "nccl")),
        ("memory.row_remap_pending", "", ("memory-hot", "hbm")),
        ("pcie.replays", "", ("pcie", "pcie-together")),
        ("thermal.core_temperature", "", ("stress-bf16",)),
        ("xid.faults", logged(79), ("pulse-bf16", "stress-bf16", "pcie-together")),
        ("xid.faults", logged(63), ("memory-hot", "hbm")),
        ("xid.faults", logged(74), ("peer", "nccl")),
        ("xid.faults", logged(119), ("exact-bf16", "stress-bf16", "memory-hot")),
        ("burnin.completion", "", ("exact-bf16", "stress-bf16", "memory-hot")),
    ],
)
def test_a_kind_of_fault_has_its_exercise(check: str, same: str, tests: tuple[str, ...]) -> None:
    one = asked(held(check), same=same)
    assert (one.tests, one.gpus, one.lacks) == (tests, (PART,), "")


def test_two_codes_in_one_run_are_both_exercised() -> None:
    reason = held("xid.faults")
    both = node(reason, same=logged(79))
    past = was_read(both.past)
    faults = (*past.faults, past.faults[0]._replace(same=logged(48)))
    (one,) = ask_all(both._replace(past=past._replace(faults=faults)))
    assert one.tests == ("pulse-bf16", "stress-bf16", "pcie-together", "memory-hot", "hbm")
    assert one.unit == SECONDS


@pytest.mark.parametrize(
    ("fault", "tests"),
    [
        ("xid-48", ("memory-hot", "hbm")),
        ("xid-74", ("peer", "nccl")),
        ("xid-79", ("pulse-bf16", "stress-bf16", "pcie-together")),
        ("xid-119", ("exact-bf16", "stress-bf16", "memory-hot")),
        ("sxid-fatal", ("peer", "nccl")),
    ],
)
def test_a_code_that_was_judged_has_its_exercise(fault: str, tests: tuple[str, ...]) -> None:
    (found,) = (one for one in faulty(fault).results if one.findings)
    (finding,) = found.findings
    reason = held(found.check, str(found.about))
    fault_of = node(reason, same=finding.same)
    past = was_read(fault_of.past)
    faults = (past.faults[0]._replace(message=finding.message),)
    (one,) = ask_all(fault_of._replace(past=past._replace(faults=faults)))
    assert one.tests == tests


def test_what_a_proof_found_is_held_at_a_level_that_has_its_test() -> None:
    gpus = tuple(LABELS)
    names = {level: {one.name for one in make_steps(gpus, TIMES[level])} for level in TIMES}
    for step in make_steps(gpus, PROOF_TIMES):
        levels = [level for level in TIMES if step.name in names[level]]
        assert level_of(f"{PART} {step.name}") == levels[0]
    assert level_of(f"{PART} exact-bf16; {PART} pulse-bf16; {PART} peer {OTHER}") == "medium"
    assert level_of("node ib_write_bw mlx5_3") == "medium"
    assert level_of("") == "passive"


def test_a_count_in_the_log_is_the_rate() -> None:
    one = asked(held("xid.faults")._replace(events=3, over_s=7200.0), same=logged(79))
    assert one.rate == FaultRate(3, 7200.0, SECONDS, "counted from that boot on, idle or not")
    plan = make_proof(BASE, (one,), Wish(confidence=0.9))
    share = sum(step.seconds for step in plan.steps) / sum(s.seconds + 0.4 for s in plan.steps)
    assert confidence(one.rate, plan.rounds_s / SPARE * share) == pytest.approx(0.9)


def test_a_fault_that_is_one_from_a_rate_on_comes_at_that_rate() -> None:
    one = asked(held("nvlink.bit_errors")._replace(events=3, over_s=7200.0))
    links = len(was_read(GPUS[PART].nvlinks))
    assert one.rate is not None
    assert (one.rate.events, one.rate.documented) == (1, True)
    assert one.rate.exposure == pytest.approx(links * 1e12 / 64), "a link's share of the words"


def test_a_setting_needs_no_exercise() -> None:
    reason = held("nvlink.links")._replace(action="fix-config", code=20)
    assert asked(reason).by_state


def test_the_very_test_that_failed_is_run_again() -> None:
    one = asked(held("burnin.corruption", tests=f"{PART} exact-fp8"))
    assert (one.tests, one.unit) == (("exact-fp8",), "matrix products")
    steps = steps_of([one], tuple(LABELS), LABELS)
    assert [step.name for step in steps] == ["stress-fp8", "exact-fp8"], "heated first"
    assert all(set(step.gpus) == set(LABELS) for step in steps), "beside its neighbours"


def test_words_that_faded_are_left_alone_again() -> None:
    one = asked(held("burnin.corruption", tests=f"{PART} fade"))
    assert (one.tests, one.unit) == (("fade",), "words read")
    steps = steps_of([one], tuple(LABELS), LABELS)
    assert [step.name for step in steps] == ["stress-bf16", "fade"]
    assert steps[1].options["fade_s"] == TIMES["long"].fade


def test_what_another_program_found_is_not_proven_by_our_tests() -> None:
    one = asked(held("burnin.tools", tests=f"{PART} dcgmi-diag memory"))
    assert one.lacks.startswith("nothing here exercises it: dcgmi-diag, which found it, would")
    assert one.tests == ()


def test_a_pair_is_exercised_in_its_direction_beside_other_pairs() -> None:
    one = asked(held("burnin.corruption", tests=f"{PART} peer {OTHER}"))
    peers = [step for step in steps_of([one], tuple(LABELS), LABELS) if step.kind == "peer"]
    (step,) = peers
    assert step.to[GPUS[PART].address] == GPUS[OTHER].address
    assert len(step.to) == len(GPUS) / 2, "the other pairs are the control"


def test_of_two_gpus_the_way_back_is_the_control() -> None:
    one = asked(held("burnin.corruption", tests=f"{PART} peer {OTHER}"))
    both = tuple(GPUS[label].address for label in (PART, OTHER))
    peers = [step for step in steps_of([one], both, LABELS) if step.kind == "peer"]
    pairs = [(LABELS[gpu], LABELS[to]) for step in peers for gpu, to in step.to.items()]
    assert sorted(pairs) == sorted([(PART, OTHER), (OTHER, PART)])


def test_host_copies_of_a_gpu_alone_have_one_neighbour_as_control() -> None:
    one = asked(held("pcie.replays"))
    alone = [step.gpus for step in steps_of([one], tuple(LABELS), LABELS) if step.name == "pcie"]
    assert len(alone) == 2
    assert (GPUS[PART].address,) in alone


def test_heat_is_brought_back_by_a_soak_whichever_test_met_it() -> None:
    for check in ("burnin.temperature", "burnin.slowdown", "burnin.power"):
        one = asked(held(check, tests=f"{PART} exact-fp8; {PART} pulse-bf16"))
        assert (one.tests, one.watched) == (("stress-bf16",), True)


@pytest.mark.parametrize(
    ("wish", "seconds"), [(Wish(), 300), (Wish(60.0), 30), (Wish(confidence=0.99), 138)]
)
def test_traffic_over_ports_alone_is_as_long_as_wished(wish: Wish, seconds: int) -> None:
    """In all: two ports have half of it each; a documented rate gives the confidence on each."""
    ports = [held("infiniband.symbol_errors", f"port:mlx5_{number}/1") for number in (3, 4)]
    again = held("infiniband.link_flaps", "port:mlx5_3/1")
    plan = make_proof(BASE, ask_all(node(*ports, again)), wish)
    assert [tool.usual_s for tool in plan.tools] == [seconds + 2.0] * 2, "each port once"


def test_a_level_after_a_swap_sends_traffic_over_the_port_that_was_held() -> None:
    level = make_plan(BASE, BurnInOptions(level="quick"), tools=False)
    plan = add_proof(level, [asked(held("infiniband.symbol_errors", "port:mlx5_3/1"))])
    assert plan.steps == level.steps
    assert [tool.key.split()[:3] for tool in plan.tools] == [["run:ib_write_bw", "-d", "mlx5_3"]]


def test_a_link_is_exercised_with_every_peer_both_ways() -> None:
    one = asked(held("nvlink.links"))
    peers = [step for step in steps_of([one], tuple(LABELS), LABELS) if step.kind == "peer"]
    pairs = {(LABELS[gpu], LABELS[to]) for step in peers for gpu, to in step.to.items()}
    others = set(GPUS) - {PART}
    assert {(PART, other) for other in others} | {(other, PART) for other in others} <= pairs


def test_what_the_scan_shows_needs_no_exercise() -> None:
    for reason in (held("driver.version", "node"), held("memory.ecc_mode")):
        plan = make_proof(BASE, (asked(reason),), Wish())
        assert (plan.steps, plan.tools, plan.gpus) == ((), (), ())


def test_a_port_is_exercised_by_traffic_over_it() -> None:
    plan = make_proof(BASE, (asked(held("infiniband.symbol_errors", "port:mlx5_3/1")),), Wish())
    assert plan.steps == ()
    (tool,) = plan.tools
    assert tool.key.startswith("run:ib_write_bw -d mlx5_3 ")


def test_every_check_has_an_exercise_or_needs_none() -> None:
    for check in judging.all_checks():
        one = asked(held(check.id))
        assert one.by_state or one.tests or one.lacks, check.id


@pytest.mark.parametrize("time_s", [5.0, 60.0, 600.0, 7200.0])
def test_a_proof_is_as_long_as_wished(time_s: float) -> None:
    plan = make_proof(BASE, (asked(held("nvlink.links")),), Wish(time_s))
    whole = sum(step.seconds for step in plan.steps)
    assert plan.rounds_s == time_s
    assert whole <= time_s + 2 * len(plan.steps) + 6, "one round at least is run"


BURNT = PastTest(f"test:{PART} exact-fp8", 2, 10_000.0, 500.0, 71.0)


def test_the_rate_is_that_of_the_archive_and_sets_the_length() -> None:
    reason = held("burnin.corruption", tests=f"{PART} exact-fp8")
    one = asked(reason, burnt=(BURNT,))
    assert one.rate == FaultRate(2, 10_000.0, "matrix products", "the archive: wrong in 2 runs")
    assert (one.hot_c, one.per_s) == (71.0, 20.0)
    plan = make_proof(BASE, (one,), Wish(confidence=0.99))
    share = sum(step.seconds for step in plan.steps if step.name == "exact-fp8")
    share /= sum(step.seconds + 0.4 for step in plan.steps)
    assert confidence(one.rate, plan.rounds_s / SPARE * share * one.per_s) == pytest.approx(0.99)


@given(st.integers(1, 50), st.floats(1e-3, 1e15), st.floats(0, 0.999999, exclude_max=True))
def test_exposure_and_confidence_are_inverse(events: int, exposure: float, wanted: float) -> None:
    rate = FaultRate(events, exposure, "words read", "")
    assert confidence(rate, exposure_for(rate, wanted)) == pytest.approx(wanted, abs=1e-9)
    assert 0 <= confidence(rate, exposure) <= 1


@given(st.integers(1, 50), st.floats(1e-3, 1e15), st.floats(0, 1e3))
def test_few_events_make_a_confidence_smaller(events: int, exposure: float, times: float) -> None:
    rate = FaultRate(events, exposure, "words read", "")
    sure, careful = confidence(rate, times * exposure), cautious(rate, times * exposure)
    assert careful <= sure + 1e-12
    many = rate._replace(events=events * 10**6, exposure=exposure * 10**6)
    assert cautious(many, times * exposure) == pytest.approx(sure, abs=1e-3)
    limit = rate._replace(documented=True)
    assert cautious(limit, times * exposure) == sure


def test_a_fault_that_never_showed_gives_no_confidence() -> None:
    rate = FaultRate(0, 100.0, "words read", "")
    assert confidence(rate, 1e9) == 0
    assert math.isinf(exposure_for(rate, 0.5))


def test_a_named_part_is_exercised_for_what_it_is_held_for() -> None:
    mine, other = held("nvlink.links"), held("pcie.replays", f"gpu:{OTHER}")
    both = node(mine, other)
    for name in (PART, f"gpu:{PART}", mine.serial):
        assert [one.check for one in ask_named(both, [name])] == ["nvlink.links"]
    assert len(ask_named(both, [PART, OTHER])) == 2


def test_a_part_that_is_not_held_is_exercised_for_its_last_faults_or_for_any() -> None:
    before = node(held("nvlink.links"))
    past = was_read(before.past)
    (one,) = ask_named(before._replace(past=past._replace(held=())), [PART])
    assert (one.check, one.tests) == ("nvlink.links", ("peer", "nccl"))
    (one,) = ask_named(before, [OTHER])
    assert one.tests == ("exact-bf16", "stress-bf16", "memory-hot")
    assert one.note.startswith("no fault of it is known")


def test_a_part_that_is_not_here_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--part SXM9: no such part; known parts: SXM1, "):
        refuse_unknown(BASE, ["SXM9"])
    (number,) = {str(GPUS[PART].nvml_index)}
    alike = (GPUS[OTHER]._replace(nvml_index=GPUS[PART].nvml_index), *GPUS.values())
    with pytest.raises(UsageError, match=rf"--part gpu:{number}: names {OTHER} .* and {PART}"):
        refuse_unknown(BASE._replace(gpus=alike[:1] + (GPUS[PART],)), [f"gpu:{number}"])
    (one,) = ask_named(BASE, ["SXM9"])
    assert (one.subject, one.tests) == ("gpu:SXM9", ()), "gone since it was named"
    assert one.lacks.startswith("it is in no slot of this node")


def test_a_part_that_is_gone_or_another_one_is_told() -> None:
    gone = BASE._replace(gpus=tuple(gpu for gpu in GPUS.values() if gpu.label != PART))
    reason = held("nvlink.links")
    (one,) = ask_all(gone._replace(past=node(reason).past))
    assert one.lacks.startswith("it is in no slot of this node")
    (one,) = ask_all(node(reason._replace(serial="1650000000999")))
    assert one.note.startswith(f"another GPU is in its slot, serial {GPUS[PART].serial}")
    assert (one.tests, one.lacks) == (("peer", "nccl"), "")


def test_a_part_is_not_called_unknown_where_no_gpu_could_be_listed() -> None:
    dark = BASE._replace(gpus=Unread("", "timed-out", "the scan ran out of time"))
    refuse_unknown(dark, [f"gpu:{PART}", PART])
    (one,) = ask_named(dark, [f"gpu:{PART}"])
    assert one.lacks == "the GPUs could not be listed (the scan ran out of time)"
    with pytest.raises(UsageError, match="no such part"):
        refuse_unknown(dark, ["port:mlx5_99/1"])


@pytest.mark.parametrize("same", ["xid:79", "{", "[]", "7", "null", "[" * 100_000, "{}"])
def test_a_stored_fault_that_makes_no_sense_costs_no_proof(same: str) -> None:
    assert asked(held("xid.faults"), same=same).tests
