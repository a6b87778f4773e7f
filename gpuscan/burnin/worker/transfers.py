"""Copies between GPU and host and between GPUs: every word compared on arrival, and the speed of
each way.
"""

import ctypes
from typing import Any, NamedTuple

from gpuscan.burnin.worker.detecting import Detector, Found, proof, together
from gpuscan.burnin.worker.driver import CudaGpu
from gpuscan.burnin.worker.lines import Outcome, Teller, judged
from gpuscan.burnin.worker.memory import repeated

SEED = 0x5BE0CD19137E2179
MIB = 512


class Loop(NamedTuple):
    """Buffers of one size: on the GPU source and target, in the host's pinned memory there and
    back.
    """

    size: int
    source: int
    target: int
    up: int
    down: int


def pcie(gpu: CudaGpu, teller: Teller, options: dict[str, Any]) -> Outcome:
    """Run `pcie`: options mib (a buffer), seconds (all ways together). GB/s to the GPU, to the
    host, and both at once.

    A made pattern goes from the GPU to the host and back into another buffer, where each word is
    compared.
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
    proven = proof(
        detector, loop.target, words, lambda: detector.check(loop.target, words, "random", SEED)
    )
    found, where = _around(gpu, detector, loop)
    rates = _rates(gpu, teller, loop, float(options.get("seconds", 3)))
    detector.check(loop.target, words, "random", SEED)  # what came last of both ways at once
    gpu.copy(loop.target, loop.down, size)
    detector.check(loop.target, words, "random", SEED)
    both = detector.found()
    again, where_again = _around(gpu, detector, loop)
    gpu.release(loop.source, loop.target, loop.up, loop.down)
    first = (found.first + both.first + again.first)[:8]
    wrong = found.wrong + both.wrong + again.wrong
    outcome = judged(4 * words, "words moved to the host and back", wrong, first, proven, **rates)
    return (
        outcome._replace(text=outcome.text + (where or where_again))
        if outcome.status == "fail"
        else outcome
    )


def _around(gpu: CudaGpu, detector: Detector, loop: Loop) -> tuple[Found, str]:
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
    found = detector.found()
    if not found.wrong:
        return found, ""
    gpu.copy(loop.target, loop.down, loop.size)
    detector.check(loop.target, words, "random", SEED)
    if detector.found().wrong:
        return (
            found,
            "; a second upload is wrong too: on the way to the host, or in the host's memory",
        )
    return found, "; a second upload is right: on the way to the GPU"


def _rates(gpu: CudaGpu, teller: Teller, loop: Loop, seconds: float) -> dict[str, float]:
    """Return the median rates in GB/s; `both` is the sum of the two ways at once, on two streams."""
    gpu.copy(loop.up, loop.source, loop.size)
    other = gpu.call("cuStreamCreate", 1)
    ways = {"to_card_gbps": (1, lambda: gpu.copy(loop.target, loop.up, loop.size))}
    ways["to_host_gbps"] = (1, lambda: gpu.copy(loop.down, loop.source, loop.size))
    ways["both_gbps"] = (2, lambda: _both(gpu, loop, other))
    rates = {}
    for name, (traffic, start) in ways.items():
        times = repeated(gpu, teller, seconds / len(ways), start)
        rates[name] = round(traffic * loop.size / sorted(times)[len(times) // 2] / 1e9, 2)
        teller.tell("sample", **{name: rates[name]})
    gpu.call("cuStreamDestroy", other)
    return rates


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


def peer(gpu: CudaGpu, teller: Teller, options: dict[str, Any]) -> Outcome:
    """Run `peer`: from this GPU to each of *peers* (PCI addresses) and back at once; options mib,
    seconds a pair.
    """
    size, seconds = (
        int(float(options.get("mib", MIB)) * (1 << 20)),
        float(options.get("seconds", 1)),
    )
    outcomes: dict[str, Outcome] = {}
    for address in options.get("peers", []):
        teller.beat(peer=address)
        with CudaGpu(address) as other:
            outcomes[address] = _pair(gpu, other, teller, size, seconds)
        teller.tell("sample", peer=address, **outcomes[address].numbers)
    if not outcomes:
        return Outcome("skip", "no other GPU to send to")
    wrong = sum(outcome.mismatches for outcome in outcomes.values())
    first = [
        row | {"peer": address} for address, outcome in outcomes.items() for row in outcome.first
    ]
    proven = {
        "proven": all(o.proof["proven"] for o in outcomes.values()),
        "injected": {a: o.proof for a, o in outcomes.items()},
    }
    numbers = {"peers": {address: outcome.numbers for address, outcome in outcomes.items()}}
    return judged(
        sum(o.operations for o in outcomes.values()),
        "words sent to other GPUs",
        wrong,
        first[:8],
        proven,
        **numbers,
    )


def _pair(gpu: CudaGpu, other: CudaGpu, teller: Teller, size: int, seconds: float) -> Outcome:
    """Send a pattern to another GPU, compare it there by that GPU's own kernel; then time one
    way and both.
    """
    direct = gpu.reaches(other) and other.reaches(gpu)
    source, target = gpu.take(size), other.take(size)
    back, from_other = gpu.take(size), other.take(size)
    there, here, words = Detector(other), Detector(gpu), size // 8
    here.fill(source, words, "random", SEED)
    there.fill(from_other, words, "random", SEED + 1)
    there.fill(target, words, "random", SEED)
    here.fill(back, words, "random", SEED + 1)
    proven = together(
        [
            proof(there, target, words, lambda: there.check(target, words, "random", SEED)),
            proof(here, back, words, lambda: here.check(back, words, "random", SEED + 1)),
        ]
    )
    one = repeated(gpu, teller, seconds / 2, lambda: gpu.copy(target, source, size))
    there.check(target, words, "random", SEED)
    other.wait()  # what follows writes there again
    two = repeated(
        gpu,
        teller,
        seconds / 2,
        lambda: _exchange(gpu, other, (target, source), (back, from_other), size),
    )
    there.check(target, words, "random", SEED)
    here.check(back, words, "random", SEED + 1)
    for end, at in ((other, target), (gpu, back)):
        end.zero(at, size)  # so that what is right there in the end has come now
        end.wait()
    _exchange(gpu, other, (target, source), (back, from_other), size)
    gpu.wait()
    there.check(target, words, "random", SEED)
    here.check(back, words, "random", SEED + 1)
    found, returned = there.found(), here.found()
    gpu.release(source, back)
    numbers = {
        "direct": direct,
        "one_way_gbps": _rate(size, one),
        "both_gbps": _rate(2 * size, two),
    }
    return judged(
        5 * words,
        "words",
        found.wrong + returned.wrong,
        found.first + returned.first,
        proven,
        **numbers,
    )


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
