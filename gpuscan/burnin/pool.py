"""The workers of a burn-in: one per GPU, opened together, started on each test together, and given
up where they do not answer.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.burnin.clock import Clock
from gpuscan.burnin.launcher import Launcher, WorkerProcess
from gpuscan.burnin.levels import BurnInStep
from gpuscan.burnin.results import BurnInResult, BurnInStatus, CudaFailure
from gpuscan.live.limits import Limits

# tests of several GPUs: where one fails, it is not known yet which GPU it was
SEVERAL_GPUS = ("nccl", "peer")
INTERRUPTED = "not finished: the burn-in was ended by a signal"
LATE = "not finished: the deadline was near"
TURN_S = 0.2
# a turn takes a second at most, unless NVML hangs, or this process or the whole machine was stopped
HELD_UP_S = 5.0
NOT_DETAILS = ("kind", "at_s", "card")  # of a worker's greeting
OnEvent = Callable[[str, Mapping[str, Any]], None]


class StepRun(NamedTuple):
    """What came of a step: the results by GPU, for the other GPUs why it was not finished, and why
    it was cut short (empty where it was not).
    """

    results: dict[str, BurnInResult]
    unfinished: dict[str, str]
    cut: str = ""


class WorkerPool:
    """The workers of a burn-in.

    *failed* are the GPUs that run nothing more, with the reason. *opened* says how opening each GPU
    went. *engine* names the kernels that the workers use. *nearby* lists each GPU's CPUs as the
    kernel does (`0-2,96`).
    """

    def __init__(
        self,
        launcher: Launcher,
        limits: Limits,
        ends_s: float,
        nearby: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self.launcher, self.clock = launcher, clock
        self.ends_s, self.nearby = ends_s, nearby
        self.silent_s = limits.worker_s  # a worker sends a heartbeat every second
        # the first touch of a GPU without persistence mode is slow
        self.open_s = max(limits.worker_s, limits.init_s)
        self.workers: dict[str, WorkerProcess] = {}
        self.failed: dict[str, str] = {}
        self.opened: dict[str, BurnInResult] = {}
        self.engine: dict[str, Any] = {}
        self._listened_s = clock.now()
        self._late_s = 0.0  # when the test under way has taken too long

    def open(self, gpus: Sequence[str]) -> None:
        """Start a worker per GPU, each on the CPUs near to it, and let all open their GPUs."""
        for gpu in gpus:
            self._start(gpu)
        started = [self.workers[gpu] for gpu in gpus if gpu not in self.failed]
        self._listened_s = self.clock.now()
        self._late_s = self._listened_s + self.open_s
        while self._listened_s < min(self._late_s, self.ends_s) and not self.clock.interrupted():
            waiting = [worker for worker in started if not _has_opened(worker)]
            if not waiting:
                break
            self._listen(waiting)
        for worker in started:
            self._note_opening(worker)

    def _start(self, gpu: str) -> None:
        try:
            self.workers[gpu] = self.launcher.start(gpu, parse_cpus(self.nearby.get(gpu, "")))
        except OSError as error:
            text = f"no process could be started for it: {error.strerror or error}"
            self.opened[gpu] = BurnInResult(BurnInStatus.UNKNOWN, text, kind="open", runs=1)
            self.failed[gpu] = f"not run: {text}"

    def _note_opening(self, worker: WorkerProcess) -> None:
        """Keep how opening a GPU went. Where our own process died, that says nothing of the GPU."""
        gpu, hello = worker.address, worker.hello
        if hello:
            self.engine = {
                name: hello[name] for name in ("code", "engine", "driver") if name in hello
            }
            details = {name: value for name, value in hello.items() if name not in NOT_DETAILS}
            self.opened[gpu] = BurnInResult(BurnInStatus.PASS, kind="open", runs=1, details=details)
            return
        if self.clock.interrupted() or self.clock.now() >= self.ends_s:
            return
        name = str(worker.error.get("name", "PLAN"))
        error = CudaFailure(name, int(worker.error.get("code", 0))) if worker.error else None
        status = BurnInStatus.LOST if worker.error else BurnInStatus.STUCK
        if worker.ended and name == "PLAN":
            status, error = BurnInStatus.UNKNOWN, None
        too_slow = f"the GPU could not be opened within {self.open_s:.0f} s"
        text = worker.error.get("text") or worker.ended or too_slow
        self.opened[gpu] = BurnInResult(status, text, error=error, kind="open", runs=1)
        self.failed[gpu] = f"not run: {text}"
        worker.kill()

    def refusal(self, step: BurnInStep, gpu: str) -> str:
        """Return why a GPU cannot run a step: it failed, or a GPU that the test needs did.

        Otherwise make sure that the GPU has a worker, and return nothing.
        """
        peers = [step.to[gpu]] if gpu in step.to else []
        for needed in (gpu, *peers, *step.ranks):
            if needed in self.failed:
                return self.failed[needed]
        # killed from outside, or in a test of several GPUs: another one takes its place
        if self.workers[gpu].ended:
            self.workers[gpu].close()
            self.open([gpu])
        return self.failed.get(gpu, "")

    def run(self, step: BurnInStep, gpus: Sequence[str], on_event: OnEvent) -> StepRun:
        """Let these GPUs run a test at once.

        *on_event* is called with the GPU and each line of its worker, and with no GPU in between,
        about five times a second.
        """
        done = StepRun({}, {})
        for gpu in gpus:
            self.workers[gpu].heard_s = self.clock.now()
            self.workers[gpu].send(_request(step, gpu))
        self._listened_s = self.clock.now()
        self._late_s = self._listened_s + 2 * step.seconds + self.silent_s
        while waiting := [
            self.workers[gpu]
            for gpu in gpus
            if gpu not in done.results and gpu not in done.unfinished
        ]:
            cut = self._find_end()
            if cut:
                done.unfinished.update({worker.address: cut for worker in waiting})
                self.launcher.end(waiting)
                return done._replace(cut=cut)
            self._turn(step, waiting, done, on_event)
            on_event("", {})
        return done

    def _turn(
        self, step: BurnInStep, waiting: Sequence[WorkerProcess], done: StepRun, on_event: OnEvent
    ) -> None:
        for worker, line in self._listen(waiting):
            if line["kind"] == "result":
                done.results[worker.address] = self._take_result(step, worker.address, line)
            else:
                on_event(worker.address, line)
        for worker in waiting:
            if worker.address not in done.results:
                self._watch(step, worker, done)

    def _find_end(self) -> str:
        """Return why the test is cut short, if it is."""
        if self.clock.interrupted():
            return INTERRUPTED
        return LATE if self.clock.now() > self.ends_s else ""

    def _take_result(self, step: BurnInStep, gpu: str, line: Mapping[str, Any]) -> BurnInResult:
        """Return a worker's result; where its GPU failed, give the worker up."""
        row = {name: value for name, value in line.items() if name not in ("kind", "at_s", "test")}
        try:
            result = BurnInResult.from_json(row)
        except ValueError as error:
            return BurnInResult(BurnInStatus.UNKNOWN, f"the worker's result is garbled: {error}")
        if result.error is not None and result.error.name == "HUNG":
            result = result._replace(status=BurnInStatus.STUCK)
        elif result.error is not None and result.status is BurnInStatus.FAIL:
            result = result._replace(status=BurnInStatus.LOST)
        if result.status.ended_early:
            # it ends by itself, but not at once, and the next test must not be asked of it
            self.workers[gpu].kill()
            self._note_failure(step, gpu, result.status)
        return result

    def _note_failure(self, step: BurnInStep, gpu: str, status: BurnInStatus) -> None:
        if step.kind not in SEVERAL_GPUS:
            how = "left the GPU stuck" if status is BurnInStatus.STUCK else "lost the GPU"
            self.failed[gpu] = f"not run: {step.name} before it {how}"

    def _watch(self, step: BurnInStep, worker: WorkerProcess, done: StepRun) -> None:
        """Give up a worker that was killed from outside; kill one that is silent or at work for too
        long, and report its GPU as stuck.
        """
        gpu = worker.address
        if worker.ended:
            why = worker.error.get("text") or f"its process {worker.ended} before the test was done"
            done.unfinished[gpu] = f"not finished: {why}"
            return
        if self._listened_s <= min(worker.heard_s + self.silent_s, self._late_s):
            return
        silent_s = self._listened_s - worker.heard_s
        text = "the test did not end in its time"
        if silent_s >= self.silent_s:
            text = f"the worker was silent for {silent_s:.0f} s"
        done.results[gpu] = BurnInResult(
            BurnInStatus.STUCK, f"{text}: its process was killed", seconds=round(silent_s, 1)
        )
        self._note_failure(step, gpu, BurnInStatus.STUCK)
        worker.kill()

    def _listen(
        self, workers: Sequence[WorkerProcess]
    ) -> list[tuple[WorkerProcess, dict[str, Any]]]:
        """Return what these workers say within a turn. While this process did not listen, none of
        them counts as silent.
        """
        running = [worker for worker in workers if not worker.ended]
        ready = self.launcher.wait(running, TURN_S)
        before_s, self._listened_s = self._listened_s, self.clock.now()
        held_up_s = self._listened_s - before_s - TURN_S
        if held_up_s > HELD_UP_S:
            self._late_s += held_up_s
            for worker in workers:
                worker.heard_s += held_up_s
        return [(worker, line) for worker in ready for line in worker.take()]

    def end(self) -> None:
        """End all workers."""
        self.launcher.end(list(self.workers.values()))


def _has_opened(worker: WorkerProcess) -> bool:
    return bool(worker.hello or worker.error or worker.ended)


def _request(step: BurnInStep, gpu: str) -> dict[str, Any]:
    """Return the line that asks a worker for a test."""
    peers = {"peers": [step.to[gpu]]} if gpu in step.to else {}
    return {**step.options, **peers}


def parse_cpus(text: str) -> tuple[int, ...]:
    """Parse a list of CPUs (`0-2,96` is 0, 1, 2 and 96), and keep those that we may use."""
    cpus: list[int] = []
    for part in text.strip().split(",") if text.strip() else ():
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    allowed = os.sched_getaffinity(0)
    return tuple(cpu for cpu in cpus if cpu in allowed)
