"""Matrix multiplication C = A x B^T, with A (m, k), B (n, k) and C (m, n) all row-major; whole
tiles only.
"""

import triton
import triton.language as tl


@triton.jit
def _place(tile, rows, columns, GROUP: tl.constexpr):
    """Return the row and column of a tile: GROUP rows of tiles are walked together, so that both
    operands stay in L2.
    """
    group = tile // (GROUP * columns)
    first = group * GROUP
    height = min(rows - first, GROUP)
    row = first + (tile % (GROUP * columns)) % height
    return row, (tile % (GROUP * columns)) // height


@triton.jit
def persistent(
    a,
    b,
    c,
    m,
    n,
    k,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
    GROUP: tl.constexpr,
    ACC: tl.constexpr,
    SPLIT: tl.constexpr,
    FLAT: tl.constexpr,
    SPECIAL: tl.constexpr,
):
    """One block a multiprocessor, each walking over many tiles; operands come and results go
    through tensor descriptors.

    SPLIT stores a tile in that many column strips, where the whole of it would not fit into shared
    memory. FLAT makes one loop of those over tiles and over k, so that a tile's loads begin while
    the one before it is stored. SPECIAL gives loads and products warps of their own.
    """
    rows, columns = m // TM, n // TN
    a_tiles = tl.make_tensor_descriptor(a, [m, k], [k, 1], [TM, TK])
    b_tiles = tl.make_tensor_descriptor(b, [n, k], [k, 1], [TN, TK])
    c_tiles = tl.make_tensor_descriptor(c, [m, n], [n, 1], [TM, TN // SPLIT])
    for tile in tl.range(
        tl.program_id(0), rows * columns, tl.num_programs(0), flatten=FLAT, warp_specialize=SPECIAL
    ):
        row, column = _place(tile, rows, columns, GROUP)
        acc = tl.zeros((TM, TN), dtype=ACC)
        for step in range(k // TK):
            left = a_tiles.load([row * TM, step * TK])
            right = b_tiles.load([column * TN, step * TK])
            acc = tl.dot(left, right.T, acc, out_dtype=ACC)
        if SPLIT == 1:
            c_tiles.store([row * TM, column * TN], acc.to(c.dtype.element_ty))
        elif SPLIT == 2:
            first, second = _halves(acc, TM, TN)
            c_tiles.store([row * TM, column * TN], first.to(c.dtype.element_ty))
            c_tiles.store([row * TM, column * TN + TN // 2], second.to(c.dtype.element_ty))
        else:
            first, second = _halves(acc, TM, TN)
            first, after_first = _halves(first, TM, TN // 2)
            second, after_second = _halves(second, TM, TN // 2)
            c_tiles.store([row * TM, column * TN], first.to(c.dtype.element_ty))
            c_tiles.store([row * TM, column * TN + TN // 4], after_first.to(c.dtype.element_ty))
            c_tiles.store([row * TM, column * TN + TN // 2], second.to(c.dtype.element_ty))
            c_tiles.store(
                [row * TM, column * TN + 3 * TN // 4], after_second.to(c.dtype.element_ty)
            )


@triton.jit
def _halves(acc, TM: tl.constexpr, TN: tl.constexpr):
    """Return the left and the right half of a tile's columns."""
    return tl.split(tl.permute(tl.reshape(acc, (TM, 2, TN // 2)), (0, 2, 1)))


@triton.jit
def tiled(
    a,
    b,
    c,
    m,
    n,
    k,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
    GROUP: tl.constexpr,
    ACC: tl.constexpr,
):
    """One block a tile, plain loads and stores: what every architecture runs."""
    row, column = _place(tl.program_id(0), m // TM, n // TN, GROUP)
    i = row * TM + tl.arange(0, TM)
    j = column * TN + tl.arange(0, TN)
    s = tl.arange(0, TK)
    left_at = a + i[:, None].to(tl.int64) * k + s[None, :]
    right_at = b + j[None, :].to(tl.int64) * k + s[:, None]
    acc = tl.zeros((TM, TN), dtype=ACC)
    for _ in range(k // TK):
        acc = tl.dot(tl.load(left_at), tl.load(right_at), acc, out_dtype=ACC)
        left_at += TK
        right_at += TK
    tl.store(c + i[:, None].to(tl.int64) * n + j[None, :], acc.to(c.dtype.element_ty))
