"""Collectives on a stand-in for NCCL over the driver's stand-in: what is compared, timed, told and
given back.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import types
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import xor
from typing import IO, Any, ClassVar

import fake_cuda
import pytest

from gpuscan.burnin.worker import main as worker
from gpuscan.burnin.worker import memory, nccl
from gpuscan.burnin.worker.words import MASK

pytestmark = pytest.mark.burnin
GPUS = ["0000:1b:00.0", "0000:2b:00.0", "0000:3b:00.0"]
LOG = "node:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {}\n"


class Nccl:
    """The library: what is started in a group happens at its end, in the driver's memory."""

    def __init__(self, driver: fake_cuda.Driver) -> None:
        self.driver, self.ranks = driver, 0
        self.group: list[tuple[Any, ...]] = []
        self.calls: list[str] = []
        self.failing: dict[str, int] = {}
        self.add: Callable[[Iterable[int]], int] = sum
        self.spoil: Callable[[str, array[int]], None] = lambda _op, _words: None
        self.ncclGetErrorString = Words()
        self.log = LOG.format("P2P/CUMEM")
        self.file: list[IO[str]] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name not in self.failing and name in type(self).WAYS:
                type(self).WAYS[name](self, *arguments)
            return self.failing.get(name, 0)

        return call

    def _init(self, comms: Any, count: int, numbers: Any) -> None:
        self.ranks = count
        assert len(set(numbers)) == count
        comms[:] = [rank + 1 for rank in range(count)]
        if not self.file and os.environ.get("NCCL_DEBUG_FILE"):
            # once in a process
            self.file.append(open(os.environ["NCCL_DEBUG_FILE"], "w", encoding="ascii"))  # noqa: SIM115
        for file in self.file:
            file.write(self.log)
            file.flush()

    def _version(self, number: Any) -> None:
        number._obj.value = 22809

    def _queue(op: str) -> Callable[..., None]:  # type: ignore[misc]  # noqa: N805
        def queue(self: Nccl, send: Any, receive: Any, count: Any, *rest: Any) -> None:
            self.group.append((op, rest[-2].value - 1, send.value, receive.value, count.value))

        return queue

    def _end(self) -> None:
        group = sorted(self.group, key=lambda each: each[1])
        self.group = []
        if not group:
            return
        assert [each[1] for each in group] == list(range(self.ranks)), "every rank takes part once"
        op, _, _, _, count = group[0]
        length = count * self.ranks if op == "scatter" else count
        sent = [self.driver.read(each[2], length) for each in group]
        total = array("Q", (self.add(row) & MASK for row in zip(*sent, strict=True)))
        gathered = array("Q", [word for words in sent for word in words])
        for _, rank, _, receive, _ in group:
            came = {
                "reduce": total,
                "gather": gathered,
                "scatter": total[rank * count : (rank + 1) * count],
            }[op]
            mine = array("Q", came)
            if rank == 1:
                self.spoil(op, mine)
            self.driver.write("nccl", receive, mine)

    WAYS: ClassVar[dict[str, Callable[..., None]]] = {
        "ncclCommInitAll": _init,
        "ncclGetVersion": _version,
        "ncclAllReduce": _queue("reduce"),
        "ncclAllGather": _queue("gather"),
        "ncclReduceScatter": _queue("scatter"),
        "ncclGroupEnd": _end,
    }


class Words:
    """`ncclGetErrorString`, whose result type is set as ctypes wants it."""

    restype: Any = None

    def __call__(self, code: int) -> bytes:
        return b"unhandled system error (run with NCCL_DEBUG=INFO for details)"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nccl]:
    driver = fake_cuda.Driver()
    bindings = types.ModuleType("cuda.bindings")
    bindings.driver = driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setattr(memory, "GRAIN", 1 << 10)
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        monkeypatch.delenv(name)
    for name in (
        "NCCL_NVLS_ENABLE",
        "NCCL_DEBUG",
        "NCCL_DEBUG_FILE",
    ):  # what the worker sets goes with it, here with the test
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    made = Nccl(driver)
    monkeypatch.setattr(nccl, "library", lambda: made)
    nccl._noted.cache_clear()
    yield made
    for file in made.file:
        file.close()
    os.close(nccl._noted().log)


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def go(*then: dict[str, Any], times: int = 1, **options: Any) -> dict[str, Any]:
        test = {"test": "nccl", "cards": GPUS, "mib": 0.03125, "seconds": 0, **options}
        plan = {"card": GPUS[0], "tests": [test] * times + list(then)}
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(plan) + "\n"))
        kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            worker.main()
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
        *_, found = [
            line
            for line in map(json.loads, capsys.readouterr().out.splitlines())
            if line["kind"] == "result"
        ]
        return dict(found)

    return go


def test_every_collective_is_compared_and_timed(fake: Nccl, run: Run) -> None:
    found = run()
    assert found["status"] == "pass", found
    assert found["text"].startswith("no corruption seen in ")
    numbers = found["numbers"]
    assert (numbers["ranks"], numbers["transport"], numbers["nccl_version"]) == (3, "p2p", 22809)
    size = 8 * (int(0.03125 * (1 << 20)) // 8 // 384 * 384)
    once = size / 0.005 / 1e9
    expected = {
        "all-reduce": 4 / 3 * once,
        "all-gather": 2 / 3 * once,
        "reduce-scatter": 2 / 3 * once,
    }
    assert numbers["busbw_gbps"] == {op: round(rate, 1) for op, rate in expected.items()}
    assert fake.calls.count("ncclCommDestroy") == 3
    assert "ncclCommAbort" not in fake.calls
    assert fake.driver.blocks == {}
    assert os.environ["NCCL_NVLS_ENABLE"] == "0"


@pytest.mark.parametrize("op", ["reduce", "gather", "scatter"])
def test_a_wrong_word_of_each_collective_is_found_on_its_gpu(fake: Nccl, run: Run, op: str) -> None:
    def spoil(which: str, words: array[int]) -> None:
        if which == op:
            words[len(words) // 2] ^= 16

    fake.spoil = spoil
    found = run()
    assert found["status"] == "fail"
    assert found["mismatches"] > 0
    assert {row["card"] for row in found["first"]} == {GPUS[1]}
    assert {row["xor"] for row in found["first"]} == {"0x10"}


@pytest.mark.parametrize(
    "add",
    [
        lambda words: reduce(xor, words),  # no carry
        lambda words: (
            sum(word & 0xFFFFFFFF for word in words) | sum(word >> 32 for word in words) << 32
        ),  # none in the middle
        lambda words: sum(list(words)[:-1]),  # one GPU's left out
        max,
    ],
)
@pytest.mark.parametrize("op", ["all-reduce", "reduce-scatter"])
def test_a_sum_that_is_none_is_found(
    fake: Nccl, run: Run, op: str, add: Callable[[Iterable[int]], int]
) -> None:
    fake.add = add
    assert run(ops=[op])["status"] == "fail"


def test_a_deaf_detector_proves_nothing(fake: Nccl, run: Run) -> None:
    fake.driver.deaf = {"compare"}
    found = run()
    assert (found["status"], found["proof"]["proven"]) == ("unknown", False)


def test_without_the_library_it_is_skipped(
    fake: Nccl, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nccl, "library", lambda: None)
    found = run()
    assert found["status"] == "skip"
    assert "no libnccl.so.2 was found" in found["text"]


def test_the_library_that_is_named_is_the_only_one_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    broken = tmp_path / "libnccl.so.2"
    broken.write_bytes(b"no library")
    monkeypatch.setenv("GPUSCAN_NCCL", str(broken))
    assert nccl.library() is None


def test_what_nccl_refuses_is_told_in_its_words(fake: Nccl, run: Run) -> None:
    fake.failing = {"ncclCommInitAll": 2}
    found = run()
    assert found["status"] == "unknown"
    assert found["text"].startswith("ncclCommInitAll: unhandled system error")
    assert "/dev/shm" in found["text"]  # noqa: S108


@pytest.mark.parametrize(
    "call", ["ncclCommInitAll", "ncclGroupStart", "ncclAllGather", "ncclCommDestroy"]
)
def test_what_nccl_refuses_leaves_nothing_in_memory(fake: Nccl, run: Run, call: str) -> None:
    """Or the memory test after it would test that much less."""
    fake.failing = {call: 2}
    memory_after = run({"test": "memory", "patterns": ["ones"]})
    assert memory_after["status"] == "pass"
    assert memory_after["numbers"]["free_mib"] == memory_after["numbers"]["total_mib"]
    if call in ("ncclGroupStart", "ncclAllGather"):
        assert fake.calls.count("ncclCommAbort") == 3
    if call == "ncclAllGather":
        assert fake.calls.count("ncclGroupStart") == fake.calls.count("ncclGroupEnd")


def test_where_memory_is_short_the_communicators_go(fake: Nccl, run: Run) -> None:
    fake.driver.failing = {"cuMemAlloc": fake_cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY}
    assert run()["error"]["name"] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert fake.calls.count("ncclCommAbort") == 3


def test_the_second_time_in_a_process_is_told_like_the_first(fake: Nccl, run: Run) -> None:
    """A further round, or a second try: NCCL opens its log once, and its variables are the user's
    still.
    """
    numbers = run(times=2)["numbers"]
    assert (numbers["transport"], numbers["variables"]) == ("p2p", {})
    fake.log = LOG.format("SHM/direct/direct")
    assert run(times=2)["numbers"]["transport"] == "shm", (
        "the way that was taken before is not this one's"
    )


def test_a_stuck_collective_is_aborted_not_waited_for(
    fake: Nccl, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr("gpuscan.burnin.worker.driver.HANG_S", 0.05)
    monkeypatch.setattr("os._exit", left.append)
    ended = fake.driver.__class__._cuEventQuery

    def stuck(self: fake_cuda.Driver, event: object) -> tuple[()]:
        if "ncclGroupEnd" in fake.calls:
            fake.driver.failing = {"cuEventQuery": fake_cuda.CUresult.CUDA_ERROR_NOT_READY}
        return ended(self, event)

    monkeypatch.setattr(fake_cuda.Driver, "_cuEventQuery", stuck)
    found = run()
    assert found["error"]["name"] == "HUNG"
    assert fake.calls.count("ncclCommAbort") == 3
    assert left == [worker.STUCK]


def test_variables_that_are_set_are_honoured_and_told(
    fake: Nccl, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    fake.log = LOG.format("SHM/direct/direct")
    numbers = run()["numbers"]
    assert numbers["variables"] == {
        "NCCL_NVLS_ENABLE": "1",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "(set)",
    }
    assert numbers["transport"] == "shm"
    assert os.environ["NCCL_NVLS_ENABLE"] == "1"


@pytest.mark.parametrize(
    ("log", "way"),
    [
        (LOG.format("P2P/direct pointer"), "p2p"),
        (LOG.format("P2P/CUMEM") + LOG.format("SHM/direct/direct"), "shm"),
        (LOG.format("P2P/CUMEM") + LOG.format("NET/IB/0/GDRDMA"), "net"),
        (
            LOG.format("P2P/CUMEM") + "node:1:2 [0] NCCL INFO NVLS comm 0x55 headRank 0 nHeads 8\n",
            "nvls",
        ),
        ("node:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Init COMPLETE\n", "unknown"),
    ],
)
def test_the_transport_is_what_nccl_says_of_itself(log: str, way: str) -> None:
    assert nccl.transport(log) == way
