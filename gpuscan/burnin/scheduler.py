"""The burn-in under way: step after step on all GPUs, watched meanwhile, counters read around
each, tried again where in doubt.
"""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.burnin.merging import merged, rates_of, tried_again, worse
from gpuscan.burnin.plan import END, Plan, Step, key_of
from gpuscan.burnin.pool import Crew
from gpuscan.burnin.progress import Progress
from gpuscan.burnin.rates import held_to, middle
from gpuscan.burnin.tools import run as tools
from gpuscan.burnin.watching import Samples, keys
from gpuscan.collectors import again
from gpuscan.collectors.reading import names
from gpuscan.errors import GpuscanError, complain
from gpuscan.live import signals
from gpuscan.live.process import Child
from gpuscan.live.supervisor import Options, ReadSupervisor
from gpuscan.model import Unread
from gpuscan.recording import Reading, Recording, save

SAMPLE_S = 1.0
END_S = 8.0  # before the deadline: what does not end when it is asked to is waited for, then killed
PAUSE_S = 5.0  # before a slow test is tried again
NEAR = 0.95  # slower than this share of the node's median is tried again
TAIL = "tail:/dev/kmsg"
DRIVERS = re.compile(r"NVRM|nvidia-nvswitch|nvidia-nvlink|SXid", re.IGNORECASE)
MOST_LINES = 200  # of one test
COUNTS = (
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetSramEccErrorStatus",
)
NOT_RUN = "not run: the deadline was near"


class Before(NamedTuple):
    """What an earlier call had done before it was ended: its readings, full rounds, steps of the
    next, seconds, when it began.
    """

    recording: Recording
    rounds: int = 0
    steps: int = 0
    spent_s: float = 0.0
    began_at: float = 0.0


class Load(NamedTuple):
    """What a burn-in needs: its plan, the scan before it, what an earlier call had done.

    *checkpoint* is the file that keeps what is done, *mark* what tells this burn-in from another's
    there.
    """

    plan: Plan
    known: Recording
    before: Before
    checkpoint: str = ""
    mark: Mapping[str, Any] = {}


class Burn:
    """One burn-in: `run` returns when all is done, or the time is up, or a signal came."""

    def __init__(self, load: Load, guard: ReadSupervisor, shown: Progress) -> None:
        self.load, self.plan, self.guard, self.shown = load, load.plan, guard, shown
        self.results: dict[str, dict[str, Any]] = {}
        self.lacks: dict[str, Unread] = {}
        self.counters: dict[str, Any] = {}  # the newest value or error of each key
        self.readings: list[Reading] = []  # counters that changed, and what the kernel logged
        self.kept: dict[str, int] = {}  # lines of the kernel that are kept of each test
        self.unlogged: set[str] = set()  # tests in which the kernel log was once not read
        self.counting = _counting(load.known, load.plan.gpus)
        self.complained = ""  # of the checkpoint
        self.began_s = time.monotonic()
        self.ends_s = guard.ends_s - min(END_S, guard.options.deadline_s / 4)
        self._resume()
        self._count(
            "before"
        )  # and the guard holds the GPUs from now on: opening them again takes no time
        files = {gpu: f"file:/sys/bus/pci/devices/{gpu}/local_cpulist" for gpu in self.plan.gpus}
        read = {
            reading.key: reading.value
            for reading in guard.read(list(files.values()))
            if reading.error is None
        }
        near = {gpu: str(read.get(file) or "") for gpu, file in files.items()}
        self.crew = Crew(self.plan, guard.options.limits, self.ends_s, near)

    def run(self) -> None:
        """Run round after round until the time of the plan is spent, one round at least; then the
        other programs.
        """
        try:
            self.crew.open(self.plan.gpus)
            why = self._rounds()
        finally:
            self.crew.end()
        done = (
            f"after {self._spent_s():.0f} s of {max(self.plan.rounds_s, self.plan.expected_s):.0f}"
        )
        if why:
            self.lacks[END] = Unread(END, "blocked-behind", f"the burn-in ended {done}: {why}")
        else:
            self.results[END] = {"status": "pass", "text": done, "kind": "open", "runs": 1}
        self._run_tools()
        self.shown.close()

    def _rounds(self) -> str:
        """Return why it ended before its time, nothing where it did not."""
        rounds, first = self.load.before.rounds, self.load.before.steps
        while True:
            for number in range(first, len(self.plan.steps)):
                self._step(number)
                why = self._over() or self.crew.cut
                whole = rounds or (number + 1 == len(self.plan.steps) and not self.crew.cut)
                if why and whole and self._spent_s() >= self.plan.rounds_s:
                    return ""
                if why:
                    for step in self.plan.steps:
                        self._lack(step, step.gpus, why)
                    return why
                self._keep(rounds, number + 1)
            rounds, first = rounds + 1, 0
            if self._spent_s() >= self.plan.rounds_s:
                return ""

    def _over(self) -> str:
        """Return why nothing more may be begun, if that is so."""
        if signals.received:
            return "not run: the burn-in was ended by a signal"
        if time.monotonic() >= self.ends_s:
            return NOT_RUN
        return (
            "not run: no GPU is left to test"
            if all(gpu in self.crew.failed for gpu in self.plan.gpus)
            else ""
        )

    def _keep(self, rounds: int, steps: int) -> None:
        """Write the checkpoint; what goes wrong there is told, and costs nothing that was found."""
        if not self.load.checkpoint:
            return
        done = {
            "of": dict(self.load.mark),
            "rounds": rounds,
            "steps": steps,
            "spent_s": round(self._spent_s(), 1),
        }
        done["began_at"] = self.load.before.began_at
        try:
            save(self.recording({"checkpoint": done}), self.load.checkpoint)
        except GpuscanError as error:
            if str(error) != self.complained:  # once, not at every step
                complain(f"gpuscan: {error}; the burn-in goes on without it")
            self.complained = str(error)

    def _run_tools(self) -> None:
        """Run the other programs, once the GPUs are free of ours; each may take no more than is
        left.
        """
        for number, tool in enumerate(self.plan.tools, len(self.plan.steps) + 1):
            left_s = self.ends_s - time.monotonic()
            present = tools.program(tool.key)
            why = self._over() or next(iter(self.crew.failed.values()), "")  # these ask all GPUs
            if present and why:
                self.readings.append(
                    Reading(tool.key, None, Unread(tool.key, "blocked-behind", why), time.time())
                )
                continue
            if present:
                self.shown.step(
                    tool.name, number, len(self.plan.steps) + len(self.plan.tools), tool.usual_s
                )
            self.readings.append(
                tools.run(
                    tool.key, max(min(tool.limit_s, left_s), 0.0), lambda: not signals.received
                )
            )

    def recording(self, meta: Mapping[str, Any]) -> Recording:
        """Return what was found so far."""
        told = Recording(
            {"made_at": round(time.time(), 3), "engine": self.crew.engine, **meta}, ["burnin:*"]
        )
        opened = {f"burnin:open({gpu})": value for gpu, value in self.crew.opened.items()}
        results = {
            **self.results,
            **{key: worse(self.results.get(key), value) for key, value in opened.items()},
        }
        for reading in self.readings:
            told.add(reading)
        for key, value in results.items():
            told.add(
                Reading(
                    key, value, None, time.time(), 1000 * value.get("seconds", 0.0), self.plan.level
                )
            )
        for key, lack in self.lacks.items():
            if key not in results:
                told.add(Reading(key, None, lack, time.time(), 0.0, self.plan.level))
        return told

    def _spent_s(self) -> float:
        return self.load.before.spent_s + time.monotonic() - self.began_s

    def _resume(self) -> None:
        for reading in self.load.before.recording:
            if not reading.key.startswith("burnin:"):
                self.readings.append(reading)
            elif reading.error is None:
                self.results[reading.key] = dict(reading.value)
            elif reading.key != END:
                self.lacks[reading.key] = reading.error

    def _step(self, number: int) -> None:
        step = self.plan.steps[number]
        gpus = self._fit(step, step.gpus)
        if not gpus:
            return
        self.shown.step(step.name, number + 1, len(self.plan.steps), step.seconds)
        found = self._together(step, gpus)
        for gpu in (gpu for gpu in gpus if gpu in found):
            key = key_of(step, gpu)
            result = {**found[gpu], "step": step.name, "kind": step.kind, "hot": step.hot}
            self.results[key] = merged(self.results.get(key), result)
        following = self.plan.steps[number + 1 : number + 2]
        if (
            not following or following[0].name != step.name
        ):  # all GPUs have had their turn: now it is known who is slow
            self._try_again(step.name)
        self._count(f"after:{step.name}")

    def _fit(self, step: Step, gpus: Sequence[str]) -> list[str]:
        """Return those of the GPUs that can run a step; the others are told as not run."""
        fit = []
        for gpu in gpus:
            why = self.crew.refusal(step, gpu)
            if why:
                self._lack(step, [gpu], why)
            else:
                fit.append(gpu)
        return fit

    def _try_again(self, name: str) -> None:
        """Run what was wrong or slow once more, after a pause where nothing was wrong."""
        doubtful = [(step, self._doubtful(step)) for step in self.plan.steps if step.name == name]
        doubtful = [(step, gpus) for step, gpus in doubtful if gpus]
        if not doubtful or signals.received:
            return
        if all(
            self.results[key_of(step, gpu)]["status"] != "fail"
            for step, gpus in doubtful
            for gpu in gpus
        ):
            time.sleep(PAUSE_S)
        for step, gpus in doubtful:
            for gpu, result in self._together(step, self._fit(step, gpus)).items():
                key = key_of(step, gpu)
                if result["status"] in ("stuck", "lost"):
                    self.results[key] = merged(self.results[key], result)
                    continue
                self.results[key] = tried_again(self.results[key], result)

    def _doubtful(self, step: Step) -> list[str]:
        """Return the GPUs whose words were wrong, whose product is another, or whose rate is
        below its floor or the others'.
        """
        found = [result for result in self.results.values() if result.get("step") == step.name]
        alike, hashes = [rates_of(result) for result in found], [_hash(result) for result in found]
        there = [gpu for gpu in step.gpus if key_of(step, gpu) in self.results]
        return [
            gpu
            for gpu in there
            if self._is_odd(step, gpu, hashes) or self._is_doubtful(step, gpu, alike)
        ]

    def _is_odd(self, step: Step, gpu: str, hashes: Sequence[str]) -> bool:
        """Tell whether fewer than most GPUs got this GPU's product."""
        own = _hash(self.results[key_of(step, gpu)])
        return (
            bool(own)
            and gpu not in self.crew.failed
            and 2 * hashes.count(own) <= len([each for each in hashes if each])
        )

    def _is_doubtful(self, step: Step, gpu: str, alike: Sequence[Mapping[str, float]]) -> bool:
        result = self.results[key_of(step, gpu)]
        if gpu in self.crew.failed or result["status"] == "fail":
            return gpu not in self.crew.failed and bool(result.get("mismatches"))
        for label, rate in rates_of(result).items():
            usual = middle(other[label] for other in alike if label in other)
            floor = next(
                (self.plan.floors[each] for each in held_to(label) if each in self.plan.floors), 0.0
            )
            if rate < floor or rate < NEAR * usual:
                return True
        return False

    def _together(self, step: Step, gpus: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Let these GPUs run a test at once, and watch all that it loads; return each result."""
        peers = [step.to[gpu] for gpu in gpus if gpu in step.to]
        loaded = {gpu: Samples(gpu) for gpu in {*gpus, *peers, *step.options.get("cards", ())}}
        sampled_s = time.monotonic()

        def each_turn(gpu: str, line: Mapping[str, Any]) -> None:
            nonlocal sampled_s
            if gpu:
                self._show(step, gpu, line)
            elif time.monotonic() >= sampled_s + SAMPLE_S:
                sampled_s = time.monotonic()
                self._sample(step, loaded)

        found, gone = self.crew.run(step, gpus, each_turn)
        for gpu in found:
            found[gpu]["load"] = loaded[gpu].told()
        for gpu, why in gone.items():
            key = key_of(step, gpu)
            if (
                key in self.results and why != self.crew.cut
            ):  # what an earlier round found stands where the time is over
                self.results[key] = merged(self.results[key], {"status": "unknown", "text": why})
            self._lack(step, [gpu], why)
        return found

    def _show(self, step: Step, gpu: str, line: Mapping[str, Any]) -> None:
        rate = " ".join(
            f"{value:g} {name}" for name, value in line.items() if name.endswith(("tflops", "gbps"))
        )
        self.shown.update(
            self.plan.labels.get(gpu, gpu),
            test=step.name,
            rate=rate or str(line.get("pattern", "")),
        )

    def _lack(self, step: Step, gpus: Sequence[str], why: str) -> None:
        for gpu in gpus:
            key = key_of(step, gpu)
            if key not in self.results:
                self.lacks.setdefault(key, Unread(key, "blocked-behind", why))

    def _sample(self, step: Step, loaded: Mapping[str, Samples]) -> None:
        """Ask NVML how the loaded GPUs are, and the kernel what it has to say."""
        found = self.guard.read([key for gpu in loaded for key in keys(gpu)] + [TAIL])
        for gpu, samples in loaded.items():
            samples.add(found)
            watts = samples.newest("power_w")
            label = self.plan.labels.get(gpu, gpu)
            self.shown.update(
                label,
                test=step.name,
                temperature_c=samples.newest("core_c"),
                power_w=watts and watts / 1000,
            )
        self._log(found, step.name)

    def _log(self, found: Sequence[Reading], name: str) -> None:
        """Keep what the driver logged, and anybody of these GPUs; and of each test that somebody
        looked. Where more came than is kept, or once nobody could look, the test is unread: what
        the rest said is not known.
        """
        for reading in (reading for reading in found if reading.key == TAIL):
            first, kept = name not in self.kept, self.kept.get(name, 0)
            if kept > MOST_LINES or (reading.error is not None and name in self.unlogged):
                continue
            lines = (
                []
                if reading.error is not None
                else [line for line in names(reading.value) if self._matters(line)]
            )
            self.kept[name] = kept + len(lines)
            if self.kept[name] > MOST_LINES:
                lack = Unread(
                    TAIL,
                    "garbled",
                    f"more than {MOST_LINES} lines came in this test: see the kernel log",
                )
                self.readings.append(reading._replace(value=None, error=lack, phase=name))
            elif reading.error is not None:
                self.unlogged.add(name)
                self.readings.append(reading._replace(phase=name))
            elif lines or first:
                self.readings.append(reading._replace(value=lines, phase=name))

    def _matters(self, line: str) -> bool:
        return bool(DRIVERS.search(line)) or any(
            gpu.rsplit(".", 1)[0] in line.lower() for gpu in self.plan.gpus
        )

    def _count(self, phase: str) -> None:
        """Read the error counters; what differs from the last time is kept, and tells in which
        test it grew.
        """
        for reading in self.guard.read([*self.counting, TAIL]):
            ended = signals.received or time.monotonic() >= self.guard.ends_s
            told = (reading.value, reading.error)
            if reading.key == TAIL:
                self._log([reading], phase.removeprefix("after:"))
            elif ended and reading.error is not None and reading.error.kind == "blocked-behind":
                continue  # what was read before is what is known
            elif self.counters.get(reading.key) != told:
                self.counters[reading.key] = told
                self.readings.append(reading._replace(phase=phase))


def burn(load: Load, children: Mapping[str, Child], options: Options) -> Recording:
    """Burn this machine's GPUs in and return what was found; called in the scan's own process."""
    guard = ReadSupervisor(children, options, lambda _key, _seconds: None)
    labels = [load.plan.labels.get(gpu, gpu) for gpu in load.plan.gpus]
    work = Burn(
        load,
        guard,
        Progress(labels, sys.stderr, expected_s=load.plan.expected_s, spent_s=load.before.spent_s),
    )
    try:
        work.run()
    finally:
        guard.close()
    return work.recording({"ended_by_signal": int(signals.received[0])} if signals.received else {})


def _hash(result: Mapping[str, Any]) -> str:
    return str((result.get("numbers") or {}).get("got", ""))


def _counting(known: Recording, gpus: Sequence[str]) -> list[str]:
    """Return the counters' keys: those that a scan reads twice, and those of memory errors."""
    errors = [
        key for key in known.keys() if key.startswith("nvml:") and key[5:].split("(")[0] in COUNTS
    ]
    return [
        key for key in [*errors, *again(known)] if key in known and any(gpu in key for gpu in gpus)
    ]
