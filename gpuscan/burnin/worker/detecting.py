"""Finding mismatches in a GPU's memory, and proving that they would be found by injecting flips
into the buffer that is checked.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.burnin.results import MAX_LISTED, format_mismatch
from gpuscan.burnin.worker.driver import CudaGpu
from gpuscan.burnin.worker.words import MASK, PATTERNS
from gpuscan.model.burnin import Mismatch

CAPACITY = 32  # mismatches that a kernel records one by one
CHECK_BLOCK = 1024  # words per block of the kernels that check words


class Mismatches(NamedTuple):
    """How many words were wrong in a pass over a buffer, and the first of them."""

    total: int = 0
    first: tuple[Mismatch, ...] = ()

    def plus(self, other: "Mismatches") -> "Mismatches":
        """Return both as one."""
        return Mismatches(self.total + other.total, (self.first + other.first)[:MAX_LISTED])


class Proof(NamedTuple):
    """Whether the detector found every injected flip.

    *injected* lists the flips, by peer in a test of several GPUs. *wrong* counts the mismatches
    seen meanwhile besides the injected ones, *first* lists some of them.
    """

    proven: bool
    injected: Sequence[Mapping[str, Any]] | Mapping[str, Any] = ()
    wrong: int = 0
    first: tuple[Mismatch, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a result's `proof`."""
        injected = self.injected
        return {
            "proven": self.proven,
            "injected": dict(injected) if isinstance(injected, Mapping) else list(injected),
            "wrong": self.wrong,
            "first": [format_mismatch(each) for each in self.first],
        }


class Detector:
    """Counts mismatches in one GPU's memory: passes are started without waiting, and `collect`
    waits for them and returns what they found.
    """

    def __init__(self, gpu: CudaGpu) -> None:
        self.gpu = gpu
        self._at = gpu.take(8 * (1 + 4 * CAPACITY))
        self.clear()

    def clear(self) -> None:
        """Forget what was found."""
        self.gpu.zero(self._at, 8 * (1 + 4 * CAPACITY))

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
            name,
            blocks(words),
            buffer=at,
            words=words,
            found=self._at,
            capacity=CAPACITY,
            **pattern_of,
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
            capacity=CAPACITY,
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

    def collect(self) -> Mismatches:
        """Wait, return what was found since the last call, and clear it."""
        count, *rows = self.gpu.words(self._at, 1 + 4 * CAPACITY)
        starts = range(0, 4 * min(count, CAPACITY), 4)
        first = tuple(make_mismatch(*rows[start : start + 4]) for start in starts)
        self.clear()
        return Mismatches(count, first)


def make_mismatch(address: int, expected: int, got: int, again: int) -> Mismatch:
    """Return a mismatch in hexadecimal; *again* is a second read right after.

    >>> make_mismatch(0x10, 0xFF, 0xFE, 0xFF).xor, make_mismatch(0x10, 0xFF, 0xFE, 0xFF).second_read
    ('0x1', 'right')
    """
    if again == got:
        second_read = "the same wrong value"
    elif again == expected:
        second_read = "right"
    else:
        second_read = "another wrong value"
    return Mismatch(
        address=hex(address),
        expected=hex(expected & MASK),
        got=hex(got & MASK),
        xor=hex((expected ^ got) & MASK),
        again=hex(again & MASK),
        second_read=second_read,
    )


def blocks(words: int, block: int = CHECK_BLOCK) -> int:
    """Return how many blocks of a kernel cover so many words."""
    return -(-words // block)


def prove_detector(detector: Detector, at: int, words: int, check: Callable[[], Any]) -> Proof:
    """Flip the first, a middle and the last word of a buffer in turn; *check* starts the detector's
    pass.

    A flip counts as found where it was seen at its address and bit, and gone once flipped back. A
    GPU whose words are wrong already does not count against its detector.
    """
    injected, seen_once, most = [], False, Mismatches()
    for word, bit in ((0, 0), (words // 2 + 1, 31), (words - 1, 63)):
        detector.flip(at, word, bit)
        check()
        during = detector.collect()
        detector.flip(at, word, bit)
        check()
        after = detector.collect()
        address = at + 8 * word
        others = tuple(each for each in during.first if not _is_flip(each, address, bit))
        # where more are wrong than are recorded one by one, only the count can tell
        seen = during.total - after.total == 1
        if during.total <= CAPACITY:
            gone = not any(_is_flip(each, address, bit) for each in after.first)
            seen = len(others) < len(during.first) and gone
        hidden = during.total == after.total > CAPACITY  # this word may have been wrong already
        injected.append(
            {
                "word": word,
                "bit": bit,
                "found": seen or hidden,
                "counted": during.total,
                "after": after.total,
            }
        )
        seen_once = seen_once or seen
        besides = Mismatches(during.total - seen, others[:MAX_LISTED])
        remaining = Mismatches(after.total, after.first[:MAX_LISTED])
        most = max(most, besides, remaining, key=_total)
    proven = seen_once and all(each["found"] for each in injected)
    return Proof(proven, injected, most.total, most.first)


def _total(mismatches: Mismatches) -> int:
    return mismatches.total


def _is_flip(mismatch: Mismatch, address: int, bit: int) -> bool:
    """Return whether a mismatch is the injected flip; other bits of the word may be wrong too."""
    return mismatch.address == hex(address) and bool(int(mismatch.xor, 16) >> bit & 1)


def _flips(proof: Proof) -> Sequence[Mapping[str, Any]]:
    return [] if isinstance(proof.injected, Mapping) else proof.injected


def combine_proofs(proofs: Sequence[Proof]) -> Proof:
    """Return several detectors' proofs as one: each must have found what was injected."""
    return Proof(
        all(proof.proven for proof in proofs),
        [flip for proof in proofs for flip in _flips(proof)],
        sum(proof.wrong for proof in proofs),
        tuple(each for proof in proofs for each in proof.first),
    )
