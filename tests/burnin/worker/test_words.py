"""The words that kernels write and expect, and the exact products, are what mathematics says."""

from __future__ import annotations

import struct
from array import array

import pytest

from gpuscan.burnin.worker import words
from gpuscan.burnin.worker.cubins import manifest


def test_mix_is_splitmix64() -> None:
    """The first three numbers of SplitMix64 with seed 1234567, as published with it."""
    assert [words.mix(1234567 + n * words.GOLDEN & words.MASK) for n in (1, 2, 3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_patterns() -> None:
    assert words.expected("address", 5, 0, 0x7F00) == 0x7F00
    assert words.expected("address", 5, words.MASK, 0x7F00) == 0xFFFFFFFFFFFF80FF
    assert words.expected("constant", 5, 0x55) == 0x55
    assert words.expected("walking", 66, 0) == 4
    assert words.expected("walking", 66, words.MASK) == words.MASK - 4
    assert (
        words.expected("random", 5, 1)
        != words.expected("random", 6, 1)
        != words.expected("random", 6, 2)
    )


def test_digest_is_a_sum_that_knows_places() -> None:
    some = [3, 0, 7, 7]
    total = sum(
        words.mix(w + words.mix((i + 1) * words.GOLDEN & words.MASK) & words.MASK)
        for i, w in enumerate(some)
    )
    assert words.digest(some) == total & words.MASK
    assert words.digest([7, 0, 3, 7]) != words.digest(some)
    assert words.digest([*some, 0]) != words.digest(some)


@pytest.mark.parametrize("bit", [0, 31, 63])
def test_digest_notices_each_flip(bit: int) -> None:
    assert words.digest([1, 2 ^ 1 << bit, 3]) != words.digest([1, 2, 3])


@pytest.mark.parametrize("dtype", words.RANGES)
def test_golden_hash_of_the_package_is_the_exact_product(dtype: str) -> None:
    """The constants are made with numpy; here the small shape is made with Python's integers
    alone.
    """
    assert (
        f"{words.golden(dtype, 256, 256, 256):016x}" == manifest()["golden"][f"{dtype} 256x256x256"]
    )
    assert f"{dtype} 8192x8192x8192" in manifest()["golden"]


def test_product_is_row_times_row() -> None:
    numbers = words.RANGES["int8"]
    made = words.product("int8", 64, 70, 8)
    for i, j in ((0, 0), (63, 69), (61, 67), (5, 66)):
        left = words.operand(i % 61, 8, numbers.low_a, numbers.count_a, 1)
        right = words.operand(j % 67, 8, numbers.low_b, numbers.count_b, 2)
        assert made[i * 70 + j] == sum(a * b for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize(
    ("dtype", "bits_operand", "bits_sum"),
    [
        ("bf16", 8, 24),
        ("fp16", 11, 24),
        ("tf32", 11, 24),
        ("fp8", 4, 13),
        ("int8", 8, 31),
        ("fp64", 53, 53),
    ],
)
def test_every_partial_sum_is_exact(dtype: str, bits_operand: int, bits_sum: int) -> None:
    """Operands fit the type's significand, and no order of summing 8192 products leaves the
    accumulator's exact integers.
    """
    numbers = words.RANGES[dtype]
    largest_a = max(-numbers.low_a, numbers.low_a + numbers.count_a - 1)
    largest_b = max(-numbers.low_b, numbers.low_b + numbers.count_b - 1)
    assert max(largest_a, largest_b) <= 2**bits_operand
    if dtype == "fp8":  # the worst case would not fit: no row and column come near it
        left = [words.operand(row, 8192, numbers.low_a, numbers.count_a, 1) for row in range(61)]
        right = [words.operand(row, 8192, numbers.low_b, numbers.count_b, 2) for row in range(67)]
        assert (
            max(sum(map(abs, map(int.__mul__, a, b))) for a in left for b in right[:5])
            < 2**bits_sum
        )
        return
    assert 8192 * largest_a * largest_b <= 2**bits_sum


def test_operands_of_every_value() -> None:
    numbers = words.RANGES["bf16"]
    row = words.operand(3, 1024, numbers.low_a, numbers.count_a, 1)
    assert set(row) == set(range(-8, 9))
    assert row != words.operand(4, 1024, numbers.low_a, numbers.count_a, 1)


def test_result_is_little_endian_words() -> None:
    made = words.product("bf16", 2, 2, 4)
    first = struct.unpack("<Q", struct.pack("<2f", made[0], made[1]))[0]
    assert array("Q", made.tobytes())[0] == first
