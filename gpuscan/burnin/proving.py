"""Plans the proof that old faults are gone: the tests that exercise them, on the parts that showed
them and beside their neighbours; pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuscan.burnin.levels import ALL_PATTERNS, BurnInStep, LevelTimes, make_steps
from gpuscan.burnin.plan import (
    BETWEEN_STEPS_S,
    BurnInPlan,
    find_deadline,
    find_expected,
    refuse,
)
from gpuscan.burnin.tools.programs import Tool
from gpuscan.engine.confidence import exposure_for
from gpuscan.engine.drives import PORT
from gpuscan.model import Node, read_or
from gpuscan.model.proof import LONGEST_S, PROOF, SECONDS, USUAL_S, ProofAsked
from gpuscan.model.subject import parse_subject

# one round: short, so that a proof of any length alternates between its tests
TIMES = LevelTimes(1, ALL_PATTERNS, 4, 4, 4, 10, 10, 20, 20, 20, 20, 2, 5, 300)
HEATING = "stress-bf16"  # the step that heats the GPUs first, where no other does: draws the most
BESIDE_S = 120.0  # of a proof after a level
LEAST_S = 0.2  # of a test
SPARE = 1.1  # of the time for a wanted confidence: steps take longer than planned
TRAFFIC_S = 30  # over a port, after what exercises GPUs


class Wish(NamedTuple):
    """What a proof is to be: of these *parts* and, without any or with *hold*, of all that is held;
    *time_s* in all, or until this *confidence* (0: as usual); *force* loads GPUs that other
    programs use.
    """

    time_s: float = 0.0
    confidence: float = 0.0
    force: bool = False
    parts: tuple[str, ...] = ()
    hold: bool = False


def make_proof(node: Node, asked: Sequence[ProofAsked], wish: Wish) -> BurnInPlan:
    """Plan the proof of what is *asked*, on a node's GPUs beside each other.

    Without a fault that a test exercises there are no steps, and nothing is loaded.
    """
    gpus = read_or(node.gpus, ())
    refused = refuse(gpus, (), force=wish.force)
    addresses = tuple(gpu.address for gpu in gpus if gpu.address not in refused)
    held = {gpu.address: gpu.label for gpu in gpus}
    steps = steps_of(asked, addresses, held)
    rounds_s = length_s(asked, wish, steps) if steps else 0.0
    if _round_s(steps) > rounds_s:
        steps = steps_of(asked, addresses, held, share=rounds_s / _round_s(steps))
    round_s = _round_s(steps)
    needs_gpus = any(one.gpus for one in asked)
    return BurnInPlan(
        level=PROOF,
        gpus=addresses if steps else (),
        refused=refused if needs_gpus else {},
        steps=steps,
        rounds_s=rounds_s,
        expected_s=find_expected(round_s, rounds_s),
        deadline_s=find_deadline(round_s, rounds_s),
        labels=held,
        floors={},
        tools=_traffic_over(asked, TRAFFIC_S if steps else _traffic_s(asked, wish)),
    )


def add_proof(plan: BurnInPlan, asked: Sequence[ProofAsked]) -> BurnInPlan:
    """Return a level's plan with a round of what exercises these faults, after its own steps, and
    traffic over the ports that have one.
    """
    whole = steps_of(asked, plan.gpus, plan.labels)
    share = min(BESIDE_S / _round_s(whole), 1.0) if whole else 1.0
    steps = steps_of(asked, plan.gpus, plan.labels, share)
    more_s = _round_s(steps)
    return plan._replace(
        steps=(*plan.steps, *steps),
        tools=(*plan.tools, *_traffic_over(asked, TRAFFIC_S)),
        expected_s=plan.expected_s + more_s,
        deadline_s=plan.deadline_s + 2 * more_s,
    )


def _round_s(steps: Iterable[BurnInStep]) -> float:
    return sum(step.seconds + BETWEEN_STEPS_S for step in steps)


def _ports(asked: Iterable[ProofAsked]) -> list[ProofAsked]:
    return [one for one in asked if one.tests == PORT.tests and not one.lacks]


def _traffic_s(asked: Iterable[ProofAsked], wish: Wish) -> int:
    """Return how long each port gets traffic in a proof of ports alone, one after the other."""
    ports = _ports(asked)
    whole_s = wish.time_s
    if wish.confidence and not whole_s:
        rates = [one.rate for one in ports if one.rate]
        needs = [exposure_for(rate, wish.confidence) for rate in rates if rate.unit == SECONDS]
        return round(min(max(needs, default=USUAL_S), LONGEST_S))
    return max(round((whole_s or USUAL_S) / max(len({one.subject for one in ports}), 1)), 1)


def _traffic_over(asked: Iterable[ProofAsked], seconds: int) -> tuple[Tool, ...]:
    """Return the traffic over each port that shows its fault by it."""
    return tuple(dict.fromkeys(_traffic(one, seconds) for one in _ports(asked)))


def _traffic(asked: ProofAsked, seconds: int) -> Tool:
    hca, _, port = parse_subject(asked.subject).label.partition("/")
    device = hca if port in ("", "1") else f"{hca} -i {port}"
    key = f"run:ib_write_bw -d {device} -F --report_gbits -s 1048576 -D {seconds} loopback"
    return Tool("ib_write_bw", key, seconds + 30.0, seconds + 2.0)


def steps_of(
    asked: Iterable[ProofAsked],
    gpus: tuple[str, ...],
    labels: Mapping[str, str],
    share: float = 1.0,
) -> tuple[BurnInStep, ...]:
    """Return the steps of one round on *gpus*: the tests that were asked for, the GPUs heated
    first; between two GPUs only groups of pairs in which a held part takes part, with the other
    pairs of the group as a control. Each test gets this *share* of its usual time.
    """
    times = _shortened(share)
    wanted = [one for one in asked if one.gpus and not one.lacks]
    steps = [
        step
        for step in (make_steps(gpus, times) if gpus else ())
        if any(_exercises(step, one, labels) for one in wanted)
    ]
    if not steps or any(step.kind == "stress" for step in steps):
        return tuple(steps)
    heats = _heating(steps)
    heating = (step for step in make_steps(gpus, times) if step.name in heats)
    return (*heating, *steps)


def _heating(steps: Iterable[BurnInStep]) -> set[str]:
    """Return the steps that heat the GPUs first: products of the types that are tested."""
    exact = {step.name.split("-")[1] for step in steps if step.kind == "exact"}
    return {f"stress-{dtype}" for dtype in exact} or {HEATING}


def _shortened(share: float) -> LevelTimes:
    """Return the times of a round that is shorter; memory is tested whole all the same."""
    timed = ("hbm", "pcie", "exact", "exact_others", "stress", "fp8", "others", "pulse", "peer")
    return TIMES._replace(
        **{name: max(share * getattr(TIMES, name), LEAST_S) for name in (*timed, "nccl", "fade")}
    )


def _exercises(step: BurnInStep, asked: ProofAsked, labels: Mapping[str, str]) -> bool:
    """Return whether a step exercises what is asked: its test, on its part, in its direction."""
    if step.name not in asked.tests:
        return False
    if step.kind == "nccl":
        return True
    if step.kind != "peer":
        return any(labels[gpu] in {*asked.gpus, _control(asked, labels)} for gpu in step.gpus)
    pairs = [(labels[gpu], labels[to]) for gpu, to in step.to.items()]
    if asked.pairs and len(pairs) == 1:  # the way back is the only control
        return bool({*pairs, (pairs[0][1], pairs[0][0])} & set(asked.pairs))
    if asked.pairs:
        return bool(set(pairs) & set(asked.pairs))
    return any(set(pair) & set(asked.gpus) for pair in pairs)


def _control(asked: ProofAsked, labels: Mapping[str, str]) -> str:
    """Return the neighbour that is tested where each GPU is tested alone."""
    return next((label for label in labels.values() if label not in asked.gpus), "")


def length_s(asked: Iterable[ProofAsked], wish: Wish, steps: Sequence[BurnInStep]) -> float:
    """Return how long a proof takes: as wished, or until each known rate gives the confidence."""
    if wish.time_s or not wish.confidence:
        return wish.time_s or USUAL_S
    needs = [
        exposure_for(one.rate, wish.confidence) / per_s
        for one in asked
        if one.rate and (per_s := _exposure_per_s(one, one.rate.unit, steps))
    ]
    return min(SPARE * max(needs, default=USUAL_S / SPARE), LONGEST_S)


def _exposure_per_s(asked: ProofAsked, unit: str, steps: Sequence[BurnInStep]) -> float:
    """Return the exposure in one second of a proof, in the unit of the rate."""
    share = sum(step.seconds for step in steps if step.name in asked.tests) / _round_s(steps)
    return share if unit == SECONDS else share * asked.per_s
