"""Finding wrong words on a card, and the proof that they would be found: a flip injected into the buffer that is read."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuscan.burnin.driver import Card
from gpuscan.burnin.words import MASK, PATTERNS

KEPT = 32  # wrong words that are told one by one
CHECK_BLOCK = 1024  # words a block of the kernels over words


class Found(NamedTuple):
    """What a pass over a buffer found: how many words were wrong, and the first of them."""

    wrong: int
    first: list[dict[str, str]]


class Detector:
    """Counts wrong words of one card's memory; starts passes without waiting, and tells at `found`."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self._at = card.take(8 * (1 + 4 * KEPT))
        self.clear()

    def clear(self) -> None:
        """Forget what was found."""
        self.card.zero(self._at, 8 * (1 + 4 * KEPT))

    def fill(self, at: int, words: int, pattern: str, seed: int = 0, offset: int = 0) -> None:
        """Start to write a pattern; index 0 of the buffer is *offset* of the pattern. Words are a multiple of 16."""
        self.card.launch("fill-words", blocks(words), buffer=at, words=words, kind=PATTERNS[pattern], seed=seed, offset=offset)

    def check(self, at: int, words: int, pattern: str, seed: int = 0, offset: int = 0, flip: int = 0, step: bool = False) -> None:
        """Start to compare with a pattern xor *flip*; *step* leaves the complement of what was expected."""
        name = "check-step" if step else "check-read"
        pattern_of = {"kind": PATTERNS[pattern], "seed": seed, "offset": offset, "flip": flip}
        self.card.launch(name, blocks(words), buffer=at, words=words, found=self._at, capacity=KEPT, **pattern_of)

    def compare(self, at: int, right: int, words: int) -> None:
        """Start to compare a buffer with another one that is right."""
        self.card.launch("compare-words", blocks(words), buffer=at, other=right, words=words, found=self._at, capacity=KEPT)

    def digest(self, at: int, words: int) -> int:
        """Return the hash of a buffer."""
        self.card.zero(self._at, 8)
        self.card.launch("digest-words", blocks(words), buffer=at, words=words, total=self._at)
        (total,) = self.card.words(self._at, 1)
        self.clear()
        return total

    def flip(self, at: int, word: int, bit: int) -> None:
        """Inject a fault."""
        self.card.launch("flip-words", 1, buffer=at, index=word, bit=bit)

    def found(self) -> Found:
        """Wait, return what was found since the last time, and forget it."""
        count, *rows = self.card.words(self._at, 1 + 4 * KEPT)
        first = [row(*rows[at : at + 4]) for at in range(0, 4 * min(count, KEPT), 4)]
        self.clear()
        return Found(count, first)


def row(address: int, expected: int, got: int, again: int) -> dict[str, str]:
    """Return a wrong word for people: as hexadecimal, with the bits that differ; *again* is a second read right after.

    >>> row(0x10, 0xFF, 0xFE, 0xFF)["xor"], row(0x10, 0xFF, 0xFE, 0xFF)["second_read"]
    ('0x1', 'right')
    """
    second = "the same wrong value" if again == got else "right" if again == expected else "another wrong value"
    words = {"address": address, "expected": expected, "got": got, "xor": expected ^ got, "again": again}
    return {name: hex(word & MASK) for name, word in words.items()} | {"second_read": second}


def blocks(words: int, block: int = CHECK_BLOCK) -> int:
    """Return how many blocks of a kernel cover so many words."""
    return -(-words // block)


def proof(detector: Detector, at: int, words: int, look: Callable[[], Any]) -> dict[str, Any]:
    """Flip the first, a middle and the last word of a buffer one after the other; *look* starts the detector's pass.

    Returns the injected places and whether each was found alone, at its address and with its bit, and gone once flipped back.
    """
    told = []
    for word, bit in ((0, 0), (words // 2 + 1, 31), (words - 1, 63)):
        detector.flip(at, word, bit)
        look()
        with_fault = detector.found()
        detector.flip(at, word, bit)
        look()
        without = detector.found()
        seen = with_fault.wrong == 1 and without.wrong == 0
        right = seen and with_fault.first[0]["address"] == hex(at + 8 * word) and with_fault.first[0]["xor"] == hex(1 << bit)
        told.append({"word": word, "bit": bit, "found": right, "counted": with_fault.wrong, "after": without.wrong})
    return {"proven": all(each["found"] for each in told), "injected": told}
