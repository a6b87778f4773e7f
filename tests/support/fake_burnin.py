"""Burn-ins within the test's own process: the real scheduler and worker pool, with a clock that
only moves when somebody waits, and stand-ins for the worker processes that speak their protocol.

A stand-in answers as the workers of a real node did (the recording `h200-2x-quick`), unless a fault
is planted.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nodes_recordings import base, judged

from gpuscan import collectors
from gpuscan import profile as profiles
from gpuscan.burnin.checkpoint import EarlierWork, identify, start_checkpoint
from gpuscan.burnin.clock import Clock
from gpuscan.burnin.launcher import WorkerProcess
from gpuscan.burnin.levels import TIMES, LevelTimes
from gpuscan.burnin.plan import BurnInPlan, make_plan, plan_reading
from gpuscan.burnin.pool import WorkerPool
from gpuscan.burnin.progress import Progress
from gpuscan.burnin.request import BurnInOptions
from gpuscan.burnin.sampling import sample_keys
from gpuscan.burnin.scheduler import BurnInJob, Scheduler
from gpuscan.collectors.burnin_counters import TAIL
from gpuscan.engine.report import Report
from gpuscan.live.limits import Limits
from gpuscan.model import Unread
from gpuscan.model.outcome import Result, Status
from gpuscan.recording import Reading, Recording

QUICK = base("h200-2x-quick")
GPUS = ("0000:00:06.0", "0000:00:07.0")
LABELS = ("SXM2", "SXM4")
SETTINGS = ("gpu.count=2",)
TEST_OF = {"exact": "gemm-exact", "stress": "gemm-stress"}
SAMPLES = (66, 690_000, 1755, 4, 5, 16, {"sm_active": 0.9}, 60)  # in the order of sampling.CALLS
HELLO = {"name": "NVIDIA H200", "code": "sm_90a", "engine": "triton 3.9.0", "driver": 13000}
FATAL = {"error": {"name": "CUDA_ERROR_ECC_UNCORRECTABLE", "code": 214}, "text": "uncorrectable"}
# What a fault makes of one test: changes to the result, "hang" (no more lines), "busy" (heartbeats
# without end), "die" (killed from outside), or nothing. It gets the test's line and how often this
# GPU has been asked for that test.
Fault = Callable[[Mapping[str, Any], int], Any]


def _no_fault(_test: Mapping[str, Any], _count: int) -> Any:
    return None


QUICKLY = LevelTimes(1, ["random"], 1.5, 1, 1, 1, 1, 1, 1, 1, 1, 0.4, 1, 1)


def scan_of(recording: Recording) -> Recording:
    """The scan before a recorded burn-in."""
    scan = Recording({"duration_s": 1.0}, list(recording.scope))
    for reading in recording:
        ours = reading.key.startswith(("burnin:", "tail:", "run:dcgmi"))
        if reading.phase in ("", "scan") and not ours:
            scan.add(reading)
    return scan


SCAN = scan_of(QUICK)


class FakeClock:
    """Time that passes when somebody waits; a signal comes at *interrupt_s*."""

    def __init__(self, interrupt_s: float = float("inf")) -> None:
        self.now_s, self.interrupt_s = 1000.0, 1000.0 + interrupt_s
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def clock(self) -> Clock:
        return Clock(
            lambda: self.now_s,
            self.sleep,
            lambda: 1_795_859_252 + self.now_s,
            lambda: self.now_s >= self.interrupt_s,
        )


class FakeReader:
    """Reads a recording, and what is sampled under load; *log* has the kernel's lines by the read
    in which they come, None for an error.
    """

    ends_s = float("inf")

    def __init__(self, recording: Recording, log: Mapping[int, list[str] | None] = {}) -> None:
        self.recording, self.log = recording, log
        self.values: dict[str, Any] = {}
        for gpu in GPUS:
            self.values |= dict(zip(sample_keys(gpu), SAMPLES, strict=True))
        self.reads = 0

    def read(self, keys: Collection[str]) -> list[Reading]:
        self.reads += 1
        return [self._read(key) for key in keys]

    def _read(self, key: str) -> Reading:
        if key == TAIL:
            lines = self.log.get(self.reads, [])
            lost = Unread(key, "garbled", "records were overwritten") if lines is None else None
            return Reading(key, lines, lost)
        value = self.values.get(key, self.recording.get(key))
        if isinstance(value, Unread):
            return Reading(key, None, value)
        return Reading(key, value, None)


class FakeWorker:
    """A worker process as the pool sees it."""

    def __init__(self, address: str, fleet: FakeLauncher) -> None:
        self.address, self.fleet = address, fleet
        self.hello: dict[str, Any] = {}
        self.error: dict[str, Any] = {}
        self.ended = ""
        self.heard_s = fleet.time.now_s
        self.due: list[tuple[float, dict[str, Any]]] = []
        opening = fleet.opening.get(address)
        if opening == "die":
            self._plan(0.2, {"kind": "ended", "how": "exited with code 1 (ValueError: x)"})
        elif isinstance(opening, dict):
            self._plan(0.2, {"kind": "error", **opening})
            self._plan(0.3, {"kind": "ended", "how": "exited with code 3"})
        elif opening is None:
            self._plan(0.2, {"kind": "hello", "card": address, **HELLO})

    def _plan(self, after_s: float, line: dict[str, Any]) -> None:
        self.due.append((self.fleet.time.now_s + after_s, line))

    def send(self, line: Mapping[str, Any]) -> None:
        test = dict(line)
        self.fleet.asked.append((self.address, test))
        name = (self.address, test["test"], test.get("dtype", ""))
        self.fleet.counts[name] += 1
        fault = self.fleet.faults.get(self.address, _no_fault)
        change = fault(test, self.fleet.counts[name])
        row = self.fleet.answers.find(self.address, test)
        seconds = float(test.get("fade_s", test.get("seconds", row["seconds"])))
        if change == "hang":
            return
        beats = range(1, 400 if change == "busy" else max(int(seconds), 1))
        for second in beats:
            self._plan(second, {"kind": "heartbeat", "test": test["test"]})
        if change == "busy":
            return
        if change == "die":
            self._plan(seconds / 2, {"kind": "ended", "how": "was killed by SIGKILL"})
            return
        changed = row | {"seconds": seconds} | (change or {})
        if "numbers" in (change or {}):
            changed["numbers"] = row["numbers"] | change["numbers"]
        self._plan(max(seconds, 0.1), {"kind": "result", "test": test["test"], **changed})
        if changed["error"] and changed["status"] == "fail":
            self._plan(max(seconds, 0.1) + 0.1, {"kind": "ended", "how": "exited with code 3"})

    def take(self) -> list[dict[str, Any]]:
        now_s = self.fleet.time.now_s
        due = [line for at_s, line in self.due if at_s <= now_s]
        self.due = [(at_s, line) for at_s, line in self.due if at_s > now_s]
        for line in due:
            self.heard_s = now_s
            if line["kind"] == "hello":
                self.hello = line
            elif line["kind"] == "error":
                self.error = line
            elif line["kind"] == "ended":
                self.ended = line["how"]
        return [line for line in due if line["kind"] != "ended"]

    def kill(self) -> None:
        self.ended = self.ended or "was killed"
        self.due.clear()

    def close(self) -> None:
        self.due.clear()


class Answers:
    """The real workers' results in a recording, by what they were asked."""

    def __init__(self, recording: Recording) -> None:
        self._rows: dict[tuple[str, str, str], dict[str, Any]] = {}
        for reading in recording:
            if not reading.key.startswith("burnin:") or not isinstance(reading.value, dict):
                continue
            row = dict(reading.value)
            if "options" not in row:
                continue
            test = TEST_OF.get(row["kind"], row["kind"])
            gpu = reading.key.partition("(")[2].rstrip(")").split(",")[0]
            self._rows.setdefault((gpu, test, row["options"].get("dtype", "")), row)

    def find(self, gpu: str, test: Mapping[str, Any]) -> dict[str, Any]:
        """The row of a result line, with the test's own options."""
        row = self._rows[(gpu, test["test"], test.get("dtype", ""))]
        added = ("load", "step", "kind", "hot", "runs", "again", "earlier")
        options = {name: value for name, value in test.items() if name != "test"}
        return {name: value for name, value in row.items() if name not in added} | {
            "options": options
        }


class FakeLauncher:
    """Where stand-ins come from.

    *opening* says how a GPU's opening fails: CUDA's error line, "die", "silent" or an OSError. At
    the times of *freezes* (seconds from the start, and how long) nobody runs, the pool included.
    """

    def __init__(
        self,
        time: FakeClock,
        reader: FakeReader,
        faults: Mapping[str, Fault],
        opening: Mapping[str, Any],
        freezes: Sequence[tuple[float, float]] = (),
    ) -> None:
        self.time, self.faults, self.opening = time, faults, dict(opening)
        self.answers = Answers(QUICK)
        self.freezes = [(time.now_s + at_s, seconds) for at_s, seconds in freezes]
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.workers: list[FakeWorker] = []
        self.reader = reader
        self.on_turn: Callable[[], object] = lambda: None

    def start(self, address: str, cpus: tuple[int, ...]) -> WorkerProcess:
        opening = self.opening.get(address)
        if isinstance(opening, OSError):
            raise opening
        self.workers.append(FakeWorker(address, self))
        return self.workers[-1]

    def wait(self, workers: Sequence[WorkerProcess], seconds: float) -> list[WorkerProcess]:
        """Let time pass until one of them has something to say, for a second at most."""
        self.on_turn()
        mine = [worker for worker in self.workers if worker in workers]
        next_s = min((at_s for worker in mine for at_s, _ in worker.due), default=float("inf"))
        self.time.now_s = max(self.time.now_s, min(next_s, self.time.now_s + 1.0))
        for freeze in [each for each in self.freezes if each[0] <= self.time.now_s]:
            self.freezes.remove(freeze)
            self.time.now_s += freeze[1]
        now_s = self.time.now_s
        return [worker for worker in mine if any(at_s <= now_s for at_s, _ in worker.due)]

    def end(self, workers: Sequence[WorkerProcess]) -> None:
        for worker in workers:
            worker.kill()


class BurntIn(NamedTuple):
    """A burn-in that has ended: its recording with the scan, the report, and what was at work."""

    recording: Recording
    report: Report
    scheduler: Scheduler
    fleet: FakeLauncher
    time: FakeClock

    def of(self, check: str, status: Status) -> list[Result]:
        """The results of a check of the burn-in that have a status."""
        return [
            result
            for result in self.report.results
            if result.check == f"burnin.{check}" and result.status is status
        ]

    def result(self, key: str) -> Any:
        """The value of a burn-in's reading."""
        return self.recording.get(f"burnin:{key}")


class Setup(NamedTuple):
    """How to burn in; times in seconds, *deadline_s* from now, *write* is the checkpoint's file."""

    level: str = "quick"
    duration_s: float = 0.0
    faults: Mapping[str, Fault] = {}
    opening: Mapping[str, Any] = {}
    freezes: Sequence[tuple[float, float]] = ()
    interrupt_s: float = float("inf")
    deadline_s: float = float("inf")
    log: Mapping[int, list[str] | None] = {}
    settings: tuple[str, ...] = ()
    times: Mapping[str, LevelTimes] = TIMES
    limits: Limits = Limits(worker_s=60.0)
    scan: Recording = SCAN
    tools: bool = False
    checkpoint: str = ""
    on_turn: Callable[[FakeLauncher], object] | None = None
    reader: Callable[[FakeReader], object] | None = None
    progress: io.StringIO | None = None


def plan_for(setup: Setup) -> BurnInPlan:
    """The plan as a command makes it, with the floors of the profile."""
    node = collectors.node(setup.scan)
    chosen = profiles.load("h200-4x", (*SETTINGS, *setup.settings)).data["burnin"]
    floors = {name: value for name, value in chosen.items() if isinstance(value, (int, float))}
    options = BurnInOptions(setup.level, setup.duration_s, setup.checkpoint)
    return make_plan(
        node,
        options,
        floors | (chosen["nccl"] or {}),
        tools=setup.tools,
        times=setup.times,
    )


def burn_in(**how: Any) -> BurntIn:
    """Burn in the two H200 of the recording, and judge what came of it."""
    setup = Setup(**how)
    plan = plan_for(setup)
    time = FakeClock(setup.interrupt_s)
    reader = FakeReader(setup.scan, setup.log)
    if setup.reader:
        setup.reader(reader)
    fleet = FakeLauncher(time, reader, setup.faults, setup.opening, setup.freezes)
    if setup.on_turn:
        change = setup.on_turn
        fleet.on_turn = lambda: change(fleet)
    identity = identify(plan, setup.scan) if setup.checkpoint else {}
    earlier = start_checkpoint(setup.checkpoint, identity)
    scheduler = _run(setup, plan, earlier, identity, time, reader, fleet)
    recording = _join(setup, plan, scheduler, reader)
    report = judged(recording, "h200-4x", (*SETTINGS, *setup.settings))
    return BurntIn(recording, report, scheduler, fleet, time)


def _run(
    setup: Setup,
    plan: BurnInPlan,
    earlier: EarlierWork,
    identity: Mapping[str, Any],
    time: FakeClock,
    reader: FakeReader,
    fleet: FakeLauncher,
) -> Scheduler:
    ends_s = time.now_s + min(setup.deadline_s, plan.deadline_s)
    job = BurnInJob(plan, setup.scan, earlier, setup.checkpoint, identity)
    clock = time.clock()
    progress = Progress([], setup.progress or io.StringIO(), clock=clock.now)
    pool = WorkerPool(fleet, setup.limits, ends_s, {}, clock)
    scheduler = Scheduler(job, pool, reader, progress, clock, ends_s)
    scheduler.run()
    return scheduler


def _join(setup: Setup, plan: BurnInPlan, scheduler: Scheduler, reader: FakeReader) -> Recording:
    """The recording of the scan with what was found, as `exercise.run_burnin` joins them."""
    recording = Recording(
        setup.scan.meta._replace(level=plan.level, engine=HELLO),
        [*setup.scan.scope, "burnin:*", "tail:*"],
    )
    for reading in setup.scan:
        recording.add(reading)
    recording.add(Reading("burnin:plan()", plan_reading(plan), None))
    for gpu, why in plan.refused.items():
        error = Unread("", "blocked-behind", f"not run: {why}")
        recording.add(Reading(f"burnin:open({gpu})", None, error))
    for reading in scheduler.recording({}):
        recording.add(reading)
    for reading in reader.read(list(collectors.after_load(recording))):
        recording.add(reading._replace(phase="after"))
    return recording


def steps_of(checkpoint: Path) -> int:
    """How many steps of its round a checkpoint has done."""
    from gpuscan.recording import load

    return int((load(str(checkpoint)).meta.checkpoint or {})["steps"])
