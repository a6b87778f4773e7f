"""Finding wrong words on a GPU, and the proof that they would be found: a flip injected into the
buffer that is read.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.burnin.worker.driver import CudaGpu
from gpuscan.burnin.worker.words import MASK, PATTERNS

KEPT = 32  # wrong words that are told one by one
CHECK_BLOCK = 1024  # words a block of the kernels over words


class Found(NamedTuple):
    """What a pass over a buffer found: how many words were wrong, and the first of them."""

    wrong: int
    first: list[dict[str, str]]


class Detector:
    """Counts wrong words of one GPU's memory; starts passes without waiting, and tells at
    `found`.
    """

    def __init__(self, gpu: CudaGpu) -> None:
        self.gpu = gpu
        self._at = gpu.take(8 * (1 + 4 * KEPT))
        self.clear()

    def clear(self) -> None:
        """Forget what was found."""
        self.gpu.zero(self._at, 8 * (1 + 4 * KEPT))

    def fill(self, at: int, words: int, pattern: str, seed: int = 0, offset: int = 0) -> None:
        """Start to write a pattern; index 0 of the buffer is *offset* of the pattern. Words are a
        multiple of 16.
        """
        self.gpu.launch(
            "fill-words",
            blocks(words),
            buffer=at,
            words=words,
            kind=PATTERNS[pattern],
            seed=seed,
            offset=offset,
        )

    def check(
        self,
        at: int,
        words: int,
        pattern: str,
        seed: int = 0,
        offset: int = 0,
        flip: int = 0,
        step: bool = False,
    ) -> None:
        """Start to compare with a pattern xor *flip*; *step* leaves the complement of what was
        expected.
        """
        name = "check-step" if step else "check-read"
        pattern_of = {"kind": PATTERNS[pattern], "seed": seed, "offset": offset, "flip": flip}
        self.gpu.launch(
            name, blocks(words), buffer=at, words=words, found=self._at, capacity=KEPT, **pattern_of
        )

    def compare(self, at: int, right: int, words: int) -> None:
        """Start to compare a buffer with another one that is right."""
        self.gpu.launch(
            "compare-words",
            blocks(words),
            buffer=at,
            other=right,
            words=words,
            found=self._at,
            capacity=KEPT,
        )

    def digest(self, at: int, words: int) -> int:
        """Return the hash of a buffer."""
        self.gpu.zero(self._at, 8)
        self.gpu.launch("digest-words", blocks(words), buffer=at, words=words, total=self._at)
        (total,) = self.gpu.words(self._at, 1)
        self.clear()
        return total

    def flip(self, at: int, word: int, bit: int) -> None:
        """Inject a fault."""
        self.gpu.launch("flip-words", 1, buffer=at, index=word, bit=bit)

    def found(self) -> Found:
        """Wait, return what was found since the last time, and forget it."""
        count, *rows = self.gpu.words(self._at, 1 + 4 * KEPT)
        first = [row(*rows[at : at + 4]) for at in range(0, 4 * min(count, KEPT), 4)]
        self.clear()
        return Found(count, first)


def row(address: int, expected: int, got: int, again: int) -> dict[str, str]:
    """Return a wrong word for people: as hexadecimal, with the bits that differ; *again* is a
    second read right after.

    >>> row(0x10, 0xFF, 0xFE, 0xFF)["xor"], row(0x10, 0xFF, 0xFE, 0xFF)["second_read"]
    ('0x1', 'right')
    """
    second = (
        "the same wrong value"
        if again == got
        else "right"
        if again == expected
        else "another wrong value"
    )
    words = {
        "address": address,
        "expected": expected,
        "got": got,
        "xor": expected ^ got,
        "again": again,
    }
    return {name: hex(word & MASK) for name, word in words.items()} | {"second_read": second}


def blocks(words: int, block: int = CHECK_BLOCK) -> int:
    """Return how many blocks of a kernel cover so many words."""
    return -(-words // block)


def proof(detector: Detector, at: int, words: int, look: Callable[[], Any]) -> dict[str, Any]:
    """Flip the first, a middle and the last word of a buffer one after the other; *look* starts the
    detector's pass.

    Returns the injected places and whether each was found at its address and with its bit, and gone
    once flipped back; and what else was wrong at most: a GPU whose words are wrong already has not
    made its detector deaf.
    """
    told, found, wrong = [], [], Found(0, [])
    for word, bit in ((0, 0), (words // 2 + 1, 31), (words - 1, 63)):
        detector.flip(at, word, bit)
        look()
        with_fault = detector.found()
        detector.flip(at, word, bit)
        look()
        without = detector.found()
        others = [row for row in with_fault.first if not _is(row, at + 8 * word, bit)]
        seen = (
            with_fault.wrong - without.wrong == 1
        )  # where more are wrong than are told one by one
        if with_fault.wrong <= KEPT:
            seen = len(others) < len(with_fault.first) and not any(
                _is(row, at + 8 * word, bit) for row in without.first
            )
        hidden = (
            with_fault.wrong == without.wrong > KEPT
        )  # this word may have been one of those that are wrong
        told.append(
            {
                "word": word,
                "bit": bit,
                "found": seen or hidden,
                "counted": with_fault.wrong,
                "after": without.wrong,
            }
        )
        found.append(seen)
        wrong = max(
            wrong,
            Found(with_fault.wrong - seen, others[:8]),
            Found(without.wrong, without.first[:8]),
            key=_count,
        )
    proven = any(found) and all(each["found"] for each in told)
    return {"proven": proven, "injected": told, "wrong": wrong.wrong, "first": wrong.first}


def _count(found: Found) -> int:
    return found.wrong


def _is(row: dict[str, str], address: int, bit: int) -> bool:
    """Tell whether a wrong word is the one with the injected flip; other bits of it may be wrong
    besides.
    """
    return row["address"] == hex(address) and bool(int(row["xor"], 16) >> bit & 1)


def together(proofs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return several detectors' proofs as one: each has to have found what was injected."""
    lists = {name: [row for each in proofs for row in each[name]] for name in ("injected", "first")}
    return {
        "proven": all(each["proven"] for each in proofs),
        "wrong": sum(each["wrong"] for each in proofs),
        **lists,
    }
