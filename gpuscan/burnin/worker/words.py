"""The 64-bit words that the kernels write, expect and hash, said again in Python;
kernels/memory.py computes the same on a GPU.
"""

from array import array
from collections.abc import Iterable
from typing import NamedTuple

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
PATTERNS = {"address": 0, "constant": 1, "walking": 2, "random": 3}
PERIODS = (61, 67)  # rows of A and of B that differ; primes, so that no two tiles are alike


class Range(NamedTuple):
    """Integers of the exact operands: low and count for A and for B. All partial sums are exact in
    the accumulator.

    With k = 8192: at most 2^19 where 24 bits are kept (bf16, fp16, tf32), less than 2^13 in fp8
    (Hopper keeps fewer bits there), 2^27 of 2^31 in int8, 2^43 of 2^53 in fp64.
    """

    low_a: int
    count_a: int
    low_b: int
    count_b: int
    code: str  # array's type code of the result


RANGES = {
    "bf16": Range(-8, 17, -8, 17, "f"),
    "fp16": Range(-8, 17, -8, 17, "f"),
    "tf32": Range(-8, 17, -8, 17, "f"),
    "fp8": Range(-2, 5, -1, 3, "f"),
    "int8": Range(-128, 256, -128, 256, "i"),
    "fp64": Range(-32768, 65537, -32768, 65537, "d"),
}


def mix(word: int) -> int:
    """Return SplitMix64's finaliser of a word.

    >>> hex(mix(GOLDEN))  # the first number of SplitMix64 with seed 0
    '0xe220a8397b1dcdaf'
    """
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK
    return word ^ word >> 31


def expected(pattern: str, index: int, seed: int = 0, address: int = 0) -> int:
    """Return the word that a pattern has at an index, as `fill` writes it and `check` expects it.

    >>> [hex(expected("walking", index)) for index in (0, 4, 63, 64)]
    ['0x1', '0x10', '0x8000000000000000', '0x1']
    """
    if pattern == "address":
        return address ^ seed
    if pattern == "constant":
        return seed
    if pattern == "walking":
        return 1 << (index & 63) ^ seed
    return mix((index + 1) * GOLDEN + seed & MASK)


def digest(words: Iterable[int]) -> int:
    """Return the sum of each word's hash with its index, as the kernel `digest` does in whatever
    order.
    """
    return (
        sum(mix(word + mix((index + 1) * GOLDEN & MASK) & MASK) for index, word in enumerate(words))
        & MASK
    )


def operand(row: int, columns: int, low: int, count: int, seed: int) -> list[int]:
    """Return one row of an exact operand, as the kernel `operand` makes it (rows are repeated with
    a period by the caller).
    """
    return [
        (mix((row * columns + at + 1) * GOLDEN + seed & MASK) >> 33) % count + low
        for at in range(columns)
    ]


def product(dtype: str, m: int, n: int, k: int) -> "array[float] | array[int]":
    """Return C = A x B^T of the exact operands, row by row, by integer arithmetic; for small
    shapes.
    """
    numbers = RANGES[dtype]
    left = [operand(row, k, numbers.low_a, numbers.count_a, 1) for row in range(min(m, PERIODS[0]))]
    right = [
        operand(row, k, numbers.low_b, numbers.count_b, 2) for row in range(min(n, PERIODS[1]))
    ]
    table = [[sum(map(int.__mul__, a, b)) for b in right] for a in left]
    made = array(numbers.code)
    for i in range(m):
        row = table[i % PERIODS[0]]
        made.extend([row[j % PERIODS[1]] for j in range(n)])
    return made


def golden(dtype: str, m: int, n: int, k: int) -> int:
    """Return the digest of the exact product's bytes, read as little-endian 64-bit words."""
    return digest(array("Q", product(dtype, m, n, k).tobytes()))
