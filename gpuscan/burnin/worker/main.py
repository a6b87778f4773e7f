"""One process a GPU: reads a plan on standard input, runs its tests, prints a JSON line for each
thing that happens.

`python -m gpuscan.burnin.worker`. It frees what it took when it ends, also after SIGTERM or SIGINT,
and never outlives a stuck GPU: where the GPU does not finish what was started, it says so and
goes.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from gpuscan.burnin.worker import cubins, gemm, memory, nccl, transfers
from gpuscan.burnin.worker.driver import HUNG, CudaError, CudaGpu
from gpuscan.burnin.worker.lines import Outcome, Plan, Teller, one_more, plan
from gpuscan.errors import GpuscanError

STUCK = 4  # exit code where the GPU did not finish: nothing was freed, that would wait for the GPU
# the context is lost with these, and our own kernels do not cause them: the GPU failed (CUDA
# driver API, CUresult)
FATAL = frozenset(
    {HUNG, "CUDA_ERROR_UNKNOWN", "CUDA_ERROR_CONTAINED"}
    | {f"CUDA_ERROR_{name}_UNCORRECTABLE" for name in ("ECC", "NVLINK")}
    | {
        f"CUDA_ERROR_{name}"
        for name in (
            "ILLEGAL_ADDRESS",
            "LAUNCH_TIMEOUT",
            "HARDWARE_STACK_ERROR",
            "ILLEGAL_INSTRUCTION",
        )
    }
    | {
        f"CUDA_ERROR_{name}"
        for name in ("MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC", "LAUNCH_FAILED")
    }
)


class Stopped(Exception):
    """A signal ended the work."""


def main() -> int:
    """Run the plan on standard input.

    Exit code 0 when all of it ran, 2 for a bad plan, 3 where the GPU cannot be opened or is lost,
    4 where it is stuck.
    """
    teller = Teller()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        todo = plan(sys.stdin.readline())
        if todo.cpus:
            os.sched_setaffinity(
                0, todo.cpus
            )  # pinned memory then comes from the GPU's own NUMA node
        with CudaGpu(todo.gpu) as gpu:
            _hello(gpu, teller)
            return _all(gpu, teller, todo)
    except Stopped as stopped:
        teller.tell("end", complete=False, reason=f"ended by {stopped}")
        return 128 + int(stopped.args[1])
    except CudaError as error:
        teller.tell("error", name=error.name, code=error.code, text=str(error))
        return 3
    except GpuscanError as error:
        teller.tell("error", name="PLAN", code=0, text=str(error))
        return 2


def _stop(number: int, _frame: Any) -> None:
    raise Stopped(signal.Signals(number).name, number)


def _hello(gpu: CudaGpu, teller: Teller) -> None:
    free, total = gpu.free_memory()
    made = cubins.manifest()
    teller.tell(
        "hello",
        gpu=gpu.address,
        name=gpu.name,
        capability=list(gpu.capability),
        multiprocessors=gpu.multiprocessors,
        code=gpu.arch,
        free_mib=free >> 20,
        total_mib=total >> 20,
        driver=int(gpu.call("cuDriverGetVersion")),
        engine=f"triton {made['triton']}, ptxas {made['ptxas']}",
    )


def _all(gpu: CudaGpu, teller: Teller, todo: Plan) -> int:
    """Run the tests in their order; a failure that leaves the GPU usable ends one test, any other
    ends the work.
    """
    for options in _tests(todo):
        teller.test = options["test"]
        began_s = time.monotonic()
        try:
            outcome = _one(gpu, teller, options)
        except CudaError as error:
            outcome = Outcome("fail" if error.name in FATAL else "unknown", str(error))
            _result(teller, options, outcome, began_s, {"name": error.name, "code": error.code})
            if error.name == HUNG:
                os._exit(STUCK)
            if error.name in FATAL:
                raise
            gpu.free_all()
            continue
        _result(teller, options, outcome, began_s, None)
    teller.test = ""
    teller.tell("end", complete=True)
    return 0


def _tests(todo: Plan) -> Iterator[dict[str, Any]]:
    """Yield the tests of the plan, then those that come line by line: so that all GPUs begin each
    together.
    """
    yield from todo.tests
    while todo.more and (line := sys.stdin.readline()):
        yield one_more(line)


def _one(gpu: CudaGpu, teller: Teller, options: dict[str, Any]) -> Outcome:
    test = options["test"]
    teller.beat()
    if test.startswith("gemm"):
        return gemm.run(gpu, teller, test, options)
    if test == "memory":
        return memory.run(gpu, teller, options)
    if test == "hang":
        return _hang(gpu)
    return {
        "hbm": memory.bandwidth,
        "pcie": transfers.pcie,
        "peer": transfers.peer,
        "nccl": nccl.run,
    }[test](gpu, teller, options)


def _hang(gpu: CudaGpu) -> Outcome:
    """Start what never ends, as a drill: the wait must give up and say so."""
    flag = gpu.take(64)
    gpu.zero(flag, 64)
    gpu.launch("spin-words", 1, flag=flag)
    gpu.wait()
    return Outcome("fail", "a kernel that never ends has ended")


def _result(
    teller: Teller,
    options: dict[str, Any],
    outcome: Outcome,
    began_s: float,
    error: dict[str, Any] | None,
) -> None:
    told = outcome._asdict() | {"numbers": dict(outcome.numbers), "proof": dict(outcome.proof)}
    told |= {"options": {name: value for name, value in options.items() if name != "test"}}
    teller.tell("result", seconds=round(time.monotonic() - began_s, 2), error=error, **told)


if __name__ == "__main__":
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints (NCCL does, where its user says so) is no line of ours
    os._exit(
        main()
    )  # every line is written; what the driver does at exit would wait for a stuck GPU
