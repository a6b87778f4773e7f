"""Runs a burn-in: step after step on all GPUs, sampled meanwhile, with second tries, until the plan
is done or the time is up.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from gpuscan.burnin.checkpoint import EarlierWork, parse_results, save_checkpoint
from gpuscan.burnin.clock import Clock, real_clock
from gpuscan.burnin.counters import CounterLog, CounterReader
from gpuscan.burnin.launcher import ProcessLauncher
from gpuscan.burnin.levels import BurnInStep
from gpuscan.burnin.merging import add_second_try, merge, worse
from gpuscan.burnin.plan import END_KEY, BurnInPlan
from gpuscan.burnin.pool import OnEvent, StepRun, WorkerPool
from gpuscan.burnin.progress import Progress
from gpuscan.burnin.results import BurnInResult, BurnInStatus
from gpuscan.burnin.sampling import LoadSampler, sample_keys
from gpuscan.burnin.second_tries import find_doubtful
from gpuscan.burnin.tools import run as tools
from gpuscan.collectors.burnin_counters import TAIL
from gpuscan.collectors.gpu_facts import wants_margin
from gpuscan.errors import GpuscanError, complain
from gpuscan.live import signals
from gpuscan.live.process import Child
from gpuscan.live.supervisor import ReadOptions, ReadSupervisor
from gpuscan.model import Unread
from gpuscan.recording import Reading, Recording

SAMPLE_S = 1.0
RESERVE_S = 8.0  # before the deadline: to end what does not end when it is asked to
PAUSE_S = 5.0  # before a slow test is tried again
SIGNALLED = "not run: the burn-in was ended by a signal"
TOO_LATE = "not run: the deadline was near"
NO_GPU_LEFT = "not run: no GPU is left to test"


class Runner(Protocol):
    """What runs tests on GPUs (`pool.WorkerPool`)."""

    failed: dict[str, str]
    opened: dict[str, BurnInResult]
    engine: dict[str, Any]

    def open(self, gpus: Sequence[str]) -> None:
        """Open the GPUs."""

    def refusal(self, step: BurnInStep, gpu: str) -> str:
        """Return why a GPU cannot run a step, nothing where it can."""

    def run(self, step: BurnInStep, gpus: Sequence[str], on_event: OnEvent) -> StepRun:
        """Run a test on these GPUs at once."""

    def end(self) -> None:
        """Let go of the GPUs."""


class BurnInJob(NamedTuple):
    """A planned burn-in, the scan before it, and what an earlier call did.

    *checkpoint* is the file that keeps the progress (none if empty), *identity* what tells this
    burn-in from another in that file.
    """

    plan: BurnInPlan
    scan: Recording
    earlier: EarlierWork
    checkpoint: str = ""
    identity: Mapping[str, Any] = {}


class Scheduler:
    """One burn-in: `run` returns when all is done, the time is up, or a signal came."""

    def __init__(
        self,
        job: BurnInJob,
        runner: Runner,
        reader: CounterReader,
        progress: Progress,
        clock: Clock,
        ends_s: float,
    ) -> None:
        self.job, self.plan, self.runner = job, job.plan, runner
        self.reader, self.progress, self.clock = reader, progress, clock
        self.ends_s = ends_s
        self.results: dict[str, BurnInResult] = {}
        self.missing: dict[str, Unread] = {}  # why a key has no result
        self.tool_readings: list[Reading] = []
        self.counters = CounterLog(reader, job.scan, self.plan.gpus, clock)
        self._cut = ""  # why the last step was cut short
        self._complaint = ""  # of the checkpoint
        self._began_s = clock.now()
        self._resume()
        self.counters.read_counters("before")

    def run(self) -> None:
        """Run round after round until the plan's time is spent, one round at least; then the other
        programs.
        """
        try:
            self.runner.open(self.plan.gpus)
            why = self._run_rounds()
        finally:
            self.runner.end()
        total_s = max(self.plan.rounds_s, self.plan.expected_s)
        done = f"after {self._spent_s():.0f} s of {total_s:.0f}"
        if why:
            text = f"the burn-in ended {done}: {why}"
            self.missing[END_KEY] = Unread(END_KEY, "blocked-behind", text)
        else:
            self.results[END_KEY] = BurnInResult(BurnInStatus.PASS, done, kind="open", runs=1)
        self._run_tools()
        self.progress.close()

    def _run_rounds(self) -> str:
        """Return why it ended before its time, nothing where it did not."""
        rounds, first = self.job.earlier.rounds, self.job.earlier.steps
        while True:
            for number in range(first, len(self.plan.steps)):
                self._run_step(number)
                is_last = number + 1 == len(self.plan.steps)
                why = self._find_end() or self._cut
                if why:
                    had_a_round = rounds > 0 or (is_last and not self._cut)
                    if had_a_round and self._spent_s() >= self.plan.rounds_s:
                        return ""
                    for step in self.plan.steps:
                        self._note_missing(step, step.gpus, why)
                    return why
                self._save_checkpoint(rounds, number + 1)
            rounds, first = rounds + 1, 0
            if self._spent_s() >= self.plan.rounds_s:
                return ""

    def _find_end(self) -> str:
        """Return why nothing more may be started, if that is so."""
        if self.clock.interrupted():
            return SIGNALLED
        if self.clock.now() >= self.ends_s:
            return TOO_LATE
        if self.plan.gpus and all(gpu in self.runner.failed for gpu in self.plan.gpus):
            return NO_GPU_LEFT
        return ""

    def _spent_s(self) -> float:
        return self.job.earlier.spent_s + self.clock.now() - self._began_s

    def _save_checkpoint(self, rounds: int, steps: int) -> None:
        """Write the checkpoint; a failure is reported once, and costs no result."""
        if not self.job.checkpoint:
            return
        done = self.job.earlier._replace(rounds=rounds, steps=steps, spent_s=self._spent_s())
        try:
            save_checkpoint(self.job.checkpoint, self.recording({}), self.job.identity, done)
        except GpuscanError as error:
            if str(error) != self._complaint:
                complain(f"gpuscan: {error}; the burn-in goes on without it")
            self._complaint = str(error)

    def _run_tools(self) -> None:
        """Run the other programs, now that the GPUs are free; none takes longer than is left."""
        total = len(self.plan.steps) + len(self.plan.tools)
        for number, tool in enumerate(self.plan.tools, len(self.plan.steps) + 1):
            is_installed = tools.program(tool.key)
            # these programs use all GPUs
            why = self._find_end() or next(iter(self.runner.failed.values()), "")
            if is_installed and why:
                error = Unread(tool.key, "blocked-behind", why)
                self.tool_readings.append(Reading(tool.key, None, error, self.clock.wall()))
                continue
            if is_installed:
                self.progress.step(tool.name, number, total, tool.usual_s)
            left_s = max(min(tool.limit_s, self.ends_s - self.clock.now()), 0.0)
            self.tool_readings.append(
                tools.run(tool.key, left_s, lambda: not self.clock.interrupted())
            )

    def recording(self, meta: Mapping[str, Any]) -> Recording:
        """Return what was found so far."""
        now = self.clock.wall()
        recording = Recording(
            {"made_at": round(now, 3), "engine": self.runner.engine, **meta}, ["burnin:*"]
        )
        results = dict(self.results)
        for gpu, opened in self.runner.opened.items():
            key = f"burnin:open({gpu})"
            results[key] = worse(results.get(key), opened)
        for reading in [*self.counters.readings, *self.tool_readings]:
            recording.add(reading)
        level = self.plan.level
        for key, result in results.items():
            ms = 1000 * (result.seconds or 0.0)
            recording.add(Reading(key, result.to_json(), None, now, ms, level))
        for key, error in self.missing.items():
            if key not in results:
                recording.add(Reading(key, None, error, now, 0.0, level))
        return recording

    def _resume(self) -> None:
        """Take over what an earlier call found."""
        earlier = self.job.earlier.recording
        self.results |= parse_results(earlier)
        for reading in earlier:
            if not reading.key.startswith("burnin:"):
                self.counters.readings.append(reading)
            elif reading.error is not None and reading.key != END_KEY:
                self.missing[reading.key] = reading.error

    def _run_step(self, number: int) -> None:
        step = self.plan.steps[number]
        gpus = self._select(step, step.gpus)
        if not gpus:
            return
        self.progress.step(step.name, number + 1, len(self.plan.steps), step.seconds)
        for gpu, result in self._run_on(step, gpus).items():
            key = step.key(gpu)
            result = result._replace(step=step.name, kind=step.kind, hot=step.hot)
            self.results[key] = merge(self.results.get(key), result)
        following = self.plan.steps[number + 1 : number + 2]
        if not following or following[0].name != step.name:
            # all GPUs have had their turn, so it is known which of them are slow
            self._try_again(step.name)
        self.counters.read_counters(f"after:{step.name}")

    def _select(self, step: BurnInStep, gpus: Sequence[str]) -> list[str]:
        """Return those of the GPUs that can run a step, and note why the others do not."""
        able = []
        for gpu in gpus:
            why = self.runner.refusal(step, gpu)
            if why:
                self._note_missing(step, [gpu], why)
            else:
                able.append(gpu)
        return able

    def _try_again(self, name: str) -> None:
        """Repeat what was wrong or slow once, after a pause where nothing was wrong."""
        floors, failed = self.plan.floors, self.runner.failed
        doubtful = [
            (step, find_doubtful(step, self.results, floors, failed))
            for step in self.plan.steps
            if step.name == name
        ]
        first_tries = [self.results[step.key(gpu)] for step, gpus in doubtful for gpu in gpus]
        if not first_tries or self.clock.interrupted():
            return
        if all(result.status is not BurnInStatus.FAIL for result in first_tries):
            self.clock.sleep(PAUSE_S)
        for step, gpus in doubtful:
            for gpu, second in self._run_on(step, self._select(step, gpus)).items():
                key = step.key(gpu)
                combine = merge if second.status.ended_early else add_second_try
                self.results[key] = combine(self.results[key], second)

    def _run_on(self, step: BurnInStep, gpus: Sequence[str]) -> dict[str, BurnInResult]:
        """Let these GPUs run a test at once, and sample all that it loads; return each result."""
        peers = [step.to[gpu] for gpu in gpus if gpu in step.to]
        samplers = {gpu: LoadSampler(gpu) for gpu in dict.fromkeys([*gpus, *peers, *step.ranks])}
        sampled_s = self.clock.now()

        def on_event(gpu: str, line: Mapping[str, Any]) -> None:
            nonlocal sampled_s
            if gpu:
                self._show_rate(step, gpu, line)
            elif self.clock.now() >= sampled_s + SAMPLE_S:
                sampled_s = self.clock.now()
                self._sample(step, samplers)

        run = self.runner.run(step, gpus, on_event)
        self._cut = run.cut
        for gpu, why in run.unfinished.items():
            key = step.key(gpu)
            if key in self.results and why != run.cut:
                unfinished = BurnInResult(BurnInStatus.UNKNOWN, why)
                self.results[key] = merge(self.results[key], unfinished)
            self._note_missing(step, [gpu], why)
        return {
            gpu: result._replace(load=samplers[gpu].summary())
            for gpu, result in run.results.items()
        }

    def _note_missing(self, step: BurnInStep, gpus: Sequence[str], why: str) -> None:
        for gpu in gpus:
            key = step.key(gpu)
            if key not in self.results:
                self.missing.setdefault(key, Unread(key, "blocked-behind", why))

    def _show_rate(self, step: BurnInStep, gpu: str, line: Mapping[str, Any]) -> None:
        rates = [
            f"{value:g} {name}" for name, value in line.items() if name.endswith(("tflops", "gbps"))
        ]
        self.progress.update(
            self.plan.labels.get(gpu, gpu),
            test=step.name,
            rate=" ".join(rates) or str(line.get("pattern", "")),
        )

    def _sample(self, step: BurnInStep, samplers: Mapping[str, LoadSampler]) -> None:
        """Read temperatures, power and clocks of the loaded GPUs, and the kernel log."""
        keys = [
            key
            for gpu in samplers
            for key in sample_keys(gpu, margin=wants_margin(self.job.scan, gpu))
        ]
        readings = self.reader.read([*keys, TAIL])
        for gpu, sampler in samplers.items():
            sampler.add(readings)
            milliwatts = sampler.newest("power_w")
            self.progress.update(
                self.plan.labels.get(gpu, gpu),
                test=step.name,
                temperature_c=sampler.newest("core_c"),
                power_w=milliwatts and milliwatts / 1000,
            )
        self.counters.note_log(readings, step.name)


def run_job(job: BurnInJob, children: Mapping[str, Child], options: ReadOptions) -> Recording:
    """Burn in this machine's GPUs and return what was found; called in the scan's own process."""
    plan, clock = job.plan, real_clock()
    supervisor = ReadSupervisor(children, options, lambda _key, _seconds: None)
    ends_s = supervisor.ends_s - min(RESERVE_S, options.deadline_s / 4)
    progress = Progress(
        [plan.labels.get(gpu, gpu) for gpu in plan.gpus],
        sys.stderr,
        expected_s=plan.expected_s,
        spent_s=job.earlier.spent_s,
    )
    try:
        nearby = _read_nearby_cpus(supervisor, plan.gpus)
        pool = WorkerPool(ProcessLauncher(), options.limits, ends_s, nearby, clock)
        scheduler = Scheduler(job, pool, supervisor, progress, clock, ends_s)
        scheduler.run()
    finally:
        supervisor.close()
    received = signals.received
    recording = scheduler.recording({"ended_by_signal": int(received[0])} if received else {})
    for death in supervisor.deaths:
        recording.add(death)
    return recording


def _read_nearby_cpus(reader: CounterReader, gpus: Sequence[str]) -> dict[str, str]:
    """Return each GPU's CPUs as sysfs lists them (`0-2,96`), empty where that was not read."""
    keys = {f"file:/sys/bus/pci/devices/{gpu}/local_cpulist": gpu for gpu in gpus}
    nearby = dict.fromkeys(gpus, "")
    for reading in reader.read(list(keys)):
        if reading.error is None and reading.key in keys:
            nearby[keys[reading.key]] = str(reading.value or "")
    return nearby
