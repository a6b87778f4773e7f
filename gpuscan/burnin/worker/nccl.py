"""NCCL between the GPUs of this host: integers through each collective, every word compared, and
the bus bandwidth.
"""

import ctypes
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

from gpuscan.burnin.results import BurnInResult, BurnInStatus
from gpuscan.burnin.worker.detecting import (
    Detector,
    Mismatches,
    Proof,
    blocks,
    combine_proofs,
    prove_detector,
)
from gpuscan.burnin.worker.driver import CudaError, CudaGpu
from gpuscan.burnin.worker.protocol import EventWriter, judge_comparison, make_result

UINT64, SUM = 5, 0  # ncclUint64, ncclSum
SEED = 0x1F83D9ABFB41BD6B
FACTORS = {
    "all-reduce": 2.0,
    "all-gather": 1.0,
    "reduce-scatter": 1.0,
}  # of (n-1)/n: what each link carries (nccl-tests)
NONE = "no libnccl.so.2 was found (GPUSCAN_NCCL, the system's, the wheel nvidia-nccl, PyTorch's)"
WHEELS = ("nvidia/nccl/lib", "torch/lib")
VIA = re.compile(r" via (P2P|SHM|NET)\b")
NVLS = re.compile(r"NVLS comm 0x|Connected NVLS")


class NcclError(Exception):
    """NCCL refused or failed, in its own words."""


class Rank(NamedTuple):
    """One GPU in a collective: its communicator, the buffers sent, received and expected, the
    detector of what came.
    """

    gpu: CudaGpu
    comm: Any
    send: int
    receive: int
    want: int
    detector: Detector


class Noted(NamedTuple):
    """NCCL's log in this process (a descriptor), and the variables that were set for it."""

    log: int
    variables: dict[str, str]


class CollectiveShape(NamedTuple):
    """A collective's sizes in words: the whole, and each GPU's part of it."""

    words: int
    part: int


def library() -> Any:
    """Return NCCL, loaded; None where there is none."""
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _candidates() -> Iterator[str]:
    if os.environ.get("GPUSCAN_NCCL"):
        yield os.environ["GPUSCAN_NCCL"]
        return
    yield "libnccl.so.2"
    for folder in sys.path:
        for wheel in WHEELS:
            path = os.path.join(folder, wheel, "libnccl.so.2")
            if os.path.isfile(path):
                yield path


def run(gpu: CudaGpu, events: EventWriter, options: dict[str, Any]) -> BurnInResult:
    """Run `nccl`: options GPUs (PCI addresses, this one first), ops, mib of the whole, seconds for
    each op.

    NCCL's variables are told by name; of their values only numbers, for others name hosts and
    interfaces.
    """
    addresses = list(options.get("cards", []))
    if len(addresses) < 2:
        return make_result(BurnInStatus.SKIP, "a collective needs two GPUs")
    noted = _noted()
    with ExitStack() as opened:
        nccl = library()
        if nccl is None:
            return make_result(BurnInStatus.SKIP, NONE)
        try:
            gpus = [gpu, *(opened.enter_context(CudaGpu(address)) for address in addresses[1:])]
            return _measured(nccl, gpus, events, options, noted)
        except NcclError as error:
            gpu.free_all()
            text = str(error)
            if "system" in text:
                text += "; in a container, check the limits of /dev/shm and of locked memory"
            return make_result(BurnInStatus.UNKNOWN, text, numbers={"variables": noted.variables})


@cache
def _noted() -> Noted:
    """Let NCCL say which way it sends; NVLink multicast stays off unless somebody has asked for it.

    Once: it opens its log when it is used first, and what is set by then is the user's.
    """
    log = os.memfd_create("nccl")  # a file that nobody has to remove
    variables = {
        name: value if value.isdigit() else "(set)"
        for name, value in os.environ.items()
        if name.startswith("NCCL_")
    }
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    if "NCCL_DEBUG" not in os.environ:
        os.environ.update({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"/proc/self/fd/{log}"})
    return Noted(log, variables)


def _measured(
    nccl: Any, gpus: Sequence[CudaGpu], events: EventWriter, options: dict[str, Any], noted: Noted
) -> BurnInResult:
    log_from = os.fstat(noted.log).st_size
    grain = 128 * len(gpus)  # the kernels over words want a multiple of 16, each part too
    words = (int(float(options.get("mib", 1024)) * (1 << 20)) // 8) // grain * grain
    shape = CollectiveShape(words, words // len(gpus))
    with _ranks(nccl, gpus, shape) as ranks:
        proof = _prove(ranks, shape)
        rates, operations = {}, 0
        for op in options.get("ops", list(FACTORS)):
            events.heartbeat(op=op)
            operations += _checked(nccl, op, ranks, shape)
            rates[op] = _busbw_gbps(
                nccl, op, ranks, shape, float(options.get("seconds", 2)), events
            )
            operations += _checked(nccl, op, ranks, shape)
            events.write("sample", op=op, busbw_gbps=rates[op])
        found = [(rank.gpu.address, rank.detector.collect()) for rank in ranks]
    wrong = Mismatches(
        sum(mismatches.total for _, mismatches in found),
        tuple(
            mismatch._replace(gpu=address)
            for address, mismatches in found
            for mismatch in mismatches.first
        ),
    )
    version = ctypes.c_int()
    _checked_call(nccl, "ncclGetVersion", ctypes.byref(version))
    way = transport(os.pread(noted.log, 1 << 22, log_from).decode("utf-8", "replace"))
    numbers = {
        "busbw_gbps": rates,
        "ranks": len(gpus),
        "transport": way,
        "nccl_version": version.value,
    }
    return judge_comparison(
        operations,
        "words received in collectives",
        wrong,
        proof,
        **numbers,
        variables=noted.variables,
    )


@contextmanager
def _ranks(nccl: Any, gpus: Sequence[CudaGpu], shape: CollectiveShape) -> Iterator[list[Rank]]:
    """Make a communicator of all GPUs, and their buffers; both are given back."""
    comms = (ctypes.c_void_p * len(gpus))()
    numbers = (ctypes.c_int * len(gpus))(*(int(gpu.device) for gpu in gpus))
    _checked_call(nccl, "ncclCommInitAll", comms, len(gpus), numbers)
    size = 8 * shape.words
    try:
        ranks = [
            Rank(
                gpu,
                ctypes.c_void_p(comm),
                gpu.take(size),
                gpu.take(size),
                gpu.take(size),
                Detector(gpu),
            )
            for gpu, comm in zip(gpus, comms, strict=True)
        ]
        yield ranks
    except (CudaError, NcclError):
        for comm in comms:  # one that is stuck must not be waited for
            nccl.ncclCommAbort(ctypes.c_void_p(comm))
        raise
    for rank in ranks:
        rank.gpu.wait()
        _checked_call(nccl, "ncclCommDestroy", rank.comm)
        rank.gpu.release(rank.send, rank.receive, rank.want)


def _prove(ranks: Sequence[Rank], shape: CollectiveShape) -> Proof:
    """Prove the comparison on every GPU, in the buffer that it will read."""
    proofs = []
    for rank in ranks:
        at, detector = rank.receive, rank.detector
        for place in (at, rank.want):
            detector.fill(place, shape.words, "random", SEED)
        check = partial(detector.compare, at, rank.want, shape.words)
        proof = prove_detector(detector, at, shape.words, check)
        first = tuple(mismatch._replace(gpu=rank.gpu.address) for mismatch in proof.first)
        proofs.append(proof._replace(first=first))
    return combine_proofs(proofs)


def _checked(nccl: Any, op: str, ranks: Sequence[Rank], shape: CollectiveShape) -> int:
    """Send random numbers, compare what comes with what each GPU makes of the same ones by
    itself; return how many words.
    """
    for number, rank in enumerate(ranks):
        _prepare(op, rank, number, len(ranks), shape)
        rank.gpu.zero(rank.receive, 8 * shape.words)
    _start(nccl, op, ranks, shape)
    came = shape.part if op == "reduce-scatter" else shape.words
    for rank in ranks:
        rank.detector.compare(rank.receive, rank.want, came)
        rank.gpu.wait()
    return came * len(ranks)


def _prepare(op: str, rank: Rank, number: int, ranks: int, shape: CollectiveShape) -> None:
    """Fill what a GPU sends, and what it should get; what it receives is overwritten.

    Of sums every GPU gives numbers of its own, so that carries go through all bits: the first
    GPU's, and three times the others'.
    """
    detector = rank.detector
    if op == "all-gather":
        detector.fill(rank.send, shape.part, "random", SEED + number)
        for other in range(ranks):
            detector.fill(rank.want + 8 * other * shape.part, shape.part, "random", SEED + other)
        return
    _sum(rank, rank.send, [number], shape.words)
    words, offset = (
        (shape.part, number * shape.part) if op == "reduce-scatter" else (shape.words, 0)
    )
    _sum(rank, rank.want, range(ranks), words, offset)


def _sum(rank: Rank, target: int, numbers: Sequence[int], words: int, offset: int = 0) -> None:
    rank.gpu.zero(target, 8 * words)
    for number in numbers:
        rank.detector.fill(
            target if number == 0 else rank.receive, words, "random", SEED + number, offset=offset
        )
        if number:
            rank.gpu.launch(
                "triad-words",
                blocks(words),
                target=target,
                buffer=target,
                other=rank.receive,
                words=words,
            )


def _start(nccl: Any, op: str, ranks: Sequence[Rank], shape: CollectiveShape) -> None:
    """Start a collective on every GPU's stream."""
    _checked_call(nccl, "ncclGroupStart")
    try:
        _all_ranks(nccl, op, ranks, shape)
    except NcclError:
        nccl.ncclGroupEnd()  # or all that comes after would be of this group, and never begin
        raise
    _checked_call(nccl, "ncclGroupEnd")


def _all_ranks(nccl: Any, op: str, ranks: Sequence[Rank], shape: CollectiveShape) -> None:
    for rank in ranks:
        send, receive, stream = (
            ctypes.c_void_p(int(place)) for place in (rank.send, rank.receive, rank.gpu.stream)
        )
        whole, part = ctypes.c_size_t(shape.words), ctypes.c_size_t(shape.part)
        if op == "all-reduce":
            _checked_call(
                nccl, "ncclAllReduce", send, receive, whole, UINT64, SUM, rank.comm, stream
            )
        elif op == "all-gather":
            _checked_call(nccl, "ncclAllGather", send, receive, part, UINT64, rank.comm, stream)
        else:
            _checked_call(
                nccl, "ncclReduceScatter", send, receive, part, UINT64, SUM, rank.comm, stream
            )


def _busbw_gbps(
    nccl: Any,
    op: str,
    ranks: Sequence[Rank],
    shape: CollectiveShape,
    seconds: float,
    events: EventWriter,
) -> float:
    """Return the median bus bandwidth, as nccl-tests counts it: the whole's bytes a second times
    what a link carries of them.
    """
    first = ranks[0].gpu
    samples: list[float] = []
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s or len(samples) < 3:
        before = first.mark()
        _start(nccl, op, ranks, shape)
        samples.append(first.between_s(before, first.mark()))
        for rank in ranks[1:]:
            rank.gpu.wait()
        events.heartbeat(op=op)
    share = FACTORS[op] * (len(ranks) - 1) / len(ranks)
    return round(share * 8 * shape.words / sorted(samples)[len(samples) // 2] / 1e9, 1)


def _checked_call(nccl: Any, name: str, *arguments: Any) -> None:
    code = int(getattr(nccl, name)(*arguments))
    if code:
        nccl.ncclGetErrorString.restype = ctypes.c_char_p
        words = nccl.ncclGetErrorString(code)
        raise NcclError(f"{name}: {words.decode('utf-8', 'replace') if words else code}")


def transport(log: str) -> str:
    """Return how NCCL's own log says that it sent: nvls, p2p, shm, net, the slowest of those it
    named, or unknown.

    >>> transport("x NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"), transport("")
    ('p2p', 'unknown')
    """
    if NVLS.search(log):
        return "nvls"
    found = set(VIA.findall(log))
    return next((way.lower() for way in ("NET", "SHM", "P2P") if way in found), "unknown")
