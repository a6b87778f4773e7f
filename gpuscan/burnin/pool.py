"""The workers of a burn-in: one a GPU, opened together, told to begin each test together, given
up where they do not answer.
"""

import json
import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuscan.burnin.plan import Plan, Step
from gpuscan.burnin.workers import Worker, end_all
from gpuscan.live import signals
from gpuscan.live.limits import Limits

TOGETHER = (
    "nccl",
    "peer",
)  # tests of several GPUs: where one fails, nobody knows yet which GPU it was
STOPPED = "not finished: the burn-in was ended by a signal"
LATE = "not finished: the deadline was near"
# a turn takes a second at most, unless NVML hangs, or this process was stopped, or the whole
# machine
HELD_UP_S = 5.0


class Crew:
    """The workers, and the GPUs that are asked nothing more (*failed*, with the reason); *opened*
    is how each GPU was opened.
    """

    def __init__(self, plan: Plan, limits: Limits, ends_s: float, near: Mapping[str, str]) -> None:
        self.plan, self.ends_s, self.near = plan, ends_s, near
        self.silent_s = limits.worker_s  # a worker tells every second that it works
        self.open_s = max(
            limits.worker_s, limits.init_s
        )  # the first touch of a GPU without persistence is slow
        self.workers: dict[str, Worker] = {}
        self.failed: dict[str, str] = {}
        self.opened: dict[str, dict[str, Any]] = {}
        self.engine: dict[str, Any] = {}
        self.cut = ""  # why the last test was cut short, where it was
        self.listened_s = time.monotonic()
        self.late_s = 0.0  # when what is under way has taken too long
        self.scale: dict[str, Any] = json.loads(os.environ.get("GPUSCAN_BURNIN_SCALE", "{}"))

    def open(self, gpus: Sequence[str]) -> None:
        """Start a worker a GPU, each on the processors that are near to it, and let all open
        their GPUs.
        """
        for gpu in gpus:
            try:
                self.workers[gpu] = Worker(gpu, cpus(self.near.get(gpu, "")))
            except OSError as error:
                told = f"no process could be started for it: {error.strerror or error}"
                self.opened[gpu] = {"status": "unknown", "text": told, "kind": "open", "runs": 1}
                self.failed[gpu] = f"not run: {told}"
        mine = [self.workers[gpu] for gpu in gpus if gpu not in self.failed]
        self.listened_s = time.monotonic()
        self.late_s = self.listened_s + self.open_s
        while self.listened_s < min(self.late_s, self.ends_s) and not signals.received:
            waiting = [
                worker for worker in mine if not (worker.hello or worker.error or worker.ended)
            ]
            if not waiting:
                break
            self._listen(waiting, 0.2)
        for worker in mine:
            self._note(worker)

    def _note(self, worker: Worker) -> None:
        """Keep how a GPU was opened: what CUDA said; or that our process died, which says nothing
        of the GPU.
        """
        gpu = worker.address
        if worker.hello:
            self.engine = {
                name: worker.hello[name]
                for name in ("code", "engine", "driver")
                if name in worker.hello
            }
            hello = {
                name: value
                for name, value in worker.hello.items()
                if name not in ("kind", "at_s", "card")
            }
            self.opened[gpu] = {"status": "pass", "text": "", "kind": "open", "runs": 1, **hello}
            return
        if signals.received or time.monotonic() >= self.ends_s:
            return
        told = (
            worker.error.get("text")
            or worker.ended
            or f"the GPU could not be opened within {self.open_s:.0f} s"
        )
        died = bool(worker.ended) and worker.error.get("name", "PLAN") == "PLAN"
        status = "unknown" if died else "lost" if worker.error else "stuck"
        error = {} if died else worker.error
        self.opened[gpu] = {
            "status": status,
            "text": told,
            "error": error,
            "kind": "open",
            "runs": 1,
        }
        self.failed[gpu] = f"not run: {told}"
        worker.kill()

    def refusal(self, step: Step, gpu: str) -> str:
        """Return why a GPU cannot run a step: it failed, or its peer did; else see that it has a
        worker, and return nothing.
        """
        for each in (
            gpu,
            *([step.to[gpu]] if gpu in step.to else []),
            *step.options.get("cards", ()),
        ):
            if each in self.failed:
                return self.failed[each]
        if self.workers[
            gpu
        ].ended:  # killed by somebody else, or in a test of several GPUs: another takes its place
            self.workers[gpu].close()
            self.open([gpu])
        return self.failed.get(gpu, "")

    def run(
        self, step: Step, gpus: Sequence[str], each_turn: Callable[[str, Mapping[str, Any]], None]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Let these GPUs run a test at once; return each result, and for those without one why.

        *each_turn* is called with the GPU and what its worker said, and with no GPU in between,
        about five times a second.
        """
        found: dict[str, dict[str, Any]] = {}
        gone: dict[str, str] = {}
        for gpu in gpus:
            self.workers[gpu].heard_s = time.monotonic()
            self.workers[gpu].send(self._asked(step, gpu))
        self.listened_s = time.monotonic()
        self.late_s = self.listened_s + 2 * step.seconds + self.silent_s
        while waiting := [
            self.workers[gpu] for gpu in gpus if gpu not in found and gpu not in gone
        ]:
            if self._cut_short():
                gone |= {worker.address: self.cut for worker in waiting}
                end_all(waiting)
                break
            for worker, line in self._listen(waiting, 0.2):
                if line["kind"] == "result":
                    found[worker.address] = self._result(step, worker.address, line)
                else:
                    each_turn(worker.address, line)
            for worker in waiting:
                if worker.address not in found:
                    self._watch(step, worker, found, gone)
            each_turn("", {})
        return found, gone

    def _cut_short(self) -> bool:
        self.cut = STOPPED if signals.received else LATE if time.monotonic() > self.ends_s else ""
        return bool(self.cut)

    def _asked(self, step: Step, gpu: str) -> dict[str, Any]:
        options = {**step.options, **({"peers": [step.to[gpu]]} if gpu in step.to else {})}
        scale = self.scale.get(step.name, self.scale.get(str(options["test"]), {}))
        return scale if "test" in scale else {**options, **scale}

    def _result(self, step: Step, gpu: str, line: Mapping[str, Any]) -> dict[str, Any]:
        error = line.get("error") or {}
        fatal = bool(error) and line["status"] == "fail"
        status = "stuck" if error.get("name") == "HUNG" else "lost" if fatal else line["status"]
        if status in ("stuck", "lost"):
            self.workers[
                gpu
            ].kill()  # it ends by itself, but not at once: the next test must not be asked of it
            if step.kind not in TOGETHER:
                self.failed[gpu] = (
                    f"not run: {step.name} before it {'left the GPU stuck' if status == 'stuck' else 'lost the GPU'}"
                )
        return {
            name: value for name, value in line.items() if name not in ("kind", "at_s", "test")
        } | {"status": status}

    def _watch(
        self, step: Step, worker: Worker, found: dict[str, Any], gone: dict[str, str]
    ) -> None:
        """Give up a worker that died by another's hand; one that is silent, or at work for too
        long, is ended as a finding.
        """
        gpu = worker.address
        if worker.ended:
            told = (
                worker.error.get("text") or f"its process {worker.ended} before the test was done"
            )
            gone[gpu] = f"not finished: {told}"
        elif self.listened_s > min(worker.heard_s + self.silent_s, self.late_s):
            silent_s = self.listened_s - worker.heard_s
            silent = f"the worker told nothing for {silent_s:.0f} s"
            told = silent if silent_s >= self.silent_s else "the test did not end in its time"
            found[gpu] = {
                "status": "stuck",
                "text": f"{told}: its process was killed",
                "seconds": round(silent_s, 1),
            }
            if step.kind not in TOGETHER:
                self.failed[gpu] = f"not run: {step.name} before it left the GPU stuck"
            worker.kill()

    def _listen(
        self, workers: Sequence[Worker], wait_s: float
    ) -> list[tuple[Worker, dict[str, Any]]]:
        """Return what these workers say within *wait_s* of now. While nobody listened, none of
        them was silent.
        """
        poll = select.poll()
        by_number = {worker.fileno(): worker for worker in workers if not worker.ended}
        for number in by_number:
            poll.register(number, select.POLLIN)
        ready = poll.poll(wait_s * 1000)
        before_s, self.listened_s = self.listened_s, time.monotonic()
        held_up_s = self.listened_s - before_s - wait_s
        if held_up_s > HELD_UP_S:
            self.late_s += held_up_s
            for worker in workers:
                worker.heard_s += held_up_s
        return [
            (by_number[number], line) for number, _ in ready for line in by_number[number].take()
        ]

    def end(self) -> None:
        """End all workers."""
        end_all(list(self.workers.values()))


def cpus(text: str) -> tuple[int, ...]:
    """Parse a list of processors, and keep those that we may use: `0-2,96` is 0, 1, 2 and 96."""
    found: list[int] = []
    for part in text.strip().split(",") if text.strip() else ():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    allowed = os.sched_getaffinity(0)
    return tuple(cpu for cpu in found if cpu in allowed)
