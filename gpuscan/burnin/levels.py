"""What each level does: its tests in order, on which GPUs, for how long; pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from gpuscan.burnin.rates import PCIE_TOGETHER
from gpuscan.burnin.worker.memory import MOVING, PATTERNS, QUICK

DTYPES = ("bf16", "fp8", "fp16", "tf32", "int8", "fp64")
ALL_PATTERNS = (*PATTERNS, *MOVING, "block-move")


class BurnInStep(NamedTuple):
    """One test at one time on some GPUs, by address.

    *name* is what its readings are called (`exact-bf16-hot`), *kind* what it tests (`exact`),
    *options* what the workers are asked, *to* each GPU's peer, *seconds* how long it usually takes.
    """

    name: str
    kind: str
    options: Mapping[str, Any]
    gpus: tuple[str, ...]
    seconds: float
    to: Mapping[str, str] = {}
    hot: bool = False

    def key(self, gpu: str) -> str:
        """Return the key of the reading that the step makes of a GPU."""
        if gpu in self.to:
            return f"burnin:{self.name}({gpu},{self.to[gpu]})"
        return f"burnin:{self.name}({gpu})"

    @property
    def ranks(self) -> tuple[str, ...]:
        """Return the GPUs of a collective, none for any other test."""
        return tuple(self.options.get("cards", ()))


class LevelTimes(NamedTuple):
    """Seconds of each test at a level: *stress* for bf16, *others* for each type but bf16 and fp8;
    0 leaves pulse and fade out.
    """

    memory_passes: int
    patterns: Sequence[str]
    memory: float
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
    "quick": LevelTimes(1, QUICK, 1.5, 2, 2, 4, 1, 15, 6, 2, 0, 0.4, 2),
    "medium": LevelTimes(3, ALL_PATTERNS, 12, 4, 4, 15, 6, 120, 40, 15, 30, 1, 5),
    "long": LevelTimes(10, ALL_PATTERNS, 60, 10, 10, 120, 60, 600, 240, 120, 120, 2, 30, 300),
}
# for other programs, after our own tests
TOOLS_S = {"quick": 40.0, "medium": 1200.0, "long": 7200.0}
# whole rounds are run until this much time is spent: two of 42 min
ROUNDS_S = {"quick": 0.0, "medium": 0.0, "long": 4000.0}


def make_steps(gpus: tuple[str, ...], times: LevelTimes) -> Iterator[BurnInStep]:
    """Yield the steps of one round: cold, correctness, heat, and the sensitive tests again while
    hot.
    """
    yield _memory(gpus, times, hot=False)
    yield BurnInStep("hbm", "hbm", {"test": "hbm", "seconds": times.hbm}, gpus, times.hbm + 1)
    pcie = {"test": "pcie", "seconds": times.pcie}
    for gpu in gpus:
        yield BurnInStep("pcie", "pcie", pcie, (gpu,), times.pcie + 1)
    for dtype in DTYPES:
        yield _gemm("exact", dtype, gpus, times.exact if dtype == "bf16" else times.exact_others)
    stress = {"bf16": times.stress, "fp8": times.fp8}
    for dtype in DTYPES:
        yield _gemm("stress", dtype, gpus, stress.get(dtype, times.others))
    if times.pulse:
        yield _gemm("pulse", "bf16", gpus, times.pulse)
    yield from _make_hot_steps(gpus, times)


def _make_hot_steps(gpus: tuple[str, ...], times: LevelTimes) -> Iterator[BurnInStep]:
    yield _gemm("exact", "bf16", gpus, times.exact)._replace(name="exact-bf16-hot", hot=True)
    yield _memory(gpus, times, hot=True)
    if times.fade:
        fade = {"test": "memory", "patterns": ["fade"], "fade_s": times.fade}
        yield BurnInStep("fade", "memory", fade, gpus, times.fade + 5, hot=True)
    pcie = {"test": "pcie", "seconds": times.pcie}
    yield BurnInStep(PCIE_TOGETHER, "pcie", pcie, gpus, times.pcie + 1, hot=True)
    if len(gpus) < 2:
        return
    peer = {"test": "peer", "seconds": times.peer}
    for pairs in _disjoint_pairs(gpus):
        for way in (dict(pairs), {other: gpu for gpu, other in pairs}):
            yield BurnInStep("peer", "peer", peer, tuple(way), times.peer + 1, way, hot=True)
    nccl = {"test": "nccl", "cards": list(gpus), "mib": 1024, "seconds": times.nccl}
    yield BurnInStep("nccl", "nccl", nccl, gpus[:1], 3 * times.nccl + 8, hot=True)


def _memory(gpus: tuple[str, ...], times: LevelTimes, *, hot: bool) -> BurnInStep:
    passes = 1 if hot else times.memory_passes
    options = {"test": "memory", "patterns": list(times.patterns), "passes": passes}
    seconds = times.memory * passes / times.memory_passes + 2
    return BurnInStep("memory-hot" if hot else "memory", "memory", options, gpus, seconds, hot=hot)


def _gemm(kind: str, dtype: str, gpus: tuple[str, ...], seconds: float) -> BurnInStep:
    test = "gemm-exact" if kind == "exact" else "gemm-stress"
    options: dict[str, Any] = {"test": test, "dtype": dtype, "seconds": seconds}
    if kind == "pulse":
        options["pulse_s"] = 2.0
    return BurnInStep(f"{kind}-{dtype}", kind, options, gpus, seconds + 1)


def _disjoint_pairs(gpus: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return groups of disjoint pairs, every pair once: no GPU sends to two at a time."""
    left = list(combinations(gpus, 2))
    groups = []
    while left:
        busy: set[str] = set()
        group = []
        for pair in list(left):
            if not busy & set(pair):
                busy |= set(pair)
                group.append(pair)
                left.remove(pair)
        groups.append(group)
    return groups
