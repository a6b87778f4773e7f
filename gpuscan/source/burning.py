"""The burn-in under way: a worker a card, all begin each step together, watched while they work, never waited for in vain."""

import json
import os
import re
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from gpuscan import source
from gpuscan.burnin.levels import Plan, Step, key_of
from gpuscan.burnin.merging import merged
from gpuscan.burnin.progress import Progress
from gpuscan.burnin.watching import Samples, keys
from gpuscan.collectors import again
from gpuscan.collectors.reading import names
from gpuscan.facts import Unread
from gpuscan.recording import Reading, Recording, save
from gpuscan.source import tools
from gpuscan.source.guard import Guard, Options
from gpuscan.source.workers import Worker, end_all

SAMPLE_S = 1.0
PAUSE_S = 5.0  # before a slow test is tried again
NEAR = 0.95  # slower than this share of the node's median is tried again
TAIL = "tail:/dev/kmsg"
MATTERS = re.compile(r"NVRM|nvidia|Xid|AER:|EDAC|Hardware Error|MCE", re.IGNORECASE)
MOST_LINES = 200
COUNTS = ("nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetSramEccErrorStatus")
STOPPED = "not finished: the burn-in was ended by a signal"


class Shown(Protocol):
    """Who is told how it goes: a display on a terminal, or lines."""

    def step(self, name: str, number: int, total: int, seconds: float) -> None:
        """A step begins."""

    def update(self, card: str, **fields: Any) -> None:
        """Something is known of a card."""

    def close(self) -> None:
        """Nothing more will come."""


class Load(NamedTuple):
    """What a burn-in needs: its plan, the scan before it, what an earlier call had done, the file that keeps what is done."""

    plan: Plan
    known: Recording
    before: "Before"
    checkpoint: str = ""


class Before(NamedTuple):
    """What an earlier call had done before it was ended: its readings, full rounds, steps of the next, seconds."""

    recording: Recording
    rounds: int = 0
    steps: int = 0
    spent_s: float = 0.0


class Burn:
    """One burn-in: `run` returns when all is done, or the time is up, or a signal came."""

    def __init__(self, plan: Plan, guard: Guard, shown: Shown, known: Recording, keep: Callable[[Recording], None]) -> None:
        self.plan, self.guard, self.shown, self.keep = plan, guard, shown, keep
        self.workers: dict[str, Worker] = {}
        self.failed: dict[str, str] = {}  # cards on which nothing more is run, and why
        self.results: dict[str, dict[str, Any]] = {}
        self.lacks: dict[str, Unread] = {}
        self.counters: dict[str, Any] = {}  # the newest value of each key
        self.readings: list[Reading] = []  # counters that changed, and what the kernel logged
        self.near: dict[str, Any] = {}  # the processors that are near to each card
        self.followed: set[str] = set()  # the tests in which the kernel log was looked at
        self.counting = _counting(known, plan.cards)
        self.spent_s, self.began_s = 0.0, time.monotonic()
        self.silent_s = guard.options.limits.worker_s  # a worker tells every second that it works
        self.engine: dict[str, Any] = {}
        self.scale: dict[str, Any] = json.loads(os.environ.get("GPUSCAN_BURNIN_SCALE", "{}"))

    def run(self, before: Before) -> None:
        """Run round after round until the time of the plan is spent; one round at least."""
        self._resume(before)
        rounds = before.rounds
        try:
            self._open()
            self._count("before")
            while True:
                for number, step in enumerate(self.plan.steps):
                    if rounds == before.rounds and number < before.steps:
                        continue
                    self._step(step, number)
                    if self._over():
                        return
                    self.keep(self.recording(rounds, number + 1))
                rounds += 1
                if self._spent_s() >= self.plan.rounds_s:
                    return
        finally:
            end_all(list(self.workers.values()))
            self._run_tools()
            self.shown.close()

    def _run_tools(self) -> None:
        """Run the other programs, once the cards are free of ours; each may take no more than is left."""
        for number, tool in enumerate(self.plan.tools, len(self.plan.steps) + 1):
            left_s = self.guard.ends_s - time.monotonic()
            if source.caught or left_s <= 0:
                why = STOPPED if source.caught else "not run: the deadline was near"
                self.readings.append(Reading(tool.key, None, Unread(tool.key, "blocked-behind", why), time.time()))
                continue
            if tools.program(tool.key):
                self.shown.step(tool.name, number, len(self.plan.steps) + len(self.plan.tools), tool.usual_s)
            self.readings.append(tools.run(tool.key, min(tool.limit_s, left_s), lambda: not source.caught))

    def recording(self, rounds: int = 0, steps: int = 0) -> Recording:
        """Return what was found so far."""
        progress = {"rounds": rounds, "steps": steps, "spent_s": round(self._spent_s(), 1)}
        plan = {"level": self.plan.level, "cards": list(self.plan.cards), "rounds_s": self.plan.rounds_s}
        meta = {"made_at": round(time.time(), 3), "engine": self.engine, "checkpoint": {**plan, **progress}}
        told = Recording(meta, ["burnin:*"])
        for reading in self.readings:
            told.add(reading)
        for key, value in self.results.items():
            told.add(Reading(key, value, None, time.time(), 1000 * value.get("seconds", 0.0), self.plan.level))
        for key, lack in self.lacks.items():
            if key not in self.results:
                told.add(Reading(key, None, lack, time.time(), 0.0, self.plan.level))
        return told

    def _spent_s(self) -> float:
        return self.spent_s + time.monotonic() - self.began_s

    def _over(self) -> str:
        """Return why nothing more may be begun, if that is so; what is left is then told as not run."""
        why = STOPPED if source.caught else ""
        if not why and time.monotonic() >= self.guard.ends_s:
            why = "not run: the deadline was near"
        if not why and self.plan.cards and all(card in self.failed for card in self.plan.cards):
            why = "not run: no card is left to test"
        if why:
            for step in self.plan.steps:
                self._lack(step, step.cards, why)
        return why

    def _resume(self, before: Before) -> None:
        self.spent_s = before.spent_s
        for reading in before.recording:
            if not reading.key.startswith("burnin:"):
                self.readings.append(reading)
            elif reading.error is None:
                self.results[reading.key] = dict(reading.value)

    def _open(self) -> None:
        """Start a worker a card, each on the processors that are near to it, and let all open their cards."""
        files = {card: f"file:/sys/bus/pci/devices/{card}/local_cpulist" for card in self.plan.cards}
        self.near = {reading.key: reading.value for reading in self.guard.read(list(files.values())) if reading.error is None}
        for card in self.plan.cards:
            self._begin(card)
        ends_s = time.monotonic() + self.silent_s
        while time.monotonic() < ends_s and not source.caught:
            waiting = [worker for worker in self.workers.values() if not (worker.hello or worker.error or worker.ended)]
            if not waiting:
                break
            self._listen(waiting, 0.2)
        for card, worker in self.workers.items():
            self.engine = {name: worker.hello[name] for name in ("code", "engine", "driver") if name in worker.hello} or self.engine
            if worker.hello:
                told = {name: value for name, value in worker.hello.items() if name not in ("kind", "at_s", "card")}
                self.results[f"burnin:open({card})"] = {
                    "status": "pass",
                    "text": "",
                    "kind": "open",
                    "step": "open",
                    "runs": 1,
                    **told,
                }
            elif not source.caught:
                self._unopened(card, worker)

    def _begin(self, card: str) -> None:
        text = str(self.near.get(f"file:/sys/bus/pci/devices/{card}/local_cpulist") or "")
        self.workers[card] = Worker(card, _cpus(text))

    def _unopened(self, card: str, worker: Worker) -> None:
        """Tell why a card could not be opened: what CUDA said; or that our process died, which says nothing of the card."""
        told = worker.error.get("text") or worker.ended or f"the card could not be opened within {self.silent_s:.0f} s"
        died = bool(worker.ended) and worker.error.get("name", "PLAN") == "PLAN"
        status = "unknown" if died else "lost" if worker.error else "stuck"
        error = {} if died else worker.error
        self.results[f"burnin:open({card})"] = {"status": status, "text": told, "error": error, "kind": "open", "runs": 1}
        self.failed[card] = f"not run: {told}"
        worker.end(9)

    def _listen(self, workers: Sequence[Worker], wait_s: float) -> list[tuple[Worker, dict[str, Any]]]:
        """Return what these workers say within *wait_s* of now."""
        poll = select.poll()
        by_number = {worker.fileno(): worker for worker in workers if not worker.ended}
        for number in by_number:
            poll.register(number, select.POLLIN)
        ready = poll.poll(wait_s * 1000)
        return [(by_number[number], line) for number, _ in ready for line in by_number[number].take()]

    def _step(self, step: Step, number: int) -> None:
        cards = [card for card in step.cards if self._fit(step, card)]
        if not cards:
            return
        self.shown.step(step.name, number + 1, len(self.plan.steps), step.seconds)
        found = self._together(step, cards)
        for card in (card for card in cards if card in found):
            key = key_of(step, card)
            result = {**found[card], "step": step.name, "kind": step.kind, "hot": step.hot}
            self.results[key] = merged(self.results.get(key), result)
        following = self.plan.steps[number + 1 : number + 2]
        if not following or following[0].name != step.name:  # all cards have had their turn: now it is known who is slow
            self._try_again(step.name)
        self._count(f"after:{step.name}")

    def _fit(self, step: Step, card: str) -> bool:
        """Tell whether a card can run a step; one that failed, or whose peer did, is told as not run."""
        wanted = [card, *([step.to[card]] if card in step.to else []), *step.options.get("cards", ())]
        for each in wanted:
            if each in self.failed:
                self._lack(step, [card], self.failed[each])
                return False
        return self._usable(card)

    def _try_again(self, name: str) -> None:
        """Run what was wrong or slow once more, after a pause where nothing was wrong."""
        doubtful = [(step, self._doubtful(step)) for step in self.plan.steps if step.name == name]
        doubtful = [(step, cards) for step, cards in doubtful if cards]
        if not doubtful or source.caught:
            return
        if all(self.results[key_of(step, card)]["status"] != "fail" for step, cards in doubtful for card in cards):
            time.sleep(PAUSE_S)
        for step, cards in doubtful:
            for card, result in self._together(step, [card for card in cards if self._fit(step, card)]).items():
                key = key_of(step, card)
                if result["status"] in ("stuck", "lost"):
                    self.results[key] = merged(self.results[key], result)
                    continue
                kept = {part: result[part] for part in ("status", "text", "mismatches", "numbers") if part in result}
                self.results[key]["again"] = kept

    def _usable(self, card: str) -> bool:
        """See that a card has a worker: one that was killed by somebody else is followed by another."""
        if self.workers[card].ended:
            self.workers[card].close()
            self._begin(card)
        return True

    def _doubtful(self, step: Step) -> list[str]:
        """Return the cards whose words were wrong, or whose rate is below its floor or the others'."""
        alike = [_rates(step, result) for result in self.results.values() if result.get("step") == step.name]
        return [card for card in step.cards if key_of(step, card) in self.results and self._is_doubtful(step, card, alike)]

    def _is_doubtful(self, step: Step, card: str, alike: Sequence[Mapping[str, float]]) -> bool:
        result = self.results[key_of(step, card)]
        if card in self.failed or result["status"] == "fail":
            return card not in self.failed and bool(result.get("mismatches"))
        for label, rate in _rates(step, result).items():
            usual = sorted(other[label] for other in alike if label in other)
            if rate < self.plan.floors.get(label, 0.0) or rate < NEAR * usual[len(usual) // 2]:
                return True
        return False

    def _together(self, step: Step, cards: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Let these cards run a test at once; return each result, those included that their workers did not live to tell."""
        found: dict[str, dict[str, Any]] = {}
        loaded = {
            card: Samples(card)
            for card in {*cards, *(step.to[card] for card in cards if card in step.to), *step.options.get("cards", ())}
        }
        for card in cards:
            self.workers[card].heard_s = time.monotonic()
            self.workers[card].send(self._asked(step, card))
        ends_s, sampled_s = time.monotonic() + 2 * step.seconds + self.silent_s, time.monotonic()
        gone: set[str] = set()
        while waiting := [self.workers[card] for card in cards if card not in found and card not in gone]:
            if source.caught or time.monotonic() > self.guard.ends_s:
                self._stop(step, [worker.address for worker in waiting])
                break
            for worker, line in self._listen(waiting, max(0.01, min(0.2, sampled_s + SAMPLE_S - time.monotonic()))):
                self._heard(step, worker, line, found)
            for worker in waiting:
                if worker.address not in found and self._died(step, worker, ends_s, found):
                    gone.add(worker.address)
            if time.monotonic() >= sampled_s + SAMPLE_S:
                sampled_s = time.monotonic()
                self._sample(step, loaded)
        for card in found:
            found[card]["load"] = loaded[card].told()
        return found

    def _asked(self, step: Step, card: str) -> dict[str, Any]:
        peers = {"peers": [step.to[card]]} if card in step.to else {}
        options = {**step.options, **peers}
        scale = self.scale.get(step.name, self.scale.get(str(options["test"]), {}))
        return scale if "test" in scale else {**options, **scale}

    def _heard(self, step: Step, worker: Worker, line: Mapping[str, Any], found: dict[str, dict[str, Any]]) -> None:
        card = worker.address
        if line["kind"] == "result":
            error = line.get("error") or {}
            fatal = bool(error) and line["status"] == "fail"
            status = "stuck" if error.get("name") == "HUNG" else "lost" if fatal else line["status"]
            found[card] = {name: value for name, value in line.items() if name not in ("kind", "at_s", "test")} | {"status": status}
            if status in ("stuck", "lost") and step.kind != "nccl":  # of a collective nobody knows which card it was
                self.failed[card] = (
                    f"not run: {step.name} before it {'left the card stuck' if status == 'stuck' else 'lost the card'}"
                )
        else:
            rate = " ".join(f"{value:g} {name}" for name, value in line.items() if name.endswith(("tflops", "gbps")))
            self.shown.update(self.plan.labels.get(card, card), test=step.name, rate=rate or str(line.get("pattern", "")))

    def _died(self, step: Step, worker: Worker, ends_s: float, found: dict[str, dict[str, Any]]) -> bool:
        """Tell whether a worker died by another's hand; one that is silent, or at work for too long, is ended as a finding."""
        card = worker.address
        if worker.ended:
            told = f"not finished: {worker.error.get('text') or f'its process {worker.ended} before the test was done'}"
            key = key_of(step, card)
            if key in self.results:
                self.results[key] = merged(self.results[key], {"status": "unknown", "text": told})
            self._lack(step, [card], told)
            return True
        if time.monotonic() > min(worker.heard_s + self.silent_s, ends_s):
            silent_s = time.monotonic() - worker.heard_s
            told = (
                f"the worker told nothing for {silent_s:.0f} s" if silent_s >= self.silent_s else "the test did not end in its time"
            )
            found[card] = {"status": "stuck", "text": f"{told}: its process was killed", "seconds": round(silent_s, 1)}
            if step.kind != "nccl":
                self.failed[card] = f"not run: {step.name} before it left the card stuck"
            worker.end(9)
        return False

    def _stop(self, step: Step, cards: Sequence[str]) -> None:
        why = STOPPED if source.caught else "not finished: the deadline was near"
        self._lack(step, cards, why)
        end_all([self.workers[card] for card in cards])

    def _lack(self, step: Step, cards: Sequence[str], why: str) -> None:
        for card in cards:
            key = key_of(step, card)
            if key not in self.results:
                self.lacks.setdefault(key, Unread(key, "blocked-behind", why))

    def _sample(self, step: Step, loaded: Mapping[str, Samples]) -> None:
        """Ask NVML how the loaded cards are, and the kernel what it has to say."""
        found = self.guard.read([key for card in loaded for key in keys(card)] + [TAIL])
        for card, samples in loaded.items():
            samples.add(found)
            watts = samples.newest("power_w")
            label = self.plan.labels.get(card, card)
            self.shown.update(label, test=step.name, temperature_c=samples.newest("core_c"), power_w=watts and watts / 1000)
        self._log(found, step.name)

    def _log(self, found: Sequence[Reading], name: str) -> None:
        """Keep what the kernel logged, and for each test that somebody looked; of endless lines the first."""
        for reading in found:
            if reading.key != TAIL:
                continue
            lines = [] if reading.error is not None else [line for line in names(reading.value) if MATTERS.search(line)]
            kept = sum(len(other.value or ()) for other in self.readings if other.key == TAIL)
            if (lines and kept < MOST_LINES) or name not in self.followed:
                self.followed.add(name)
                value = lines[: MOST_LINES - kept] if reading.error is None else None
                self.readings.append(reading._replace(value=value, phase=name))

    def _count(self, phase: str) -> None:
        """Read the error counters; what differs from the last time is kept, and tells in which test it grew."""
        for reading in self.guard.read([*self.counting, TAIL]):
            if reading.key == TAIL:
                self._log([reading], phase.removeprefix("after:"))
            elif reading.error is not None and reading.error.kind == "blocked-behind":
                continue  # the time is up, or a signal came: what was read before is what is known
            elif reading.error is not None or self.counters.get(reading.key) != reading.value:
                self.counters[reading.key] = reading.value
                self.readings.append(reading._replace(phase=phase))


def burn(load: Load, children: Mapping[str, source.Child], options: Options) -> Recording:
    """Burn this machine's cards in and return what was found; called in the scan's own process."""
    guard = Guard(children, options, lambda _key, _seconds: None)
    labels = [load.plan.labels.get(card, card) for card in load.plan.cards]
    shown = Progress(labels, sys.stderr, expected_s=load.plan.expected_s)
    kept: Callable[[Recording], None] = (lambda done: save(done, load.checkpoint)) if load.checkpoint else lambda done: None
    work = Burn(load.plan, guard, shown, load.known, kept)
    try:
        work.run(load.before)
    finally:
        guard.close()
    found = work.recording()
    if source.caught:
        found.meta["ended_by_signal"] = int(source.caught[0])
    return found


def _counting(known: Recording, cards: Sequence[str]) -> list[str]:
    """Return the counters' keys: those that a scan reads twice, and those of memory errors."""
    errors = [key for key in known.keys() if key.startswith("nvml:") and key[5:].split("(")[0] in COUNTS]  # noqa: SIM118
    return [key for key in [*errors, *again(known)] if key in known and any(card in key for card in cards)]


def _rates(step: Step, result: Mapping[str, Any]) -> dict[str, float]:
    from gpuscan.burnin.rates import rates

    return rates(step.kind, step.name, result.get("options", {}), result.get("numbers", {}))


def _cpus(text: str) -> tuple[int, ...]:
    """Parse a list of processors: `0-2,96` is 0, 1, 2 and 96.

    >>> _cpus("0-2,96")
    (0, 1, 2, 96)
    """
    found: list[int] = []
    for part in text.strip().split(",") if text.strip() else ():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    allowed = os.sched_getaffinity(0)
    return tuple(cpu for cpu in found if cpu in allowed)
