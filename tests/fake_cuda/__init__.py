"""A stand-in for NVIDIA's binding: memory in Python, and our kernels as words.py says them; faults
can be planted.

It is put in the place of `cuda.bindings.driver`, so that the driver, the detectors, the tests and
the worker run as they are.
"""

from __future__ import annotations

import ctypes
import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cache
from types import SimpleNamespace
from typing import Any

from gpuscan.burnin.worker import cubins, words

MASK = words.MASK
NAMES = {value: key for key, value in words.PATTERNS.items()}


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_STUB_LIBRARY = 34
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_ECC_UNCORRECTABLE = 214
    CUDA_ERROR_OPERATING_SYSTEM = 304
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_SYSTEM_NOT_READY = 802
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804
    CUDA_ERROR_UNKNOWN = 999


CUdevice_attribute = SimpleNamespace(
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="multiprocessors",
    CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO="fp64_ratio",
)
CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")


class Driver:
    """One process's driver: GPUs of *memory* bytes each; `after_write`, `lost` and `deaf` are
    where faults are planted. `context` is whose GPU the calls are for, `variant` the kernel that
    was launched last, `way` the last copy's ends: a GPU's context, or `host`.
    """

    def __init__(self, memory: int = 1 << 20, attributes: dict[str, int] | None = None) -> None:
        self.CUresult, self.CUdevice_attribute, self.CUfunction_attribute = (
            CUresult,
            CUdevice_attribute,
            CUfunction_attribute,
        )
        self.memory, self.held = memory, 0  # *held*: by other programs
        self.attributes = attributes or {
            "major": 9,
            "minor": 0,
            "multiprocessors": 4,
            "fp64_ratio": 2,
        }
        self.blocks: dict[int, array[int]] = {}
        self.host: set[int] = set()
        self.next = 1 << 32
        self.calls: list[str] = []
        self.functions: dict[str, dict[str, Any]] = {}
        self.spent_ms = 5.0
        self.context: object = None
        self.owners: dict[int, object] = {}
        self.variant = ""
        self.way: tuple[object, object] = ("", "")
        self.after_write: Callable[[str, int, array[int]], None] = lambda _what, _at, _block: None
        self.lost: Callable[[str, int], bool] = lambda _what, _at: False  # writes that never happen
        self.left: dict[
            int, list[array[int]]
        ] = {}  # what was in memory that was given back: the next who takes it finds it there
        self.deaf: set[str] = set()
        self.apart = False  # GPUs do not reach each other
        self.failing: dict[str, CUresult] = {}
        for entries in cubins.manifest()["architectures"].values():
            self.functions |= {entry["sha256"]: entry for entry in entries.values()}

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        """What is not worth simulating succeeds and gives an object."""
        if not name.startswith("cu"):
            raise AttributeError(name)
        return self._wrapped(name, lambda *_: (object(),))

    def _wrapped(
        self, name: str, call: Callable[..., tuple[Any, ...]]
    ) -> Callable[..., tuple[Any, ...]]:
        def made(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            if name in self.failing:
                return (
                    (self.failing[name],) if name == "cuEventQuery" else (self.failing[name], None)
                )
            return (CUresult.CUDA_SUCCESS, *call(*arguments))

        return made

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("cu"):
            found = type(self).__dict__.get("_" + name)
            if found is not None:
                return self._wrapped(name, found.__get__(self))
        return super().__getattribute__(name)

    def _cuGetErrorName(self, status: CUresult) -> tuple[bytes]:
        return (CUresult(status).name.encode(),)

    def _cuGetErrorString(self, status: CUresult) -> tuple[bytes]:
        return (b"as planted",)

    def _cuDeviceGetName(self, size: int, device: object) -> tuple[bytes]:
        return (b"NVIDIA Fake".ljust(size, b"\0"),)

    def _cuDeviceGetAttribute(self, attribute: str, device: object) -> tuple[int]:
        return (self.attributes[attribute],)

    def _cuDeviceGetByPCIBusId(self, address: bytes) -> tuple[int]:
        return (int(address.split(b":")[1], 16),)

    def _cuStreamCreate(self, flags: int) -> tuple[int]:
        return (7,)

    def _cuDevicePrimaryCtxRetain(self, device: object) -> tuple[object]:
        return (device,)

    def _cuCtxSetCurrent(self, context: object) -> tuple[()]:
        self.context = context
        return ()

    def _cuDriverGetVersion(self) -> tuple[int]:
        return (12080,)

    def _cuDeviceCanAccessPeer(self, gpu: object, other: object) -> tuple[int]:
        return (0 if self.apart else 1,)

    def _cuMemGetInfo(self) -> tuple[int, int]:
        return self.memory - self.held - sum(
            8 * len(block) for block in self.blocks.values()
        ), self.memory

    def _cuMemAlloc(self, size: int) -> tuple[int]:
        at, self.next = self.next, self.next + (size + 511) // 256 * 256
        self.blocks[at] = self._memory(size)
        self.owners[at] = self.context
        return (at,)

    def _memory(self, size: int) -> array[int]:
        words = (size + 7) // 8
        return self.left[words].pop() if self.left.get(words) else array("Q", bytes(8 * words))

    def _cuMemHostAlloc(self, size: int, flags: int) -> tuple[int]:
        block = self._memory(size)
        at = block.buffer_info()[0]  # the host may write there itself
        self.blocks[at] = block
        self.host.add(at)
        return (at,)

    def _cuMemFree(self, at: int) -> tuple[()]:
        block = self.blocks.pop(at)
        self.left.setdefault(len(block), []).append(block)
        return ()

    _cuMemFreeHost = _cuMemFree

    def _cuModuleLoadData(self, data: bytes) -> tuple[dict[str, Any]]:
        return (
            self.functions[
                hashlib.sha256(
                    data.removesuffix(b"\0") if data[:4] != b"\x7fELF" else data
                ).hexdigest()
            ],
        )

    def _cuModuleGetFunction(self, module: dict[str, Any], name: bytes) -> tuple[dict[str, Any]]:
        assert module["function"] == name.decode()
        return (module,)

    def _cuEventElapsedTime(self, first: object, last: object) -> tuple[float]:
        return (self.spent_ms,)

    def _cuEventQuery(self, event: object) -> tuple[()]:
        return ()

    def place(self, at: int) -> tuple[int, array[int], int]:
        """Return the block that an address is in, and the word's index in it."""
        starts = sorted(self.blocks)
        start = starts[bisect_right(starts, at) - 1]
        index = (at - start) // 8
        assert 0 <= index < len(self.blocks[start]), f"{at:#x} is outside of memory"
        return start, self.blocks[start], index

    def write(self, what: str, at: int, made: array[int]) -> None:
        start, block, index = self.place(at)
        assert index + len(made) <= len(block)
        if self.lost(what, at):
            return
        block[index : index + len(made)] = made
        self.after_write(what, start, block)

    def read(self, at: int, count: int) -> array[int]:
        _, block, index = self.place(at)
        assert index + count <= len(block)
        return block[index : index + count]

    def _cuMemcpyAsync(self, target: int, source: int, size: int, stream: object) -> tuple[()]:
        self.way = (self._owner(source), self._owner(target))
        self.write("copy", target, self.read(source, size // 8))
        return ()

    def _owner(self, at: int) -> object:
        start, *_ = self.place(at)
        return "host" if start in self.host else self.owners[start]

    def _cuMemsetD8Async(self, at: int, value: int, size: int, stream: object) -> tuple[()]:
        self.write("zero", at, array("Q", bytes([value]) * size))
        return ()

    def _cuMemcpyDtoH(self, pointer: int, at: int, size: int) -> tuple[()]:
        ctypes.memmove(pointer, self.read(at, size // 8).tobytes(), size)
        return ()

    def _cuLaunchKernel(self, entry: dict[str, Any], *rest: Any) -> tuple[()]:
        blocks, threads, shared, pointers = rest[0], rest[3], rest[6], rest[8]
        assert (threads, shared) == (32 * entry["warps"], entry["shared_bytes"])
        assert blocks > 0
        sizes = [
            ctypes.c_int32 if kind == "i32" else ctypes.c_uint64 for _, kind in entry["arguments"]
        ]
        slots = (ctypes.c_uint64 * (len(sizes) + 2)).from_address(pointers)
        given = {
            name: kind.from_address(slot).value
            for (name, _), kind, slot in zip(entry["arguments"], sizes, slots, strict=False)
        }
        scratch = ctypes.c_uint64.from_address(slots[len(sizes)]).value
        assert not entry["scratch_bytes"] or len(self.read(scratch, 1)) == 1
        self.variant = str(entry.get("variant", ""))
        if entry["kernel"] not in self.deaf:
            getattr(self, "_kernel_" + entry["kernel"])(entry, **given)
        return ()

    def _kernel_fill(
        self, entry: Any, buffer: int, words: int, kind: int, seed: int, offset: int
    ) -> None:
        self.write("fill", buffer, array("Q", pattern(kind, seed, offset, buffer, words)))

    def _kernel_check(
        self,
        entry: Any,
        buffer: int,
        words: int,
        kind: int,
        seed: int,
        offset: int,
        flip: int,
        found: int,
        capacity: int,
    ) -> None:
        wanted = array("Q", (word ^ flip for word in pattern(kind, seed, offset, buffer, words)))
        self._differences(buffer, wanted, found, capacity)
        if entry["constants"]["WRITE"]:
            self.write("step", buffer, array("Q", (word ^ MASK for word in wanted)))

    def _kernel_compare(
        self, entry: Any, buffer: int, other: int, words: int, found: int, capacity: int
    ) -> None:
        self._differences(buffer, self.read(other, words), found, capacity)

    def _differences(self, at: int, wanted: array[int], found: int, capacity: int) -> None:
        got = self.read(at, len(wanted))
        wrong = (
            [index for index, word in enumerate(wanted) if word != got[index]]
            if got != wanted
            else []
        )
        _, block, first = self.place(found)
        for index in wrong:
            if block[first] < capacity:
                row = first + 1 + 4 * block[first]
                block[row : row + 4] = array(
                    "Q", (at + 8 * index, wanted[index], got[index], got[index])
                )
            block[first] += 1

    def _kernel_digest(self, entry: Any, buffer: int, total: int, **more: int) -> None:
        self.write("digest", total, array("Q", [words.digest(self.read(buffer, more["words"]))]))

    def _kernel_flip(self, entry: Any, buffer: int, index: int, bit: int) -> None:
        _, block, first = self.place(buffer)
        block[first + index] ^= 1 << bit

    def _kernel_spin(self, entry: Any, flag: int) -> None:
        assert self.read(flag, 1)[0] == 0

    def _kernel_read(self, entry: Any, buffer: int, total: int, **more: int) -> None:
        self.read(buffer, more["words"])

    def _kernel_copy(self, entry: Any, target: int, buffer: int, **more: int) -> None:
        self.write("copy-kernel", target, self.read(buffer, more["words"]))

    def _kernel_triad(self, entry: Any, target: int, buffer: int, other: int, words: int) -> None:
        both = zip(self.read(buffer, words), self.read(other, words), strict=True)
        self.write("triad", target, array("Q", (left + 3 * right & MASK for left, right in both)))

    def _kernel_operand(self, entry: Any, target: int, **more: int) -> None:
        self.place(target)

    def _kernel_persistent(self, entry: Any, c: int, m: int, n: int, k: int, **more: int) -> None:
        dtype = entry["variant"].removesuffix("-exact")
        size = {"bf16": 4, "fp16": 4, "fp8": 4}.get(entry["variant"], 0)
        made = product(dtype, m, n, k)
        self.write("gemm", c, array("Q", made[: len(made) * 2 // size] if size else made))

    _kernel_tiled = _kernel_persistent


@cache
def product(dtype: str, m: int, n: int, k: int) -> bytes:
    """The exact product, which takes Python a while."""
    return words.product(dtype, m, n, k).tobytes()


def pattern(kind: int, seed: int, offset: int, at: int, count: int) -> Iterator[int]:
    return (
        words.expected(NAMES[kind], index + offset, seed, at + 8 * index) for index in range(count)
    )
