"""Patterns over nearly all free memory, every word compared, and the speed of memory."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from gpuscan.burnin.results import BurnInResult, BurnInStatus
from gpuscan.burnin.worker.detecting import (
    Detector,
    Mismatches,
    Proof,
    blocks,
    combine_proofs,
    prove_detector,
)
from gpuscan.burnin.worker.driver import OUT_OF_MEMORY, CudaError, CudaGpu
from gpuscan.burnin.worker.protocol import EventWriter, judge_comparison
from gpuscan.burnin.worker.words import MASK

Chunk = tuple[int, int]  # address, words
FRACTION = 0.97  # of free memory; what is asked for at least is 0.95
LEAST = 0.95
# of the GPU's: the driver and a context take some hundred MiB; where others hold more, that is
# untested
LEAST_OF_ALL = 0.9
GRAIN = 1 << 21  # the driver's own page of 2 MiB
MOVED = 1026  # words by which a block move comes back displaced
READ_BLOCK = 2048
BUFFER_MIB = 2048.0

PATTERNS: dict[str, tuple[str, int]] = {  # name: what `fill` writes, and its seed
    "address": ("address", 0),
    "address-inverted": ("address", MASK),
    "zeros": ("constant", 0),
    "ones": ("constant", MASK),
    "0x55": ("constant", 0x5555555555555555),
    "0xaa": ("constant", 0xAAAAAAAAAAAAAAAA),
    "walking-one": ("walking", 0),
    "walking-zero": ("walking", MASK),
    "random": ("random", 0x6A09E667F3BCC908),
    "random-2": ("random", 0xBB67AE8584CAA73B),
}
MOVING = (
    "moving-zeros",
    "moving-0x55",
    "moving-walking",
    "moving-random",
)  # moving inversions start with that pattern
OTHERS = ("block-move", "fade")
QUICK = ["address", "zeros", "ones", "0x55", "0xaa", "random"]


def run(gpu: CudaGpu, events: EventWriter, options: dict[str, Any]) -> BurnInResult:
    """Run `memory`: options patterns (names), passes, fraction of free memory, fade_s (how long
    `fade` leaves the words alone).
    """
    free, total = gpu.free_memory()
    chunks = _taken(gpu, float(options.get("fraction", FRACTION)))
    size = sum(8 * words for _, words in chunks)
    detector = Detector(gpu)
    proof = _prove(detector, chunks)
    began_s = time.monotonic()
    wrong, checked = Mismatches(), 0
    by_pattern: dict[str, int] = {}
    for turn in range(int(options.get("passes", 1))):
        for name in options.get("patterns", QUICK):
            found, words = _pattern(
                gpu, events, detector, chunks, name, float(options.get("fade_s", 60))
            )
            by_pattern[name] = by_pattern.get(name, 0) + found.total
            checked += words
            wrong = wrong.plus(found)
            events.write("sample", pattern=name, turn=turn, wrong=found.total)
    gpu.release(*(at for at, _ in chunks))
    numbers = {
        "tested_mib": size >> 20,
        "free_mib": free >> 20,
        "total_mib": total >> 20,
        "share_of_free": round(size / free, 4),
    }
    spent_s = time.monotonic() - began_s
    result = judge_comparison(
        checked,
        "words read",
        wrong,
        proof,
        wrong=by_pattern,
        seconds=round(spent_s, 2),
        **numbers,
    )
    for least, whole, of in (
        (LEAST, free, "free memory"),
        (LEAST_OF_ALL, total, "the GPU's memory"),
    ):
        passed = result.status is BurnInStatus.PASS
        if passed and size < least * whole and "fraction" not in options:
            text = f"only {size / whole:.0%} of {of} could be allocated; {result.text}"
            return result._replace(status=BurnInStatus.UNKNOWN, text=text)
    return result


def _taken(gpu: CudaGpu, fraction: float) -> list[Chunk]:
    """Take so much of free memory, in as few pieces as the driver grants."""
    wanted = int(gpu.free_memory()[0] * fraction) // GRAIN * GRAIN
    piece, chunks = wanted, []
    while wanted >= GRAIN and piece >= 16 * GRAIN:
        try:
            chunks.append((gpu.take(min(piece, wanted)), min(piece, wanted) // 8))
        except CudaError as error:
            if error.name != OUT_OF_MEMORY:
                raise
            piece = piece // 2 // GRAIN * GRAIN
            continue
        wanted -= chunks[-1][1] * 8
    if not chunks:
        raise CudaError(
            OUT_OF_MEMORY, f"the GPU has no {16 * GRAIN >> 20} MiB of free memory to test"
        )
    return chunks


def _prove(detector: Detector, chunks: list[Chunk]) -> Proof:
    """Prove the check in the first and in the last chunk."""
    proofs = []
    for at, words in {chunks[0], chunks[-1]}:
        detector.fill(at, words, "random")
        check = partial(detector.check, at, words, "random")
        proofs.append(prove_detector(detector, at, words, check))
    return combine_proofs(proofs)


def _pattern(
    gpu: CudaGpu,
    events: EventWriter,
    detector: Detector,
    chunks: list[Chunk],
    name: str,
    fade_s: float,
) -> tuple[Mismatches, int]:
    """Run one pattern over all chunks; return what was found and how many words were read."""
    events.heartbeat(pattern=name)
    if name == "block-move":
        for chunk in chunks:
            _move(gpu, detector, *chunk)
        return detector.collect(), sum(words for _, words in chunks)
    if name.startswith("moving-"):
        return _invert(events, detector, chunks, name.removeprefix("moving-"))
    pattern, seed = PATTERNS["random" if name == "fade" else name]
    for at, words in chunks:
        detector.fill(at, words, pattern, seed)
    if name == "fade":
        _rest(gpu, events, fade_s)
    for at, words in chunks:
        detector.check(at, words, pattern, seed)
    return detector.collect(), sum(words for _, words in chunks)


def _invert(
    events: EventWriter, detector: Detector, chunks: list[Chunk], name: str
) -> tuple[Mismatches, int]:
    """Moving inversions: check the pattern and leave its complement, check that and leave the
    pattern, check it.
    """
    pattern, seed = PATTERNS[{"walking": "walking-one"}.get(name, name)]
    for at, words in chunks:
        detector.fill(at, words, pattern, seed)
    for flip, step in ((0, True), (MASK, True), (0, False)):
        for at, words in chunks:
            detector.check(at, words, pattern, seed, flip=flip, step=step)
        events.heartbeat(pattern=f"moving-{name}")
    return detector.collect(), 3 * sum(words for _, words in chunks)


def _move(gpu: CudaGpu, detector: Detector, at: int, words: int) -> None:
    """Move the first half to the second, compare, and move it back displaced by some words,
    compare again.
    """
    half = words // 2 // 16 * 16
    detector.fill(at, half, "random", 3)
    gpu.launch("copy-words", blocks(half), target=at + 8 * half, buffer=at, words=half)
    detector.check(at + 8 * half, half, "random", 3)
    kept = (half - MOVED) // 16 * 16
    gpu.launch("copy-words", blocks(kept), target=at + 8 * MOVED, buffer=at + 8 * half, words=kept)
    detector.check(at + 8 * MOVED, kept, "random", 3)
    detector.check(at, MOVED // 16 * 16, "random", 3)


def _rest(gpu: CudaGpu, events: EventWriter, seconds: float) -> None:
    """Leave the words alone for so long."""
    gpu.wait()
    ends_s = time.monotonic() + seconds
    while (left_s := ends_s - time.monotonic()) > 0:
        time.sleep(min(0.5, left_s))
        events.heartbeat(pattern="fade")


def bandwidth(gpu: CudaGpu, events: EventWriter, options: dict[str, Any]) -> BurnInResult:
    """Run `hbm`: read, write, copy and triad of *mib* a buffer for *seconds* together; GB/s of
    traffic, median of the samples.

    What was copied is compared in the end.
    """
    words = int(float(options.get("mib", BUFFER_MIB)) * (1 << 17))
    first, second, third = (gpu.take(8 * words) for _ in range(3))
    detector = Detector(gpu)
    total = gpu.take(64)
    detector.fill(first, words, "random", 7)
    detector.fill(third, words, "random", 8)
    detector.fill(second, words, "random", 7)
    proof = prove_detector(
        detector, second, words, lambda: detector.check(second, words, "random", 7)
    )
    ways = {
        "read": (
            1,
            lambda: gpu.launch(
                "read-words", blocks(words, READ_BLOCK), buffer=first, words=words, total=total
            ),
        ),
        "write": (1, lambda: detector.fill(second, words, "constant", 1)),
        "triad": (
            3,
            lambda: gpu.launch(
                "triad-words", blocks(words), target=second, buffer=first, other=third, words=words
            ),
        ),
        "copy": (
            2,
            lambda: gpu.launch(
                "copy-words", blocks(words), target=second, buffer=first, words=words
            ),
        ),
    }
    rates = {}
    for name, (traffic, start) in ways.items():
        samples = repeated(gpu, events, float(options.get("seconds", 2)) / len(ways), start)
        rates[f"{name}_gbps"] = round(
            traffic * 8 * words / sorted(samples)[len(samples) // 2] / 1e9, 1
        )
        events.write("sample", **{f"{name}_gbps": rates[f"{name}_gbps"]})
    detector.check(second, words, "random", 7)
    detector.fill(second, words, "constant", 1)
    gpu.launch(
        "copy-words", blocks(words), target=second, buffer=first, words=words
    )  # once more, to where nothing is right yet
    detector.check(second, words, "random", 7)
    found = detector.collect()
    gpu.release(first, second, third, total)
    return judge_comparison(2 * words, "words copied", found, proof, **rates)


def repeated(
    gpu: CudaGpu,
    events: EventWriter,
    seconds: float,
    start: Callable[[], Any],
    compare: Callable[[], Any] | None = None,
) -> list[float]:
    """Start something again and again for so long, after a first time whose time does not count;
    return the times in seconds. *compare* is done each time, and is not timed.
    """
    start()
    gpu.wait()
    if compare is not None:
        compare()
    times: list[float] = []
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s or len(times) < 3:
        before = gpu.mark()
        start()
        times.append(gpu.between_s(before, gpu.mark()))
        if compare is not None:
            compare()
        events.heartbeat()
    return times
