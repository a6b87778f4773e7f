"""The digests of the exact products, computed on a CPU by integers: with numpy, as the full shape
is too much for plain Python.
"""

from typing import Any

from gpuscan.burnin.worker.words import GOLDEN, MASK, PERIODS, RANGES

SHAPES = ((256, 256, 256), (8192, 8192, 8192))


def goldens() -> dict[str, str]:
    """Return digests by type and shape: `bf16 8192x8192x8192`."""
    return {
        f"{dtype} {m}x{n}x{k}": f"{golden(dtype, m, n, k):016x}"
        for dtype in RANGES
        for m, n, k in SHAPES
    }


def golden(dtype: str, m: int, n: int, k: int) -> int:
    """Return one digest; `gpuscan.burnin.worker.words.golden` is the same, slowly."""
    import numpy as np

    numbers = RANGES[dtype]
    left = _operand(min(m, PERIODS[0]), k, numbers.low_a, numbers.count_a, 1)
    right = _operand(min(n, PERIODS[1]), k, numbers.low_b, numbers.count_b, 2)
    table = (left @ right.T).astype({"f": np.float32, "i": np.int32, "d": np.float64}[numbers.code])
    columns = np.arange(n) % PERIODS[1]
    total = 0
    for row in range(m):
        words = table[row % PERIODS[0]][columns].view(np.uint64)
        index = np.arange(len(words), dtype=np.uint64) + np.uint64(row * len(words))
        total += int(
            _mix(words + _mix((index + np.uint64(1)) * np.uint64(GOLDEN))).sum(dtype=np.uint64)
        )
    return total & MASK


def _operand(rows: int, columns: int, low: int, count: int, seed: int) -> Any:
    import numpy as np

    index = np.arange(1, rows * columns + 1, dtype=np.uint64)
    bits = _mix(index * np.uint64(GOLDEN) + np.uint64(seed))
    return ((bits >> np.uint64(33)) % np.uint64(count)).astype(np.int64).reshape(
        rows, columns
    ) + low


def _mix(word: Any) -> Any:
    import numpy as np

    word = (word ^ word >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ word >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return word ^ word >> np.uint64(31)
