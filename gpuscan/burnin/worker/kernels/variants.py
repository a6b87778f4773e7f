"""Which kernels are compiled for which architecture: tiles, stages, warps and types."""

from collections.abc import Mapping
from typing import NamedTuple

# Triton's number, PTX version (the oldest that its instructions allow), shared memory a block in
# KiB
ARCHITECTURES = {
    "sm_80": (80, 80, 163),
    "sm_86": (86, 80, 99),
    "sm_89": (89, 84, 99),
    "sm_90a": (90, 86, 227),
    "sm_100a": (100, 86, 227),
    "sm_103a": (103, 88, 227),
    "sm_120a": (120, 87, 99),
}
PORTABLE = ("compute_89", 89, 84)  # PTX for cards newer than these: the least that multiplies fp8

GEMM = {  # Triton's names of operand, result, accumulator; bytes of an operand, of a result
    "bf16": ("bf16", "bf16", "fp32", 2, 2),
    "fp16": ("fp16", "fp16", "fp32", 2, 2),
    "fp8": ("fp8e4nv", "bf16", "fp32", 1, 2),
    "int8": ("i8", "i32", "int32", 1, 4),
    "tf32": ("fp32", "fp32", "fp32", 4, 4),
    "fp64": ("fp64", "fp64", "fp64", 8, 8),
    "bf16-exact": ("bf16", "fp32", "fp32", 2, 4),
    "fp16-exact": ("fp16", "fp32", "fp32", 2, 4),
    "fp8-exact": ("fp8e4nv", "fp32", "fp32", 1, 4),
}
TRITON_FP8_FROM = 89  # e4m3 in tensor cores: Ada and newer


class Variant(NamedTuple):
    """One kernel to compile: source function, name of the variant, constants, types of its
    arguments, warps, stages.

    *cuda* is the file of a kernel in CUDA C++, for what Triton does not make well; its constants
    and stages are macros there.
    """

    kernel: str
    name: str
    constants: Mapping[str, object]
    types: Mapping[str, str]
    warps: int
    stages: int
    cuda: str = ""


def variants(arch: str) -> list[Variant]:
    """Return all that is compiled for an architecture (`sm_90a`); PTX has what a card of any later
    kind can run.
    """
    number, _, shared_kib = ARCHITECTURES["sm_89" if arch == PORTABLE[0] else arch]
    made = memory()
    for dtype in GEMM:
        if dtype.startswith("fp8") and number < TRITON_FP8_FROM:
            continue
        made.append(_operand(dtype)) if not dtype.endswith("-exact") else None
        made.append(_tiled(dtype, number, shared_kib))
        if number >= 90 and dtype != "fp64":
            made.append(_persistent(dtype, number, shared_kib))
    return made + (
        [
            _exact_operand(d)
            for d in GEMM
            if not d.endswith("-exact") and (d != "fp8" or number >= TRITON_FP8_FROM)
        ]
    )


def memory() -> list[Variant]:
    """Return the kernels over 64-bit words, the same for every architecture."""
    word, n = "*u64", "u64"
    pattern = {"buffer": word, "words": n, "kind": "i32", "seed": n, "offset": n}
    found = {"found": word, "capacity": n}
    block = {"BLOCK": 1024}
    return [
        Variant("fill", "words", block, pattern, 4, 1),
        Variant("check", "read", block | {"WRITE": False}, pattern | {"flip": n} | found, 4, 1),
        Variant("check", "step", block | {"WRITE": True}, pattern | {"flip": n} | found, 4, 1),
        Variant(
            "compare", "words", block, {"buffer": word, "other": word, "words": n} | found, 4, 1
        ),
        Variant("digest", "words", block, {"buffer": word, "words": n, "total": word}, 4, 1),
        Variant("spin", "words", {}, {"flag": word}, 1, 1),
        Variant("flip", "words", {}, {"buffer": word, "index": n, "bit": n}, 1, 1),
        Variant(
            "read", "words", {"BLOCK": 2048}, {"buffer": word, "words": n, "total": word}, 4, 1
        ),
        Variant("copy", "words", block, {"target": word, "buffer": word, "words": n}, 4, 1),
        Variant(
            "triad",
            "words",
            block,
            {"target": word, "buffer": word, "other": word, "words": n},
            4,
            1,
        ),
    ]


def _operand(dtype: str, exact: bool = False) -> Variant:
    types = {
        "target": "*" + GEMM[dtype][0],
        "elements": "u64",
        "columns": "u64",
        "period": "u64",
        "low": "i32",
        "span": "u64",
        "seed": "u64",
    }
    return Variant(
        "operand", dtype + ("-exact" if exact else ""), {"BLOCK": 1024, "EXACT": exact}, types, 4, 1
    )


def _exact_operand(dtype: str) -> Variant:
    return _operand(dtype, exact=True)


def _types(dtype: str) -> dict[str, str]:
    operand, result = GEMM[dtype][:2]
    return {
        "a": "*" + operand,
        "b": "*" + operand,
        "c": "*" + result,
        "m": "i32",
        "n": "i32",
        "k": "i32",
    }


def _persistent(dtype: str, number: int, shared_kib: int) -> Variant:
    """On an H100, 128 x 256 x 64 in bf16, 3 stages, 8 warps, group 16 is as fast as cuBLAS; a K
    tile is 128 bytes in each type.
    """
    width, result = GEMM[dtype][3], GEMM[dtype][4]
    columns = 256 if shared_kib > 128 else 128
    split = 1 if result == 2 else 2 if columns == 128 else 4
    constants = {
        "TM": 128,
        "TN": columns,
        "TK": 128 // width,
        "GROUP": 16,
        "ACC": GEMM[dtype][2],
        "SPLIT": split,
        "FLAT": True,
        "SPECIAL": False,
    }
    return Variant("persistent", dtype, constants, _types(dtype), 8, 3 if columns == 256 else 2)


def _tiled(dtype: str, number: int, shared_kib: int) -> Variant:
    width, cuda = GEMM[dtype][3], ""
    if dtype == "fp64" and number == 90:
        tile, warps, stages, cuda = (128, 128, 16), 8, 4, "fp64.cu"
    elif dtype == "fp64":
        tile, warps, stages = (64, 64, 16), 4, 3
    elif number in (90, 100, 103):
        tile, warps, stages = (128, 256, 128 // width), 8, 3
    else:
        tile, warps, stages = (128, 128, 64 // width), 8 if number == 80 else 4, 3
    constants = {"TM": tile[0], "TN": tile[1], "TK": tile[2], "GROUP": 8, "ACC": GEMM[dtype][2]}
    return Variant("tiled", dtype, constants, _types(dtype), warps, stages, cuda)
