"""Copies between GPU and host and between GPUs: every word compared on arrival, and the speed of
each way.
"""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuscan.burnin.results import BurnInResult, BurnInStatus
from gpuscan.burnin.worker.detecting import (
    Detector,
    Mismatches,
    Proof,
    combine_proofs,
    prove_detector,
)
from gpuscan.burnin.worker.driver import CudaGpu
from gpuscan.burnin.worker.memory import repeated
from gpuscan.burnin.worker.protocol import EventWriter, judge_comparison, make_result

SEED = 0x5BE0CD19137E2179
MIB = 512.0


class Loop(NamedTuple):
    """Buffers of one size: on the GPU source and target, in the host's pinned memory there and
    back.
    """

    size: int
    source: int
    target: int
    up: int
    down: int


def pcie(gpu: CudaGpu, events: EventWriter, options: dict[str, Any]) -> BurnInResult:
    """Run `pcie`: options mib (a buffer), seconds (all ways together). GB/s to the GPU, to the
    host, and both at once.

    A made pattern goes from the GPU to the host and back into another buffer, where each word is
    compared; so is each copy that is timed.
    """
    size = int(float(options.get("mib", MIB)) * (1 << 20))
    loop = Loop(
        size,
        gpu.take(size),
        gpu.take(size),
        gpu.take(size, host=True),
        gpu.take(size, host=True),
    )
    detector, words = Detector(gpu), size // 8
    detector.fill(loop.source, words, "random", SEED)
    detector.fill(loop.target, words, "random", SEED)
    proof = prove_detector(
        detector, loop.target, words, lambda: detector.check(loop.target, words, "random", SEED)
    )
    found, where = _around(gpu, detector, loop)
    rates, copies = _rates(gpu, events, detector, loop, float(options.get("seconds", 3)))
    timed = detector.collect()
    again, where_again = _around(gpu, detector, loop)
    gpu.release(loop.source, loop.target, loop.up, loop.down)
    wrong = found.plus(timed).plus(again)
    compared = (copies + 2) * words
    result = judge_comparison(compared, "words moved to the host and back", wrong, proof, **rates)
    if result.status is BurnInStatus.FAIL:
        return result._replace(text=result.text + (where or where_again))
    return result


def _around(gpu: CudaGpu, detector: Detector, loop: Loop) -> tuple[Mismatches, str]:
    """Send the pattern to the host and back; where it comes back wrong, send it up again to tell
    the ways apart.
    """
    words = loop.size // 8
    gpu.zero(loop.target, loop.size)
    ctypes.memset(
        loop.down, 0, loop.size
    )  # by the host itself, so that what is right there has come now
    gpu.copy(loop.down, loop.source, loop.size)
    gpu.copy(loop.target, loop.down, loop.size)
    detector.check(loop.target, words, "random", SEED)
    found = detector.collect()
    if not found.total:
        return found, ""
    gpu.copy(loop.target, loop.down, loop.size)
    detector.check(loop.target, words, "random", SEED)
    if detector.collect().total:
        return (
            found,
            "; a second upload is wrong too: on the way to the host, or in the host's memory",
        )
    return found, "; a second upload is right: on the way to the GPU"


def _rates(
    gpu: CudaGpu, events: EventWriter, detector: Detector, loop: Loop, seconds: float
) -> tuple[dict[str, float], int]:
    """Return the median rates in GB/s, of which `both` sums the two ways at once, on two streams;
    and how many copies were compared.
    """
    words = loop.size // 8
    gpu.copy(loop.up, loop.source, loop.size)
    other = gpu.call("cuStreamCreate", 1)

    def arrived() -> None:
        detector.check(loop.target, words, "random", SEED)

    def left() -> None:  # no kernel reads what lies on the host
        gpu.copy(loop.target, loop.down, loop.size)
        arrived()

    def both() -> None:
        arrived()
        left()

    ways: dict[str, tuple[int, Callable[[], Any], Callable[[], Any]]] = {
        "to_card_gbps": (1, lambda: gpu.copy(loop.target, loop.up, loop.size), arrived),
        "to_host_gbps": (1, lambda: gpu.copy(loop.down, loop.source, loop.size), left),
        "both_gbps": (2, lambda: _both(gpu, loop, other), both),
    }
    rates, compared = {}, 0
    for name, (traffic, start, compare) in ways.items():
        times = repeated(gpu, events, seconds / len(ways), start, compare)
        compared += traffic * (len(times) + 1)
        rates[name] = round(traffic * loop.size / sorted(times)[len(times) // 2] / 1e9, 2)
        events.write("sample", **{name: rates[name]})
    gpu.call("cuStreamDestroy", other)
    return rates, compared


def _both(gpu: CudaGpu, loop: Loop, other: Any) -> None:
    """Copy both ways at once; the GPU's stream goes on when the other one has ended, so that one
    event tells the time.
    """
    begun = gpu.mark()
    gpu.call("cuStreamWaitEvent", other, begun, 0)
    gpu.copy(loop.down, loop.source, loop.size, other)
    done = gpu.mark(other)
    gpu.copy(loop.target, loop.up, loop.size)
    gpu.call("cuStreamWaitEvent", gpu.stream, done, 0)
    for event in (begun, done):
        gpu.call("cuEventDestroy", event)  # the driver keeps it until it has happened


def peer(gpu: CudaGpu, events: EventWriter, options: dict[str, Any]) -> BurnInResult:
    """Run `peer`: from this GPU to each of *peers* (PCI addresses) and back at once; options mib,
    seconds a pair.
    """
    size, seconds = (
        int(float(options.get("mib", MIB)) * (1 << 20)),
        float(options.get("seconds", 1)),
    )
    results: dict[str, BurnInResult] = {}
    for address in options.get("peers", []):
        events.heartbeat(peer=address)
        with CudaGpu(address) as other:
            results[address] = _pair(gpu, other, events, size, seconds)
        events.write("sample", peer=address, **results[address].numbers)
    if not results:
        return make_result(BurnInStatus.SKIP, "no other GPU to send to")
    wrong = sum(result.mismatches or 0 for result in results.values())
    first = tuple(
        mismatch._replace(peer=address)
        for address, result in results.items()
        for mismatch in result.first
    )
    proof = Proof(
        all(result.proof["proven"] for result in results.values()),
        {address: result.proof for address, result in results.items()},
    )
    numbers = {"peers": {address: dict(result.numbers) for address, result in results.items()}}
    return judge_comparison(
        sum(result.operations or 0 for result in results.values()),
        "words sent to other GPUs",
        Mismatches(wrong, first),
        proof,
        **numbers,
    )


def _pair(
    gpu: CudaGpu, other: CudaGpu, events: EventWriter, size: int, seconds: float
) -> BurnInResult:
    """Send a pattern to another GPU, and back at once; each copy is timed, and compared where it
    arrives by that GPU's own kernel.
    """
    direct = gpu.reaches(other) and other.reaches(gpu)
    source, target = gpu.take(size), other.take(size)
    back, from_other = gpu.take(size), other.take(size)
    there, here, words = Detector(other), Detector(gpu), size // 8
    here.fill(source, words, "random", SEED)
    there.fill(from_other, words, "random", SEED + 1)
    there.fill(target, words, "random", SEED)
    here.fill(back, words, "random", SEED + 1)
    proof = combine_proofs(
        [
            prove_detector(
                there, target, words, lambda: there.check(target, words, "random", SEED)
            ),
            prove_detector(here, back, words, lambda: here.check(back, words, "random", SEED + 1)),
        ]
    )

    def compare() -> None:
        there.check(target, words, "random", SEED)
        other.wait()  # what follows writes there again

    def compare_both() -> None:
        compare()
        here.check(back, words, "random", SEED + 1)

    one = repeated(gpu, events, seconds / 2, lambda: gpu.copy(target, source, size), compare)
    two = repeated(
        gpu,
        events,
        seconds / 2,
        lambda: _exchange(gpu, other, (target, source), (back, from_other), size),
        compare_both,
    )
    for end, at in ((other, target), (gpu, back)):
        end.zero(at, size)  # so that what is right there in the end has come now
        end.wait()
    _exchange(gpu, other, (target, source), (back, from_other), size)
    gpu.wait()
    there.check(target, words, "random", SEED)
    here.check(back, words, "random", SEED + 1)
    found, returned = there.collect(), here.collect()
    gpu.release(source, back)
    numbers = {
        "direct": direct,
        "one_way_gbps": _rate(size, one),
        "both_gbps": _rate(2 * size, two),
    }
    compared = (len(one) + 1 + 2 * (len(two) + 1) + 2) * words
    return judge_comparison(compared, "words", found.plus(returned), proof, **numbers)


def _exchange(
    gpu: CudaGpu, other: CudaGpu, out: tuple[int, int], back: tuple[int, int], size: int
) -> None:
    """Copy both ways at once, each on its own GPU's stream; this GPU's stream ends last."""
    begun = gpu.mark()
    other.call("cuStreamWaitEvent", other.stream, begun, 0)
    other.copy(*back, size)
    done = other.mark()
    gpu.copy(*out, size)
    gpu.call("cuStreamWaitEvent", gpu.stream, done, 0)
    gpu.call("cuEventDestroy", begun)
    other.call("cuEventDestroy", done)


def _rate(size: int, times: list[float]) -> float:
    return round(size / sorted(times)[len(times) // 2] / 1e9, 1)
