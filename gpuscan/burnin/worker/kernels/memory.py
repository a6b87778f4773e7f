"""Patterns, checks, hashes, bandwidth and the injected fault over 64-bit words;
`gpuscan.burnin.worker.words` says the same in Python.
"""

import triton
import triton.language as tl

GOLDEN = tl.constexpr(
    0x9E3779B97F4A7C15
)  # the fraction of the golden ratio: Steele, Lea, Flood 2014 (SplitMix)
FIRST = tl.constexpr(0xBF58476D1CE4E5B9)
SECOND = tl.constexpr(0x94D049BB133111EB)


@triton.jit
def _mix(x):
    """Return SplitMix64's finaliser of a word: each bit of the input changes half of the output."""
    x = (x ^ (x >> 30)) * FIRST
    x = (x ^ (x >> 27)) * SECOND
    return x ^ (x >> 31)


@triton.jit
def _expected(at, index, kind, seed):
    """Return the word that belongs at an index: 0 its own address, 1 the seed, 2 a walking bit
    (both xor the seed), 3 random.
    """
    word = index
    if kind == 0:
        word = at ^ seed
    elif kind == 1:
        word = index * 0 + seed
    elif kind == 2:
        word = ((index * 0 + 1) << (index & 63)) ^ seed
    else:
        word = _mix((index + 1) * GOLDEN + seed)
    return word


@triton.jit
def _indices(words, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.uint64) * BLOCK + tl.arange(0, BLOCK).to(tl.uint64)
    return index, index < words


@triton.jit
def fill(buffer, words, kind, seed, offset, BLOCK: tl.constexpr):
    """Write the pattern; index 0 of the buffer is *offset* of the pattern."""
    index, inside = _indices(words, BLOCK)
    at = (buffer + index).to(tl.uint64)
    tl.store(buffer + index, _expected(at, index + offset, kind, seed), mask=inside)


@triton.jit
def check(
    buffer,
    words,
    kind,
    seed,
    offset,
    flip,
    found,
    capacity,
    BLOCK: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Count the words that are not expected xor *flip* in found[0]; the first ones leave address,
    expected, got and a second read.

    found holds 1 + 4 * capacity words. WRITE leaves the complement behind: one step of moving
    inversions.
    """
    index, inside = _indices(words, BLOCK)
    at = (buffer + index).to(tl.uint64)
    want = _expected(at, index + offset, kind, seed) ^ flip
    got = tl.load(buffer + index, mask=inside, other=0)
    wrong = inside & (got != want)
    if tl.sum(wrong.to(tl.int32), axis=0) > 0:
        again = tl.load(buffer + index, mask=wrong, other=0, volatile=True)
        _record(found, capacity, at, want, got, again, wrong)
    if WRITE:
        tl.store(buffer + index, ~want, mask=inside)


@triton.jit
def _record(found, capacity, at, want, got, again, wrong):
    place = tl.atomic_add(found + at * 0, wrong.to(tl.uint64), mask=wrong)
    kept = wrong & (place < capacity)
    row = found + 1 + place * 4
    tl.store(row, at, mask=kept)
    tl.store(row + 1, want, mask=kept)
    tl.store(row + 2, got, mask=kept)
    tl.store(row + 3, again, mask=kept)


@triton.jit
def compare(buffer, other, words, found, capacity, BLOCK: tl.constexpr):
    """Count the words in which two buffers differ, as `check` does; *other* is the one that is
    right.
    """
    index, inside = _indices(words, BLOCK)
    want = tl.load(other + index, mask=inside, other=0)
    got = tl.load(buffer + index, mask=inside, other=0)
    wrong = inside & (got != want)
    if tl.sum(wrong.to(tl.int32), axis=0) > 0:
        again = tl.load(buffer + index, mask=wrong, other=0, volatile=True)
        _record(found, capacity, (buffer + index).to(tl.uint64), want, got, again, wrong)


@triton.jit
def digest(buffer, words, total, BLOCK: tl.constexpr):
    """Add to total[0] the hash of each word with its index: the sum is the same in whatever order
    it is made.
    """
    index, inside = _indices(words, BLOCK)
    word = tl.load(buffer + index, mask=inside, other=0)
    hashed = tl.where(inside, _mix(word + _mix((index + 1) * GOLDEN)), index * 0)
    tl.atomic_add(total, tl.sum(hashed, axis=0))


@triton.jit
def flip(buffer, index, bit):
    """Flip one bit of one word: the fault that each detector has to find before it is believed."""
    word = tl.load(buffer + index)
    tl.store(buffer + index, word ^ (tl.full((), 1, tl.uint64) << bit))


@triton.jit
def spin(flag):
    """Run until somebody writes the flag: what a stuck card looks like."""
    while tl.load(flag, volatile=True) == 0:
        pass


@triton.jit
def read(buffer, words, total, BLOCK: tl.constexpr):
    """Read all; a word is kept only if it is one certain number, so that the loads cannot be left
    out.
    """
    index, inside = _indices(words, BLOCK)
    word = tl.load(buffer + index, mask=inside, other=0)
    tl.store(total + index * 0, word, mask=word == GOLDEN)


@triton.jit
def copy(target, buffer, words, BLOCK: tl.constexpr):
    """Copy word by word; 16 bytes of traffic a word."""
    index, inside = _indices(words, BLOCK)
    tl.store(target + index, tl.load(buffer + index, mask=inside), mask=inside)


@triton.jit
def triad(target, buffer, other, words, BLOCK: tl.constexpr):
    """Store buffer + 3 * other (modulo 2^64); 24 bytes of traffic a word."""
    index, inside = _indices(words, BLOCK)
    left = tl.load(buffer + index, mask=inside)
    right = tl.load(other + index, mask=inside)
    tl.store(target + index, left + 3 * right, mask=inside)


@triton.jit
def operand(
    target, elements, columns, period, low, span, seed, BLOCK: tl.constexpr, EXACT: tl.constexpr
):
    """Make a matrix of *columns* columns for GEMM, row-major.

    EXACT: integers low .. low + span - 1, rows repeated with *period* (a prime, so that no two
    tiles are alike). Else: full-entropy numbers, uniform in (-1, 1) or over all integers of the
    type.
    """
    index = tl.program_id(0).to(tl.uint64) * BLOCK + tl.arange(0, BLOCK).to(tl.uint64)
    if EXACT:
        row = (index // columns) % period
        bits = _mix((row * columns + index % columns + 1) * GOLDEN + seed)
        value = ((bits >> 33) % span).to(tl.int32) + low
    else:
        bits = _mix((index + 1) * GOLDEN + seed)
        if target.dtype.element_ty == tl.int8:
            value = (bits >> 56).to(tl.int8)
        elif target.dtype.element_ty == tl.float64:
            value = (bits >> 11).to(tl.float64) * 2.220446049250313e-16 - 1.0
        else:
            value = (bits >> 40).to(tl.int32).to(tl.float32) * 1.1920928955078125e-07 - 1.0
    if target.dtype.element_ty == tl.float8e4nv:
        made = value.to(tl.float32).to(tl.float8e4nv)
    else:
        made = value.to(target.dtype.element_ty)
    tl.store(target + index, made, mask=index < elements)
