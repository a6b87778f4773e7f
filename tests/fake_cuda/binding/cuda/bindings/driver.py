"""`cuda.bindings.driver` for workers that are processes of their own: the stand-in, with faults
planted, in which work takes no time.

FAKE_CUDA_FAULTS is JSON, by GPU: *flip* what is written wrong (`gemm`, `fill`, `copy`) every third
time (or *every*), up to *until*; *fail* calls with a CUDA code; *ms* a launch takes, *triad_ms* a
launch of the memory's triad; *deaf* kernels; *apart* where it reaches no other GPU; *hang* the call
that never returns, whatever the signal (a file `hanging` in *folder* says that it hangs). Under
`start` it has calls that fail with a CUDA code whatever the GPU.

What is flipped may be rarer: with the probability *chance* a write, drawn from *seed*; only by the
kernel *variant* (`fp8-exact`; at full load `fp8`), only copies that come *from* or go *to* a
GPU or the `host`, only *hot*, after so many products at full load. In place of a wrong bit it
*leaves* a byte in a file, by which a number of the fake NVML grows, or *logs* a line once (file,
line). *steady*: the worker's time passes by its launches and copies alone, so that the same load
takes the same number of them on any machine; *pause*: [number of a product at full load, real
seconds that it takes], for NVML to be sampled in a test that is over in no time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import fake_cuda

from gpuscan.burnin.worker import driver, gemm, memory, transfers

SPEED = 1000.0  # time flies in a worker, so that tests of minutes take a moment
MINE: dict[str, Any] = {}  # planted in the GPU that this worker has opened
SPENT = {"s": 0.0}  # by launches, copies and rests, where time is steady
_began_s, _monotonic, _sleep = time.monotonic(), time.monotonic, time.sleep


def _fast_monotonic() -> float:
    if MINE.get("steady"):
        return _began_s + SPENT["s"]
    return _began_s + SPEED * (_monotonic() - _began_s)


def _fast_sleep(seconds: Any) -> None:
    SPENT["s"] += float(seconds)
    _sleep(float(seconds) / SPEED)


time.monotonic = _fast_monotonic
time.sleep = _fast_sleep
driver.HANG_S = 0.5 * SPEED
driver.FAREWELL_S = 0.5 * SPEED
memory.GRAIN = 1 << 10  # a GPU of one MiB would not be worth a page
memory.BUFFER_MIB = 1 / 16
memory.FRACTION, memory.LEAST, memory.LEAST_OF_ALL = 0.05, 0.0, 0.0
transfers.MIB = 1 / 16
gemm.SIZE = 256

DRIVER = fake_cuda.Driver()
FAULTS: dict[str, Any] = json.loads(os.environ.get("FAKE_CUDA_FAULTS", "{}"))
DRIVER.failing = {call: fake_cuda.CUresult(code) for call, code in FAULTS.get("start", {}).items()}

HEEDED = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
)  # and many more, by the real one
if any(name in os.environ for name in HEEDED) or os.path.isdir(
    os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
):  # noqa: S108
    DRIVER.failing["cuInit"] = fake_cuda.CUresult.CUDA_ERROR_NO_DEVICE

if os.environ.get("FAKE_CUDA_CHATTER"):
    sys.stderr.write("NCCL INFO a library that talks a lot\n" * 10_000)


def _plant(address: str) -> None:
    faults = FAULTS.get(address, {})
    MINE.update(faults)
    DRIVER.deaf = set(faults.get("deaf", ()))
    DRIVER.apart = faults.get("apart", False)
    DRIVER.spent_ms = faults.get("ms", 5.0)
    DRIVER.failing |= {
        call: fake_cuda.CUresult(code) for call, code in faults.get("fail", {}).items()
    }
    seen, chance = {"count": 0}, random.Random(faults.get("seed"))
    SPENT["s"] = SPEED * (_monotonic() - _began_s)

    def flip(what: str, _at: int, block: array[int]) -> None:
        if what == "gemm" and DRIVER.variant in FULL_LOAD:
            _heat()
        if not _is_struck(faults, what):
            return
        seen["count"] += 1
        if "chance" in faults:
            strikes = chance.random() < faults["chance"]
        else:
            strikes = seen["count"] % faults.get("every", 3) == 0
        if strikes and seen["count"] < faults.get("until", 1 << 30):
            _strike(faults, block)

    DRIVER.after_write = flip
    triad, copy = DRIVER._kernel_triad, DRIVER._kernel_copy

    def timed_triad(entry: Any, target: int, **more: int) -> None:
        DRIVER.spent_ms = faults.get("triad_ms", DRIVER.spent_ms)
        triad(entry, target, **more)

    def timed_copy(entry: Any, target: int, buffer: int, **more: int) -> None:
        DRIVER.spent_ms = faults.get("ms", 5.0)
        copy(entry, target, buffer, **more)

    DRIVER._kernel_triad = timed_triad  # type: ignore[method-assign,assignment]
    DRIVER._kernel_copy = timed_copy  # type: ignore[method-assign]


FULL_LOAD = ("bf16", "fp8", "fp16")  # variants of a kernel
HEAT = {"products": 0}


def _heat() -> None:
    """Count a product at full load."""
    HEAT["products"] += 1
    at, seconds = MINE.get("pause", (0, 0))
    if HEAT["products"] == at:
        _sleep(seconds)


def _is_struck(faults: dict[str, Any], what: str) -> bool:
    """Return whether a write is of the kind that a fault strikes."""
    return (
        what in faults.get("flip", ())
        and DRIVER.variant == faults.get("variant", DRIVER.variant)
        and HEAT["products"] >= faults.get("hot", 0)
        and (what != "copy" or _goes(faults))
    )


def _goes(faults: dict[str, Any]) -> bool:
    """Return whether the last copy goes the way that a fault strikes."""
    source, target = DRIVER.way
    return bool(source == faults.get("from", source) and target == faults.get("to", target))


def _strike(faults: dict[str, Any], block: array[int]) -> None:
    if "leaves" in faults:
        with Path(faults["leaves"]).open("a", encoding="ascii") as file:
            file.write(".")
    elif "logs" in faults:
        path, line = faults.pop("logs")
        faults["flip"] = ()
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    else:
        block[len(block) // 2] ^= 4


def cuDeviceGetByPCIBusId(address: bytes) -> tuple[Any, ...]:
    """Open the worker's own GPU: its faults hold from now on."""
    if not DRIVER.calls or "cuDeviceGetByPCIBusId" not in DRIVER.calls:
        _plant(address.decode())
    DRIVER.calls.append("cuDeviceGetByPCIBusId")
    return (fake_cuda.CUresult.CUDA_SUCCESS, address.decode())


def __getattr__(name: str) -> Any:
    """Do a call, unless a fault is planted in it."""
    if name == MINE.get("hang"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "folder" in MINE:
            (Path(MINE["folder"]) / "hanging").touch()
        _sleep(3600)
    if name in ("cuLaunchKernel", "cuMemcpyAsync"):
        SPENT["s"] += MINE.get("ms", 5.0) / 1000
    return getattr(DRIVER, name)
