"""The burn-in engine on real GPUs: rates beside cuBLAS and physical limits, every injected flip,
signals, times.

Usage: python3 tests/device/burnin_show.py [quick] [portable]; from the top of the tree, on a
machine with GPUs, cuda-bindings and PyTorch. `portable` runs what newer GPUs would, PTX that the
driver compiles, and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from gpuscan.burnin.worker import words  # noqa: E402
from gpuscan.burnin.worker.cubins import manifest  # noqa: E402
from gpuscan.burnin.worker.detecting import Detector  # noqa: E402
from gpuscan.burnin.worker.driver import CudaGpu  # noqa: E402
from gpuscan.burnin.worker.memory import MOVING, PATTERNS  # noqa: E402

PORTABLE = """
import runpy
from gpuscan.burnin import cubins
cubins.architecture = lambda _: cubins.PORTABLE
runpy.run_module("gpuscan.burnin.worker.main", run_name="__main__")
"""
DTYPES = ("bf16", "fp16", "fp8", "int8", "tf32", "fp64")
# datasheets, dense: TFLOP/s by type, HBM in GB/s, PCIe one way and NVLink one way in GB/s
LIMITS = {
    "H100": {
        "bf16": 989,
        "fp16": 989,
        "fp8": 1979,
        "int8": 1979,
        "tf32": 494,
        "fp64": 67,
        "hbm": 3350,
        "pcie": 63,
        "nvlink": 450,
    },
    "H200": {
        "bf16": 989,
        "fp16": 989,
        "fp8": 1979,
        "int8": 1979,
        "tf32": 494,
        "fp64": 67,
        "hbm": 4800,
        "pcie": 63,
        "nvlink": 450,
    },
}
TORCH = """
import json, sys, time, torch
torch.backends.cuda.matmul.allow_tf32 = True
n, seconds = 8192, float(sys.argv[1])
def operands(kind):
    x, y = (torch.rand(n, n, device="cuda") * 2 - 1 for _ in "ab")
    if kind == "int8": return tuple((t * 127).to(torch.int8) for t in (x, y))
    types = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn, "tf32": torch.float32, "fp64": torch.float64}
    return x.to(types[kind]), y.to(types[kind])
one = torch.ones((), device="cuda")
def call(kind, x, y):
    if kind == "fp8": return lambda: torch._scaled_mm(x, y.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    if kind == "int8": return lambda: torch._int_mm(x, y.t())
    return lambda: torch.matmul(x, y.t())
def rate(kind):
    f = call(kind, *operands(kind)); f(); torch.cuda.synchronize(); rates, ends = [], time.time() + seconds
    while time.time() < ends:
        marks = [torch.cuda.Event(enable_timing=True) for _ in "ab"]; marks[0].record()
        for _ in range(50): f()
        marks[1].record(); torch.cuda.synchronize(); rates.append(2 * n**3 * 50 / marks[0].elapsed_time(marks[1]) / 1e9)
    return sorted(rates)[len(rates) // 2]
told = {}
for kind in sys.argv[2:]:
    try: told[kind] = rate(kind)
    except Exception as error: told[kind] = f"{type(error).__name__}: {error}"[:90]
source, target = (torch.empty(2 << 30, dtype=torch.uint8, device="cuda") for _ in "ab"); marks = [torch.cuda.Event(enable_timing=True) for _ in "ab"]
target.copy_(source); marks[0].record()
for _ in range(20): target.copy_(source)
marks[1].record(); torch.cuda.synchronize(); told["hbm_copy"] = 2 * (2 << 30) * 20 / marks[0].elapsed_time(marks[1]) / 1e6
host, some = torch.empty(512 << 20, dtype=torch.uint8, pin_memory=True), target[: 512 << 20]
for name, (to, of) in {"to_card": (some, host), "to_host": (host, some)}.items():
    to.copy_(of, non_blocking=True); marks[0].record()
    for _ in range(5): to.copy_(of, non_blocking=True)
    marks[1].record(); torch.cuda.synchronize(); told[name] = (512 << 20) * 5 / marks[0].elapsed_time(marks[1]) / 1e6
print(json.dumps(told))
"""


def say(text: str) -> None:
    print(f"\n===== {text}", flush=True)


def gpus() -> list[str]:
    """Return the PCI addresses of all GPUs."""
    out = subprocess.run(
        ["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.strip().lower()[-12:] for line in out.stdout.splitlines()]


def begin(gpu: str, tests: list[dict[str, Any]], **more: Any) -> subprocess.Popen[str]:
    start = ["-c", PORTABLE] if "portable" in sys.argv else ["-m", "gpuscan.burnin.worker.main"]
    worker = [sys.executable, *start]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    child = subprocess.Popen(worker, **pipes)
    assert child.stdin is not None
    child.stdin.write(json.dumps({"card": gpu, "tests": tests} | more) + "\n")
    child.stdin.flush()
    return child


def finish(child: subprocess.Popen[str]) -> list[dict[str, Any]]:
    assert child.stdout is not None
    lines = [json.loads(line) for line in child.stdout]
    child.wait()
    return lines


def run(gpu: str, tests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run tests on a GPU; print each result; return them."""
    results = []
    for line in finish(begin(gpu, tests)):
        if line["kind"] == "result":
            results.append(line)
            show(gpu, line)
        elif line["kind"] in ("hello", "error"):
            print(json.dumps(line), flush=True)
    return results


def show(gpu: str, line: dict[str, Any]) -> None:
    proof = line["proof"].get("proven", "-")
    print(
        f"{gpu} {line['test']:12} {line['status']:8} {line['seconds']:6.1f} s  proven {proof}  {line['text']}"
    )
    print(
        f"    {json.dumps(line['options'])} {json.dumps(line['numbers'])} {json.dumps(line['first'][:2])}",
        flush=True,
    )
    if line["proof"] and not line["proof"].get("proven"):
        print(f"    NOT PROVEN: {json.dumps(line['proof'])}", flush=True)


def kernels_against_python(address: str) -> None:
    """The kernels over words do what words.py says: patterns, the hash, and each injected flip."""
    count = 4096
    with CudaGpu(address) as gpu:
        at, detector = gpu.take(8 * count), Detector(gpu)
        for name, (pattern, seed) in PATTERNS.items():
            detector.fill(at, count, pattern, seed, offset=48)
            got = gpu.words(at, count)
            want = [words.expected(pattern, i + 48, seed, at + 8 * i) for i in range(count)]
            hashed = detector.digest(at, count) == words.digest(want)
            detector.check(at, count, pattern, seed, offset=48)
            clean = detector.collect().total
            detector.flip(at, 1234, 63)
            detector.check(at, count, pattern, seed, offset=48)
            found = detector.collect()
            ok = (
                got == want
                and hashed
                and clean == 0
                and found.total == 1
                and found.first[0].address == hex(at + 8 * 1234)
            )
            print(
                f"{name:18} words {got == want}  hash {hashed}  clean {clean == 0}  flip {found.first}  {'ok' if ok else 'WRONG'}"
            )


def gemm_table(gpu: str, seconds: float) -> None:
    """Our rates and PyTorch's, one after the other in this call."""
    tests = [
        {"test": "gemm-stress", "dtype": dtype, "seconds": seconds, "kernel": kernel}
        for dtype in DTYPES
        for kernel in kinds(dtype)
    ]
    before, ours, after = torch_rates(seconds), run(gpu, tests), torch_rates(seconds)
    name = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True
    ).stdout
    limits = next((limit for sku, limit in LIMITS.items() if sku in name), {})
    print(
        f"{'8192 cube':22} {'ours':>8} {'least':>8} {'cuBLAS':>8} {'again':>8} {'limit':>7}  TFLOP/s"
    )
    for line in ours:
        dtype, numbers = line["options"]["dtype"], line["numbers"]
        rates = [
            f"{told.get(dtype):8.1f}"
            if isinstance(told.get(dtype), float)
            else f"{told.get(dtype)}"
            for told in (before, after)
        ]
        print(
            f"{numbers.get('kernel', ''):22} {numbers.get('tflops', 0):8.1f} {numbers.get('tflops_least', 0):8.1f} {rates[0]} {rates[1]} {limits.get(dtype)}"
        )
    print(
        "PyTorch:",
        json.dumps({name: after.get(name) for name in ("hbm_copy", "to_card", "to_host")}),
        "GB/s; limits:",
        limits,
        flush=True,
    )


def kinds(dtype: str) -> list[str]:
    return ["tiled"] if dtype == "fp64" else ["persistent", "tiled"]


def torch_rates(seconds: float) -> dict[str, Any]:
    out = subprocess.run(
        [sys.executable, "-c", TORCH, str(seconds), *DTYPES], capture_output=True, text=True
    )
    if out.returncode:
        print(out.stderr[-400:])
        return {}
    told: dict[str, Any] = json.loads(out.stdout)
    return told


def used_mib(gpu: str) -> str:
    query = ["nvidia-smi", "-i", gpu, "--query-gpu=memory.used", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True).stdout.strip()


def signals(gpu: str) -> None:
    """A worker in the middle of its work ends at once on each signal, and leaves nothing on the
    GPU.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        child = begin(gpu, [{"test": "memory", "patterns": ["random"], "passes": 10000}])
        time.sleep(6)
        during, began = used_mib(gpu), time.monotonic()
        child.send_signal(number)
        last = finish(child)[-1]
        spent = time.monotonic() - began
        print(
            f"{number.name}: exit code {child.returncode} after {spent:.2f} s, memory used {during}, afterwards {used_mib(gpu)}; {last}"
        )


def stuck(gpu: str) -> None:
    """A worker whose kernel never ends says so itself after its limit; one that is killed before
    leaves nothing behind.
    """
    began = time.monotonic()
    child = begin(gpu, [{"test": "hang"}])
    last = finish(child)[-1]
    print(
        f"hang: exit code {child.returncode} after {time.monotonic() - began:.1f} s, memory used {used_mib(gpu)}; {last}"
    )
    for number in (signal.SIGTERM, signal.SIGKILL):
        child = begin(gpu, [{"test": "hang"}])
        time.sleep(4)
        child.send_signal(number)
        began = time.monotonic()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            print(f"{number.name} while stuck: still there after 10 s")
            child.kill()
            child.wait()
        print(
            f"{number.name} while stuck: exit code {child.returncode} after {time.monotonic() - began:.1f} s, memory used {used_mib(gpu)}"
        )


def main() -> None:
    began, seconds = time.monotonic(), 1.0 if "quick" in sys.argv else 3.0
    subprocess.run(
        [
            "nvidia-smi",
            "--query-gpu=name,driver_version,memory.total,power.limit",
            "--format=csv,noheader",
        ],
        check=False,
    )
    addresses = gpus()
    first = addresses[0]
    print({name: manifest()[name] for name in ("triton", "ptxas")}, manifest()["golden"])
    if "portable" in sys.argv:
        say("PTX that the driver compiles")
        products = [
            {"test": test, "dtype": d, "seconds": seconds}
            for test in ("gemm-exact", "gemm-stress")
            for d in DTYPES
        ]
        run(first, [*products, {"test": "memory"}, {"test": "hbm"}, {"test": "pcie"}])
        return
    say("kernels over words against Python")
    kernels_against_python(first)
    say("exact products against the CPU's hashes, by each kernel, small and large")
    small = [
        {"test": "gemm-exact", "dtype": d, "seconds": 0.2, "size": 256, "kernel": k}
        for d in DTYPES
        for k in kinds(d)
    ]
    run(first, small + [test | {"size": 8192, "seconds": seconds / 2} for test in small])
    say("rates beside cuBLAS")
    gemm_table(first, seconds)
    say("memory, bandwidth, PCIe")
    everything = [*PATTERNS, *MOVING, "block-move", "fade"]
    run(
        first,
        [
            {"test": "hbm", "seconds": 4},
            {"test": "pcie", "seconds": 4},
            {"test": "memory"},
            {"test": "memory", "patterns": everything, "fade_s": 3},
        ],
    )
    if len(addresses) > 1:
        say("pairs")
        for address in addresses:
            run(
                address,
                [{"test": "peer", "peers": [other for other in addresses if other != address]}],
            )
    say("signals")
    signals(first)
    stuck(first)
    say(f"all of it took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
