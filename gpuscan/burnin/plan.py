"""What each level does: its steps in their order, on which GPUs, for how long; pure, planned from
what a scan has read.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from gpuscan.burnin.request import BurnInOptions
from gpuscan.burnin.tools.programs import Tool, wanted
from gpuscan.burnin.worker.memory import MOVING, PATTERNS, QUICK
from gpuscan.model import Gpu, Node, is_unread

DTYPES = ("bf16", "fp8", "fp16", "tf32", "int8", "fp64")
WHOLE = (*PATTERNS, *MOVING, "block-move")
MODES = {
    1: "exclusive thread",
    2: "prohibited",
    3: "exclusive process",
}  # NVML; a pair's test opens GPUs that others have open
NOT_ALONE = "other programs compute on the GPUs (process {}): end them, or add --force"
NOT_TOLD = "what computes on the GPUs could not be read ({}): see to it that nothing does, then add --force"
LAYERS = ("InfiniBand", "Ethernet")
UNTELLABLE = (
    "not-supported",
    "too-old-driver",
    "not-recorded",
)  # then nobody can tell, and no scan is held up for it
END = "burnin:end()"  # the reading that tells that all of it was done
START_S = 20.0  # until every worker has opened its GPU


class Step(NamedTuple):
    """One test at one time on some GPUs. *name* is what its readings are called, *to* each GPU's
    peer (by address).
    """

    name: str
    kind: str
    options: Mapping[str, Any]
    gpus: tuple[str, ...]
    seconds: float
    to: Mapping[str, str] = {}
    hot: bool = False


class Plan(NamedTuple):
    """A burn-in that can begin: steps of one round, and how long rounds go on; GPUs that cannot be
    tested, and why.

    *labels* name the GPUs to people; *floors* are the speeds below which a test is tried again, by
    the rates' labels; *tools* are other programs that are run in the end, where they are on PATH.
    """

    level: str
    gpus: tuple[str, ...]
    refused: Mapping[str, str]
    steps: tuple[Step, ...]
    rounds_s: float
    expected_s: float
    deadline_s: float
    labels: Mapping[str, str]
    floors: Mapping[str, float]
    tools: tuple[Tool, ...] = ()


class Times(NamedTuple):
    """Seconds of each test at a level; *stress* for bf16, *others* for each further type."""

    memory_passes: int
    patterns: Sequence[str]
    memory_s: float
    hbm: float
    pcie: float
    exact: float
    exact_others: float
    stress: float
    fp8: float
    others: float
    pulse: float
    peer: float
    nccl: float
    fade: float = 0.0


TIMES = {
    "quick": Times(1, QUICK, 1.5, 2, 2, 4, 1, 15, 6, 2, 0, 0.4, 2),
    "medium": Times(3, WHOLE, 12, 4, 4, 15, 6, 120, 40, 15, 30, 1, 5),
    "long": Times(10, WHOLE, 60, 10, 10, 120, 60, 600, 240, 120, 120, 2, 30, 300),
}
TOOLS_S = {
    "quick": 40.0,
    "medium": 1200.0,
    "long": 7200.0,
}  # for other programs, after our own tests
ROUNDS_S = {
    "quick": 0.0,
    "medium": 0.0,
    "long": 4000.0,
}  # whole rounds are run until so much is spent: two of 42 min


def planned(
    node: Node,
    wish: BurnInOptions,
    floors: Mapping[str, float] = {},
    *,
    tools: bool = True,
    beside: Sequence[Gpu] = (),
) -> Plan:
    """Plan a level on the GPUs of a node (those that are judged); *tools* also plans other
    programs, which load them all.

    *beside* are the GPUs that are not judged: a program on one of them refuses the load, too.
    """
    gpus = () if is_unread(node.gpus) else node.gpus
    refused = _refused(gpus, beside, wish.force)
    addresses = tuple(gpu.address for gpu in gpus if gpu.address not in refused)
    steps = tuple(_steps(addresses, TIMES[wish.level])) if addresses else ()
    one_s = sum(step.seconds for step in steps) + 0.4 * len(
        steps
    )  # the counters between two steps take a moment
    rounds_s = wish.duration_s or ROUNDS_S[wish.level]
    expected_s = max(math.ceil(rounds_s / one_s), 1) * one_s + START_S if steps else 0.0
    labels = {gpu.address: gpu.label for gpu in gpus}
    others = (
        tuple(wanted(wish.level, len(gpus), _hcas(node), TOOLS_S[wish.level]))
        if tools and steps and not refused
        else ()
    )
    return Plan(
        wish.level,
        addresses,
        refused,
        steps,
        rounds_s,
        expected_s,
        _deadline(one_s, rounds_s),
        labels,
        floors,
        others,
    )


def _hcas(node: Node) -> list[str]:
    """Return the adapters with a link that is up and that perftest knows (not AWS's), with the
    port where it is not the first.
    """
    ports = [
        port
        for port in (() if is_unread(node.ports) else node.ports)
        if port.state == "ACTIVE" and port.link_layer in LAYERS
    ]
    return [port.hca if port.number == 1 else f"{port.hca} -i {port.number}" for port in ports]


def with_tools(plan: Plan, present: Callable[[str], object]) -> Plan:
    """Return the plan with the time that those other programs take that are *present*; the rest is
    told as absent at once.
    """
    found = [tool for tool in plan.tools if present(tool.key.removeprefix("run:").split()[0])]
    usual_s, limit_s = sum(tool.usual_s for tool in found), sum(tool.limit_s for tool in found)
    return plan._replace(expected_s=plan.expected_s + usual_s, deadline_s=plan.deadline_s + limit_s)


def key_of(step: Step, gpu: str) -> str:
    """Return the key of the reading that a step makes of a GPU."""
    return (
        f"burnin:{step.name}({gpu},{step.to[gpu]})"
        if gpu in step.to
        else f"burnin:{step.name}({gpu})"
    )


def told(plan: Plan) -> dict[str, Any]:
    """Return what a plan sets out to do, as the reading `burnin:plan()` has it: what then lacks
    was not done.
    """
    opened = [f"burnin:open({gpu})" for gpu in (*plan.gpus, *plan.refused)]
    keys = [key_of(step, gpu) for step in plan.steps for gpu in step.gpus] + (
        [END] if plan.steps else []
    )
    times = {"expected_s": round(plan.expected_s), "deadline_s": round(plan.deadline_s)}
    return {
        "level": plan.level,
        **times,
        "keys": list(dict.fromkeys([*opened, *keys])),
        "tools": [tool.key for tool in plan.tools],
    }


def _deadline(one_s: float, rounds_s: float) -> float:
    """A GPU may be half as fast as it should, and one step may have to be waited for in vain."""
    return round(2 * one_s + 120) if one_s >= rounds_s else round(rounds_s + 2 * one_s + 120)


def _refused(gpus: Sequence[Gpu], beside: Sequence[Gpu], force: bool) -> dict[str, str]:
    """Return the GPUs that must not or cannot be loaded, and why. One GPU's program would be
    disturbed by a neighbour's load.
    """
    known = (
        [] if force else [gpu.processes for gpu in (*gpus, *beside) if not is_unread(gpu.processes)]
    )
    running = [process.pid for processes in known for process in processes]
    told = {gpu.address: reason for gpu in gpus if (reason := _reason(gpu))}
    silent = (
        []
        if force
        else [
            gpu.processes.text
            for gpu in gpus
            if is_unread(gpu.processes)
            and gpu.access == "ok"
            and gpu.processes.kind not in UNTELLABLE
        ]
    )
    if silent:
        return {gpu.address: told.get(gpu.address) or NOT_TOLD.format(silent[0]) for gpu in gpus}
    if running:
        return {
            gpu.address: told.get(gpu.address) or NOT_ALONE.format(", ".join(map(str, running[:5])))
            for gpu in gpus
        }
    return told


def _reason(gpu: Gpu) -> str:
    if is_unread(gpu.access) or gpu.access != "ok":
        return "the driver cannot talk to this GPU"
    if not is_unread(gpu.mig_mode) and gpu.mig_mode.current is True:
        return "MIG is on: the GPU cannot be tested as a whole (nvidia-smi -mig 0, then a reset, turns it off)"
    if gpu.compute_mode in MODES:
        return f"compute mode is {MODES[gpu.compute_mode]}: the tests need the default (nvidia-smi -c 0)"
    return ""


def _steps(every: tuple[str, ...], times: Times) -> Iterator[Step]:
    """Yield the steps: cold, then correctness, then heat, then the sensitive ones again while hot."""
    yield _memory(every, times, hot=False)
    yield Step("hbm", "hbm", {"test": "hbm", "seconds": times.hbm}, every, times.hbm + 1)
    for gpu in every:
        yield Step("pcie", "pcie", {"test": "pcie", "seconds": times.pcie}, (gpu,), times.pcie + 1)
    for dtype in DTYPES:
        yield _gemm("exact", dtype, every, times.exact if dtype == "bf16" else times.exact_others)
    for dtype in DTYPES:
        yield _gemm(
            "stress",
            dtype,
            every,
            {"bf16": times.stress, "fp8": times.fp8}.get(dtype, times.others),
        )
    if times.pulse:
        yield _gemm("pulse", "bf16", every, times.pulse)
    yield from _hot(every, times)


def _hot(every: tuple[str, ...], times: Times) -> Iterator[Step]:
    yield _gemm("exact", "bf16", every, times.exact)._replace(name="exact-bf16-hot", hot=True)
    yield _memory(every, times, hot=True)
    if times.fade:
        fade = {"test": "memory", "patterns": ["fade"], "fade_s": times.fade}
        yield Step("fade", "memory", fade, every, times.fade + 5, hot=True)
    pcie = {"test": "pcie", "seconds": times.pcie}
    yield Step("pcie-together", "pcie", pcie, every, times.pcie + 1, hot=True)
    if len(every) < 2:
        return
    for pairs in _rounds(every):
        for way in (dict(pairs), {other: gpu for gpu, other in pairs}):
            options = {"test": "peer", "seconds": times.peer}
            yield Step("peer", "peer", options, tuple(way), times.peer + 1, way, hot=True)
    options = {"test": "nccl", "cards": list(every), "mib": 1024, "seconds": times.nccl}
    yield Step("nccl", "nccl", options, every[:1], 3 * times.nccl + 8, hot=True)


def _memory(every: tuple[str, ...], times: Times, *, hot: bool) -> Step:
    passes = 1 if hot else times.memory_passes
    options = {"test": "memory", "patterns": list(times.patterns), "passes": passes}
    return Step(
        "memory-hot" if hot else "memory",
        "memory",
        options,
        every,
        times.memory_s * passes / times.memory_passes + 2,
        hot=hot,
    )


def _gemm(kind: str, dtype: str, every: tuple[str, ...], seconds: float) -> Step:
    options = {
        "test": "gemm-exact" if kind == "exact" else "gemm-stress",
        "dtype": dtype,
        "seconds": seconds,
    }
    if kind == "pulse":
        options["pulse_s"] = 2.0
    return Step(f"{kind}-{dtype}", kind, options, every, seconds + 1)


def _rounds(every: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return rounds of disjoint pairs in which every pair meets once: no GPU sends to two at a
    time.
    """
    left = list(combinations(every, 2))
    rounds = []
    while left:
        busy: set[str] = set()
        pairs = []
        for pair in list(left):
            if not busy & set(pair):
                busy |= set(pair)
                pairs.append(pair)
                left.remove(pair)
        rounds.append(pairs)
    return rounds
