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

from gpuscan.burnin.results import BurnInResult, BurnInStatus, CudaFailure
from gpuscan.burnin.worker import cubins, gemm, memory, nccl, transfers
from gpuscan.burnin.worker.driver import HUNG, CudaError, CudaGpu
from gpuscan.burnin.worker.protocol import (
    EventWriter,
    WorkerPlan,
    make_result,
    parse_plan,
    parse_test,
)
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
    events = EventWriter()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        plan = parse_plan(sys.stdin.readline())
        if plan.cpus:
            os.sched_setaffinity(
                0, plan.cpus
            )  # pinned memory then comes from the GPU's own NUMA node
        with CudaGpu(plan.gpu) as gpu:
            _write_hello(gpu, events)
            return _run_all(gpu, events, plan)
    except Stopped as stopped:
        events.write("end", complete=False, reason=f"ended by {stopped}")
        return 128 + int(stopped.args[1])
    except CudaError as error:
        events.write("error", name=error.name, code=error.code, text=str(error))
        return 3
    except GpuscanError as error:
        events.write("error", name="PLAN", code=0, text=str(error))
        return 2


def _stop(number: int, _frame: Any) -> None:
    raise Stopped(signal.Signals(number).name, number)


def _write_hello(gpu: CudaGpu, events: EventWriter) -> None:
    free, total = gpu.free_memory()
    made = cubins.manifest()
    events.write(
        "hello",
        card=gpu.address,
        name=gpu.name,
        capability=list(gpu.capability),
        multiprocessors=gpu.multiprocessors,
        code=gpu.arch,
        free_mib=free >> 20,
        total_mib=total >> 20,
        driver=int(gpu.call("cuDriverGetVersion")),
        engine=f"triton {made['triton']}, ptxas {made['ptxas']}",
    )


def _run_all(gpu: CudaGpu, events: EventWriter, plan: WorkerPlan) -> int:
    """Run the tests in their order; a failure that leaves the GPU usable ends one test, any other
    ends the work.
    """
    for options in _tests(plan):
        events.test = options["test"]
        began_s = time.monotonic()
        try:
            result = _run_test(gpu, events, options)
        except CudaError as error:
            status = BurnInStatus.FAIL if error.name in FATAL else BurnInStatus.UNKNOWN
            failure = CudaFailure(error.name, error.code)
            result = make_result(status, str(error))._replace(error=failure)
            _write_result(events, options, result, began_s)
            if error.name == HUNG:
                os._exit(STUCK)
            if error.name in FATAL:
                raise
            gpu.free_all()
            continue
        _write_result(events, options, result, began_s)
    events.test = ""
    events.write("end", complete=True)
    return 0


def _tests(plan: WorkerPlan) -> Iterator[dict[str, Any]]:
    """Yield the tests of the plan, then those that come line by line: so that all GPUs begin each
    together.
    """
    yield from plan.tests
    while plan.more and (line := sys.stdin.readline()):
        yield parse_test(line)


def _run_test(gpu: CudaGpu, events: EventWriter, options: dict[str, Any]) -> BurnInResult:
    test = options["test"]
    events.heartbeat()
    if test.startswith("gemm"):
        return gemm.run(gpu, events, test, options)
    if test == "memory":
        return memory.run(gpu, events, options)
    if test == "hang":
        return _hang(gpu)
    return {
        "hbm": memory.bandwidth,
        "pcie": transfers.pcie,
        "peer": transfers.peer,
        "nccl": nccl.run,
    }[test](gpu, events, options)


def _hang(gpu: CudaGpu) -> BurnInResult:
    """Start what never ends, as a drill: the wait must give up and say so."""
    flag = gpu.take(64)
    gpu.zero(flag, 64)
    gpu.launch("spin-words", 1, flag=flag)
    gpu.wait()
    return make_result(BurnInStatus.FAIL, "a kernel that never ends has ended")


def _write_result(
    events: EventWriter, options: dict[str, Any], result: BurnInResult, began_s: float
) -> None:
    result = result._replace(
        seconds=round(time.monotonic() - began_s, 2),
        options={name: value for name, value in options.items() if name != "test"},
    )
    events.write("result", **result.to_json())


if __name__ == "__main__":
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints (NCCL does, where its user says so) is no line of ours
    os._exit(
        main()
    )  # every line is written; what the driver does at exit would wait for a stuck GPU
