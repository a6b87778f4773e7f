"""The worker on a stand-in for the driver: what it runs, finds, tells and frees; and its
protocol.
"""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import types
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import fake_cuda
import pytest

from gpuscan.burnin.request import has_cuda_binding
from gpuscan.burnin.worker import driver, gemm, memory, protocol
from gpuscan.burnin.worker import main as worker
from gpuscan.errors import UsageError

pytestmark = pytest.mark.burnin
GPU = "0000:1b:00.0"
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> fake_cuda.Driver:
    made = fake_cuda.Driver()
    bindings = types.ModuleType("cuda.bindings")
    bindings.driver = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setattr(memory, "GRAIN", 1 << 10)
    return made


@pytest.fixture
def work(
    fake: fake_cuda.Driver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    def run(
        *tests: dict[str, Any], code: int = 0, feed: str = "", **more: Any
    ) -> list[dict[str, Any]]:
        monkeypatch.setattr(
            "sys.stdin",
            io.StringIO(json.dumps({"card": GPU, "tests": tests} | more) + "\n" + feed),
        )
        kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            assert worker.main() == code
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def result(told: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [line for line in told if line["kind"] == "result"]
    return found


SMALL: dict[str, dict[str, Any]] = {
    "gemm-exact": {"dtype": "bf16", "size": 256, "seconds": 0},
    "gemm-stress": {"dtype": "bf16", "size": 256, "seconds": 0},
    "memory": {
        "patterns": [*memory.PATTERNS, *memory.MOVING, "block-move", "fade"],
        "fade_s": 0,
        "fraction": 0.05,
    },
    "hbm": {"mib": 0.0625, "seconds": 0},
    "pcie": {"mib": 0.0625, "seconds": 0},
    "peer": {"peers": ["0000:2b:00.0"], "mib": 0.0625, "seconds": 0},
}


def one(name: str, **more: Any) -> dict[str, Any]:
    return {"test": name} | SMALL[name] | more


@pytest.mark.smoke
@pytest.mark.parametrize("name", SMALL)
def test_a_good_gpu_passes_and_everything_is_freed(
    fake: fake_cuda.Driver, work: Run, name: str
) -> None:
    told = work(one(name))
    found = result(told)
    assert found["status"] == "pass", found
    assert found["text"].startswith("no corruption seen in ")
    assert found["proof"]["proven"] is True
    assert told[0]["kind"] == "hello"
    assert told[-1]["kind"] == "end"
    assert fake.blocks == {}
    assert fake.calls.count("cuDevicePrimaryCtxRetain") == fake.calls.count(
        "cuDevicePrimaryCtxRelease"
    )
    assert fake.calls.count("cuModuleLoadData") == fake.calls.count("cuModuleUnload")


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8", "int8", "tf32", "fp64"])
@pytest.mark.parametrize("kernel", ["persistent", "tiled"])
def test_exact_products_of_every_type(work: Run, dtype: str, kernel: str) -> None:
    found = result(work(one("gemm-exact", dtype=dtype, kernel=kernel)))
    if (dtype, kernel) == ("fp64", "persistent"):
        assert found["status"] == "skip"
        return
    assert found["status"] == "pass", found
    assert found["numbers"]["got"] == found["numbers"]["golden"]


@pytest.mark.parametrize("name", SMALL)
def test_a_detector_that_sees_nothing_makes_it_unknown(
    fake: fake_cuda.Driver, work: Run, name: str
) -> None:
    fake.deaf = {"check", "compare"}
    found = result(work(one(name)))
    assert found["status"] == "unknown"
    assert "injected" in found["text"]


def test_a_hash_that_sees_nothing_makes_it_unknown(fake: fake_cuda.Driver, work: Run) -> None:
    fake.deaf = {"digest"}
    assert result(work(one("gemm-exact")))["status"] == "unknown"


def stuck(
    what: set[str], bit: int = 3, place: int = 40, after: int = 0
) -> Callable[[str, int, array[int]], None]:
    """Return a fault: writes of some kinds leave a bit of one word wrong, from the *after*-th such
    write on.
    """
    seen = []

    def fault(by: str, start: int, block: array[int]) -> None:
        if by in what and len(block) > 1000:
            seen.append(by)
            if len(seen) > after:
                block[place] ^= 1 << bit

    return fault


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("gemm-exact", stuck({"gemm"})),
        ("gemm-exact", stuck({"gemm"}, after=2)),
        ("gemm-stress", stuck({"gemm"}, after=2)),
        ("memory", stuck({"fill"})),
        ("hbm", stuck({"fill"})),
        ("memory", stuck({"fill"}, after=4)),
        ("memory", stuck({"step"})),
        ("memory", stuck({"copy-kernel"}, after=1)),
        ("hbm", stuck({"copy-kernel"})),
        ("pcie", stuck({"copy"}, after=1)),
        ("peer", stuck({"copy"})),
    ],
)
def test_each_fault_is_found(
    fake: fake_cuda.Driver, work: Run, name: str, fault: Callable[[str, int, array[int]], None]
) -> None:
    fake.after_write = fault
    found = result(work(one(name)))
    assert found["status"] == "fail", found
    assert found["mismatches"] > 0
    for row in found["first"]:
        assert row["xor"] == "0x8"
        assert int(row["address"], 16) % 8 == 0


@pytest.mark.parametrize("name", ["pcie", "peer"])
def test_one_wrong_copy_is_found_whichever_it_is(
    fake: fake_cuda.Driver, work: Run, name: str
) -> None:
    seen: list[str] = []
    wrong = -1

    def fault(by: str, _at: int, block: array[int]) -> None:
        if by == "copy" and len(block) > 1000:
            block[40] ^= 8 * (len(seen) == wrong)
            seen.append(by)

    fake.after_write = fault
    assert result(work(one(name, seconds=0)))["status"] == "pass"
    copies = len(seen)
    assert copies > 10
    for wrong in range(copies):
        seen.clear()
        assert result(work(one(name, seconds=0)))["status"] == "fail", f"copy {wrong} of {copies}"


@pytest.mark.parametrize(
    "places", [[40], [0], range(0, 4000, 8)], ids=["one", "where-the-flip-is", "many"]
)
@pytest.mark.parametrize(
    ("name", "fill"), [("memory", 0), ("hbm", 2), ("pcie", 1), ("peer", 2), ("peer", 3)]
)
def test_words_that_are_wrong_before_the_flip_are_told(
    fake: fake_cuda.Driver, work: Run, name: str, fill: int, places: Sequence[int]
) -> None:
    """In the very buffer in which the detector has to prove itself, and at no other time."""
    seen: list[str] = []

    def fault(by: str, _at: int, block: array[int]) -> None:
        if by == "fill" and len(block) > 1000:
            for place in places if len(seen) == fill else ():
                block[place] ^= 8
            seen.append(by)

    fake.after_write = fault
    found = result(work(one(name)))
    assert found["status"] == "fail", found
    assert found["proof"]["proven"] is True
    assert {row["xor"] for row in found["first"]} <= {"0x8", "0x9"}


WRITES = [
    ("gemm-exact", "gemm"),
    ("gemm-stress", "gemm"),
    ("memory", "fill"),
    ("memory", "step"),
    ("memory", "copy-kernel"),
    ("hbm", "copy-kernel"),
    ("pcie", "copy"),
    ("pcie", "copy to the host"),
    ("peer", "copy"),
]


@pytest.mark.parametrize(("name", "what"), WRITES)
def test_what_is_not_written_is_no_right_answer(
    fake: fake_cuda.Driver, work: Run, name: str, what: str
) -> None:
    """Though the memory holds it still, from a moment ago or from the test before: from whichever
    write on they are lost.
    """
    seen: list[int] = []
    first = 1 << 30

    def lost(by: str, at: int) -> bool:
        mine = (
            what in (by, f"{by} to the host" if at in fake.host else "")
            and len(fake.place(at)[1]) > 1000
        )
        seen.extend([at] if mine else [])
        return mine and len(seen) > first

    fake.lost = lost
    work(one(name), one(name))
    half = len(seen) // 2
    assert half
    for first in {half, half + 1, half + half // 2, 2 * half - 2, 2 * half - 1}:
        seen.clear()
        before, after = [line for line in work(one(name), one(name)) if line["kind"] == "result"]
        assert before["status"] == "pass"
        assert after["status"] != "pass", (first, after)


def test_a_wrong_copy_is_told_by_its_way(fake: fake_cuda.Driver, work: Run) -> None:
    fake.after_write = stuck({"copy"}, after=1, place=50)
    assert "in the host's memory" in result(work(one("pcie")))["text"]


def test_wrong_words_say_where_and_what(fake: fake_cuda.Driver, work: Run) -> None:
    fake.after_write = stuck({"fill"}, after=1)
    first = result(work(one("memory", patterns=["address"])))["first"][0]
    assert first["expected"] == first["address"]
    assert int(first["got"], 16) ^ int(first["expected"], 16) == 8
    assert first["second_read"] == "the same wrong value"


def test_memory_takes_nearly_all(work: Run) -> None:
    test = {"test": "memory", "patterns": ["ones"]}
    numbers = result(work(test))["numbers"]
    assert numbers["share_of_free"] >= 0.95


def test_memory_that_others_hold_is_not_tested(fake: fake_cuda.Driver, work: Run) -> None:
    fake.held = fake.memory // 5
    found = result(work({"test": "memory", "patterns": ["ones"]}))
    assert found["status"] == "unknown"
    assert found["text"].startswith("only 78% of the GPU's memory could be allocated")


def test_an_error_that_leaves_the_gpu_usable_ends_one_test(
    fake: fake_cuda.Driver, work: Run
) -> None:
    fake.failing = {"cuMemHostAlloc": fake_cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY}
    told = work(one("pcie"), one("hbm"))
    assert [line["status"] for line in told if line["kind"] == "result"] == ["unknown", "pass"]
    assert fake.blocks == {}


def test_a_lost_context_ends_the_work(fake: fake_cuda.Driver, work: Run) -> None:
    fake.failing = {"cuEventQuery": fake_cuda.CUresult.CUDA_ERROR_ECC_UNCORRECTABLE}
    told = work(one("hbm"), one("pcie"), code=3)
    found = result(told)
    assert found["status"] == "fail"
    assert found["error"] == {"name": "CUDA_ERROR_ECC_UNCORRECTABLE", "code": 214}
    assert told[-1]["kind"] == "error"


def test_a_gpu_that_does_not_finish_is_told(
    fake: fake_cuda.Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.failing = {"cuEventQuery": fake_cuda.CUresult.CUDA_ERROR_NOT_READY}
    monkeypatch.setattr(driver, "HANG_S", 0.0)
    gpu = driver.CudaGpu(GPU)
    with pytest.raises(driver.CudaError, match="did not finish") as caught:
        gpu.wait()
    assert caught.value.name == driver.HUNG


def test_a_stuck_gpu_is_left_at_once(
    fake: fake_cuda.Driver, work: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is freed: that would wait for the GPU too."""

    class Left(BaseException):
        pass

    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(driver, "HANG_S", 0.0)
    monkeypatch.setattr("os._exit", leave)
    fake.failing = {"cuEventQuery": fake_cuda.CUresult.CUDA_ERROR_NOT_READY}
    with pytest.raises(Left, match=str(worker.STUCK)):
        work({"test": "hang"})


@pytest.mark.parametrize("dtype", gemm.WIDTHS)
@pytest.mark.parametrize("test", ["gemm-stress", "gemm-exact"])
def test_a_newer_gpu_runs_what_its_driver_compiles(
    fake: fake_cuda.Driver, work: Run, test: str, dtype: str
) -> None:
    fake.attributes = {"major": 13, "minor": 0, "multiprocessors": 4, "fp64_ratio": 2}
    told = work(
        {"test": test, "dtype": dtype, "size": 256, "seconds": 0},
        one("memory", patterns=["random"]),
    )
    results = [line for line in told if line["kind"] == "result"]
    assert [line["status"] for line in results] == ["pass", "pass"]
    assert results[0]["numbers"]["kernel"].startswith(f"tiled-{dtype}")
    assert told[0]["code"] == "compute_89"


@pytest.mark.parametrize(
    ("ratio", "status"), [(1, "pass"), (2, "pass"), (32, "skip"), (64, "skip")]
)
def test_gpus_without_fast_fp64_are_not_kept_busy_with_it(
    fake: fake_cuda.Driver, work: Run, ratio: int, status: str
) -> None:
    fake.attributes["fp64_ratio"] = ratio
    told = work(
        *(
            {"test": "gemm-stress", "dtype": dtype, "size": 256, "seconds": 0}
            for dtype in ("fp64", "tf32")
        )
    )
    assert [line["status"] for line in told if line["kind"] == "result"] == [status, "pass"]


def test_tests_come_line_by_line_until_the_input_ends(work: Run) -> None:
    """So that a parent lets all GPUs begin each test together."""
    feed = "".join(json.dumps(one(name)) + "\n" for name in ("hbm", "pcie"))
    told = work(one("peer"), more=True, feed=feed)
    assert [line["test"] for line in told if line["kind"] == "result"] == ["peer", "hbm", "pcie"]
    assert told[-1] == told[-1] | {"kind": "end", "complete": True}
    for bad, words in (
        ("no json", "is not JSON"),
        ('{"test": "hbm", "colour": 1}', "has no 'colour'"),
    ):
        assert words in work(more=True, feed=bad + "\n", code=2)[-1]["text"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "'card'"),
        ('{"card": "x"}', "'tests'"),
        ('{"card": "x", "tests": [{"test": "gem"}]}', "unknown test"),
        ('{"card": "x", "tests": [], "gpu": 1}', "no 'gpu'"),
        ('{"card": "x", "tests": [{"test": "hbm", "dtype": "bf16"}]}', "no 'dtype'"),
    ],
)
def test_a_bad_plan_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        protocol.parse_plan(text)


def test_heartbeats_come_once_a_second() -> None:
    out, now = io.StringIO(), [0.0]
    events = protocol.EventWriter(out, lambda: now[0])
    for at in (0.0, 0.4, 0.9, 1.0, 1.5, 2.1):
        now[0] = at
        events.heartbeat()
    assert [json.loads(line)["at_s"] for line in out.getvalue().splitlines()] == [0.0, 1.0, 2.1]


@pytest.mark.parametrize(
    ("call", "code", "name"),
    [
        ("cuInit", 999, "NOT_STARTED"),
        ("cuInit", 304, "NOT_STARTED"),
        ("cuInit", 802, "CUDA_ERROR_SYSTEM_NOT_READY"),
        ("cuInit", 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ("cuInit", 804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        ("cuInit", 34, "CUDA_ERROR_STUB_LIBRARY"),
        ("cuDevicePrimaryCtxRetain", 46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
        ("cuDevicePrimaryCtxRetain", 999, "CUDA_ERROR_UNKNOWN"),
    ],
)
def test_a_gpu_that_cannot_be_opened_is_named_by_cuda_s_error(
    fake: fake_cuda.Driver, work: Run, call: str, code: int, name: str
) -> None:
    """What cuInit says without nvidia-uvm speaks of no GPU."""
    fake.failing = {call: fake_cuda.CUresult(code)}
    assert [line["name"] for line in work(code=3)] == [name]


def test_without_a_gpu_the_worker_says_so_plainly() -> None:
    """As an operator would see it: a process of its own, the real binding where it is installed."""
    plan = json.dumps({"card": GPU, "tests": []}) + "\n"
    done = subprocess.run(
        [sys.executable, "-m", "gpuscan.burnin.worker.main"],
        input=plan,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        pytest.skip("there is a GPU here")
    told = json.loads(done.stdout)
    assert done.returncode == 3
    assert told["kind"] == "error"
    if not has_cuda_binding():
        assert told["text"] == driver.NO_BINDING
    else:
        assert told["text"].startswith(driver.NO_DRIVER) or told["name"].startswith("CUDA_ERROR")
    assert done.stderr == ""


def test_without_libcuda(fake: fake_cuda.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the binding raises where libcuda.so.1 is missing."""

    def missing(self: object, flags: int) -> tuple[()]:
        raise RuntimeError("Failed to load libcuda")

    monkeypatch.setattr(fake_cuda.Driver, "_cuInit", missing, raising=False)
    with pytest.raises(driver.CudaError, match="no CUDA driver on this machine"):
        driver.CudaGpu(GPU)
