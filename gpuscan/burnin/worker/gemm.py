"""Matrix multiplication under load: exact integers against a golden hash, full-entropy data
bitwise against the first result.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuscan.burnin.results import BurnInResult, BurnInStatus
from gpuscan.burnin.worker import cubins
from gpuscan.burnin.worker.detecting import Detector, Mismatches, blocks, prove_detector
from gpuscan.burnin.worker.driver import CudaGpu
from gpuscan.burnin.worker.protocol import EventWriter, judge_comparison, make_result
from gpuscan.burnin.worker.words import PERIODS, RANGES
from gpuscan.text import counted

WIDTHS = {
    "bf16": (2, 2),
    "fp16": (2, 2),
    "fp8": (1, 2),
    "int8": (1, 4),
    "tf32": (4, 4),
    "fp64": (8, 8),
}  # bytes: operand, result
SIZE = 8192
# times faster in fp32: GPUs that have fp64 for its own sake are 2, the others 32 or 64, half a
# minute a product
SLOW_FP64 = 4
BATCH_S = 0.25  # how long the GPU works between two looks


class Shape(NamedTuple):
    """One multiplication of *size* cubed: kernel, operands' addresses, bytes and words of a
    result.
    """

    kernel: str
    size: int
    a: int
    b: int
    result_bytes: int
    words: int


class Span(NamedTuple):
    """How long to multiply; with *pulse_s* load and rest alternate, each for so long."""

    seconds: float
    pulse_s: float = 0.0


def run(gpu: CudaGpu, events: EventWriter, test: str, options: dict[str, Any]) -> BurnInResult:
    """Run `gemm-exact` or `gemm-stress`: options dtype, seconds, pulse_s, size (of the cube),
    kernel (`persistent` or `tiled`).
    """
    dtype = options.get("dtype", "bf16")
    if dtype not in WIDTHS:
        return make_result(
            BurnInStatus.UNKNOWN, f"no such type: {dtype}; known: {', '.join(WIDTHS)}"
        )
    if dtype == "fp64" and gpu.fp64_ratio > SLOW_FP64:
        return make_result(BurnInStatus.SKIP, f"fp64 is too slow on {gpu.name} to be tested")
    exact = test == "gemm-exact"
    kernel = _kernel(gpu, dtype, exact, options.get("kernel", ""))
    if not kernel:
        return make_result(BurnInStatus.SKIP, f"no {dtype} kernel for {gpu.name} ({gpu.arch})")
    with shape(gpu, dtype, kernel, int(options.get("size", SIZE)), exact) as made:
        work = _exact if exact else _stress
        return work(
            gpu,
            events,
            dtype,
            made,
            Span(float(options.get("seconds", 5)), float(options.get("pulse_s", 0))),
        )


def _kernel(gpu: CudaGpu, dtype: str, exact: bool, wanted: str) -> str:
    suffix = "-exact" if exact and WIDTHS[dtype][1] == 2 else ""
    for kind in [wanted] if wanted else ["persistent", "tiled"]:
        if gpu.has(f"{kind}-{dtype}{suffix}"):
            return f"{kind}-{dtype}{suffix}"
    return ""


@contextmanager
def shape(gpu: CudaGpu, dtype: str, kernel: str, size: int, exact: bool) -> Iterator[Shape]:
    """Make the operands on the GPU, and free them in the end."""
    width, result = WIDTHS[dtype]
    numbers = RANGES[dtype]
    taken = []
    for low, span, period, seed in (
        (numbers.low_a, numbers.count_a, PERIODS[0], 1),
        (numbers.low_b, numbers.count_b, PERIODS[1], 2),
    ):
        taken.append(gpu.take(size * size * width))
        exactly = {"columns": size, "period": period, "low": low, "span": span, "seed": seed}
        name = f"operand-{dtype}-exact" if exact else f"operand-{dtype}"
        gpu.launch(name, blocks(size * size), target=taken[-1], elements=size * size, **exactly)
    result_bytes = size * size * (max(result, 4) if exact else result)
    yield Shape(kernel, size, taken[0], taken[1], result_bytes, result_bytes // 8)
    gpu.wait()
    gpu.release(*taken)


def multiply(gpu: CudaGpu, made: Shape, target: int) -> None:
    """Start one multiplication."""
    code = gpu.kernel(made.kernel).code
    tiles = (made.size // code.constants["TM"]) * (made.size // code.constants["TN"])
    count = min(tiles, gpu.multiprocessors) if made.kernel.startswith("persistent") else tiles
    gpu.launch(
        made.kernel, count, a=made.a, b=made.b, c=target, m=made.size, n=made.size, k=made.size
    )


def _exact(gpu: CudaGpu, events: EventWriter, dtype: str, made: Shape, span: Span) -> BurnInResult:
    """Hash the first result against the constant from a CPU; then each further one bitwise against
    the first.
    """
    key = f"{dtype} {made.size}x{made.size}x{made.size}"
    golden = cubins.manifest()["golden"].get(key)
    if golden is None:
        return make_result(BurnInStatus.UNKNOWN, f"no golden hash for {key}")
    detector, first = Detector(gpu), _first(gpu, made)
    got = f"{detector.digest(first, made.words):016x}"
    detector.flip(first, made.words // 3, 5)
    hash_proven = f"{detector.digest(first, made.words):016x}" != got
    detector.flip(first, made.words // 3, 5)
    result = _repeat(gpu, events, detector, made, first, span, {"golden": golden, "got": got})
    if not hash_proven:
        text = "the hash did not change with a flip that was injected, so it proves nothing"
        return result._replace(status=BurnInStatus.UNKNOWN, text=text)
    if result.status is not BurnInStatus.UNKNOWN and got != golden:
        differing = result.mismatches or 0
        text = (
            f"the exact product's hash is {got}, not {golden}; {counted(differing, 'word')} then "
            "differed between products"
        )
        return result._replace(status=BurnInStatus.FAIL, text=text, mismatches=max(1, differing))
    return result


def _stress(gpu: CudaGpu, events: EventWriter, dtype: str, made: Shape, span: Span) -> BurnInResult:
    """Keep the GPU at its limit; the first result's hash is told, so that GPUs can be compared
    with each other.
    """
    detector, first = Detector(gpu), _first(gpu, made)
    got = f"{detector.digest(first, made.words):016x}"
    return _repeat(gpu, events, detector, made, first, span, {"got": got})


def _first(gpu: CudaGpu, made: Shape) -> int:
    """Multiply into memory of its own, in which an earlier test may have left the very same
    product.
    """
    target = gpu.take(made.result_bytes)
    gpu.zero(target, made.result_bytes)
    multiply(gpu, made, target)
    return target


def _repeat(
    gpu: CudaGpu,
    events: EventWriter,
    detector: Detector,
    made: Shape,
    first: int,
    span: Span,
    told: dict[str, Any],
) -> BurnInResult:
    """Multiply again and again for so long, each result compared with the first one; rates are of
    the multiplication alone.
    """
    target = gpu.take(made.result_bytes)
    gpu.copy(
        target, first, made.result_bytes
    )  # so that the proof does not depend on what is to be proven
    proof = prove_detector(
        detector, target, made.words, lambda: detector.compare(target, first, made.words)
    )
    rates: list[float] = []
    results, wrong = 1, Mismatches()
    batch = 4
    ends_s = time.monotonic() + span.seconds
    rests_s = time.monotonic() + span.pulse_s
    while time.monotonic() < ends_s or not rates:
        if span.pulse_s and time.monotonic() >= rests_s:
            _rest(events, span.pulse_s)
            rests_s = time.monotonic() + span.pulse_s
        spent_s = _batch(gpu, detector, made, first, target, batch)
        rates.append(2.0 * made.size**3 * batch / spent_s / 1e12)
        results += batch
        batch = max(2, min(1000, round(BATCH_S / (spent_s / batch))))
        wrong = wrong.plus(detector.collect())
        events.write("sample", tflops=round(rates[-1], 1), wrong=wrong.total)
    gpu.release(target, first)
    numbers = told | {
        "kernel": made.kernel,
        "size": made.size,
        "tflops": round(_median(rates), 1),
        "tflops_least": round(min(rates), 1),
    }
    return judge_comparison(results, "results of a matrix multiplication", wrong, proof, **numbers)


def _rest(events: EventWriter, seconds: float) -> None:
    """Let the power fall: a supply that holds full load may still fail at the step up to it."""
    events.heartbeat()
    time.sleep(seconds)


def _batch(
    gpu: CudaGpu, detector: Detector, made: Shape, first: int, target: int, count: int
) -> float:
    """Return the time of *count* multiplications, without that of their comparisons.

    What is not written differs from the first result, be it that of a moment ago or not written
    there either.
    """
    marks = []
    for _ in range(count):
        gpu.zero(target, made.result_bytes, 0xFF)
        before = gpu.mark()
        multiply(gpu, made, target)
        marks.append((before, gpu.mark()))
        detector.compare(target, first, made.words)
    return sum(gpu.between_s(before, after) for before, after in marks)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
