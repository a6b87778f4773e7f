"""What lifts a hold, as a property: random lives of a node against a table of the rule."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from building import was_read
from over_time import EIGHT

from gpuscan import profile
from gpuscan.collectors import node as collect
from gpuscan.engine.case import Case
from gpuscan.engine.hold import apply_holds, hold_after
from gpuscan.model import Gpu, Held, Node, Past, Port, Tried
from gpuscan.model.gpu import Counter
from gpuscan.model.outcome import (
    ACTIONS,
    LEVELS,
    Action,
    Evidence,
    Finding,
    Result,
    SkipReason,
    Status,
)
from gpuscan.model.report_rows import NotJudged, RunInfo
from gpuscan.model.subject import NODE, Subject
from gpuscan.recording import load

LIVES = int(os.environ.get("GPUSCAN_LIVES", "1200"))
BASE = collect(load(EIGHT))
PROFILE = profile.load("h100-8x")
GPU, OTHER, PORT = "SXM4", "SXM3", "mlx5_3/1"
SPARE_SERIAL = "1650000000999"
SERIAL = next(gpu.serial for gpu in was_read(BASE.gpus) if gpu.label == GPU)
SETTLE_S = 600.0
CHECK = {"gpu": "x.gpu", "port": "x.port", "node": "x.node", "log": "x.log"}
PARTS = {"gpu": GPU, "log": GPU, "port": PORT, "node": ""}

# the rule, by what was asked for: which declared work is a proof of it, whether a later boot is
# one, and whether the passing check alone is
PROOFS: dict[Action, tuple[tuple[str, ...], bool, bool]] = {
    Action.FIX_CONFIG: ((), False, True),
    Action.INVESTIGATE: ((), False, True),
    Action.RESET_GPU: ((), False, True),
    Action.REBOOT: (("reboot", "power-cycle", "reseat", "replace"), True, False),
    Action.POWER_CYCLE: (("power-cycle", "reseat", "replace"), True, False),
    Action.INSPECT: (("reseat", "replace"), True, False),
}
WORKS = ("", "reset", "reboot", "power-cycle", "reseat", "replace")


@dataclass(frozen=True)
class Step:
    """One run: what was done before it, how it looked, and what it saw of the part."""

    outcome: str  # of the part's check: fail, pass, open (the profile leaves it), left (not judged)
    action: Action = Action.INSPECT  # where it fails
    scope: str = "full"  # full, narrowed, incomplete
    level: str = "passive"
    expected: int = 16  # the profile's value
    place: str = "here"  # here, moved, replaced, gone
    count: int | None = 8  # of GPUs, as the profile states it
    boot: int = 0
    work: str = ""
    at_s: float = 0.0
    downs: int = 0  # of the port's link


@dataclass
class Model:
    """The rule, kept apart from the code: what is held, and what it was last found with."""

    kind: str
    held: Action | None = None
    level: str = "passive"
    boot: int = 0
    seen_s: float = 0.0
    expected: int = 16
    asleep: bool = False
    downs: int = 0
    works: list[tuple[str, float]] = field(default_factory=list)

    def after(self, step: Step) -> None:
        if step.work:
            self.works.append((step.work, step.at_s))
        if self.held and self.kind == "port" and step.downs > self.downs:
            self.seen_s, self.downs = step.at_s, step.downs
        if self.held and step.place in ("here", "moved"):
            self.asleep = False
        if step.outcome == "fail" and step.place == "here":
            heavier = max(self.held or step.action, step.action, key=lambda one: one.rank)
            self.expected = step.expected if heavier is step.action else self.expected
            self.level = max(self.level if self.held else step.level, step.level, key=LEVELS.index)
            self.held, self.boot, self.seen_s, self.asleep = heavier, step.boot, step.at_s, False
            self.downs = step.downs
        elif self.held and step.scope == "full" and step.outcome != "fail":
            if self.lifted(step):
                self.held = None
            elif step.place == "gone" and self.kind in ("gpu", "log"):
                self.asleep = step.count == 7

    def lifted(self, step: Step) -> bool:
        assert self.held
        if step.place == "gone":
            return False
        if self.held is Action.REPLACE and step.place == "replaced":
            return True
        if LEVELS.index(step.level) < LEVELS.index(self.level) or step.outcome != "pass":
            return False
        if step.expected != self.expected:
            return True
        if self.held is Action.REPLACE:
            return False
        works, booted, alone = PROOFS[self.held]
        done = any(work in works for work, at_s in self.works if at_s > self.seen_s)
        settled = self.kind == "port" and step.at_s - self.seen_s >= SETTLE_S
        later = step.boot != self.boot
        return alone or done or (booted and later) or settled or step.place == "replaced"


def gpus_of(step: Step) -> tuple[Gpu, ...]:
    gpus = {gpu.label: gpu for gpu in was_read(BASE.gpus)}
    mine, other = gpus[GPU], gpus[OTHER]
    if step.place == "replaced":
        gpus[GPU] = mine._replace(serial=SPARE_SERIAL)
    if step.place == "moved":
        gpus[GPU] = mine._replace(serial=other.serial)
        gpus[OTHER] = other._replace(serial=mine.serial)
    if step.place == "gone":
        del gpus[GPU]
    return tuple(gpus.values())


def ports_of(step: Step) -> tuple[Port, ...]:
    return tuple(
        port._replace(link_downed=Counter(step.downs, 0)) if port.label == PORT else port
        for port in was_read(BASE.ports)
    )


def node_of(step: Step, held: tuple[Held, ...], works: list[Tried]) -> Node:
    past = Past(step.at_s, 1, (), tuple(works), (), (), held)
    return BASE._replace(
        gpus=gpus_of(step),
        ports=ports_of(step),
        host=BASE.host._replace(boot_id=f"boot-{step.boot}"),
        past=past,
    )


def result(check: str, about: Subject, step: Step, outcome: str) -> Result:
    evidence = (Evidence("profile.gpu.pcie_width", step.expected, ()),)
    status = {"fail": Status.FAIL, "pass": Status.PASS, "open": Status.SKIP}[outcome]
    reason = SkipReason.NOT_JUDGED if outcome == "open" else None
    findings = (Finding(Status.FAIL, "wrong", step.action),) if outcome == "fail" else ()
    return Result(check, about, status, "", "", findings, evidence, skip_reason=reason)


def results_of(kind: str, step: Step) -> tuple[Result, ...]:
    """The check on the part, where that is, and on parts that are well."""
    check, rows = CHECK[kind], []
    places = {"here": GPU, "replaced": GPU, "moved": OTHER}
    addresses = {gpu.label: gpu.address for gpu in was_read(BASE.gpus)}
    outcome = step.outcome
    if kind == "gpu":
        label = places.get(step.place)
        rows += [
            result(check, Subject("gpu", one, addresses[one]), step, "pass")
            for one in addresses
            if one not in (label, GPU)
        ]
        if step.place == "moved":
            rows.append(result(check, Subject("gpu", GPU, addresses[GPU]), step, "pass"))
        about = Subject("gpu", label or "", addresses.get(label or ""))
    elif kind == "log":
        about = Subject("incident", "Xid 119 on SXM4", addresses[GPU], "xid:119")
        if outcome == "pass":  # the log is whole, and holds another GPU's application error
            about = Subject("incident", "Xid 13 on SXM3", addresses[OTHER], "xid:13")
    else:
        others = (
            [port.label for port in was_read(BASE.ports) if port.label != PORT]
            if kind == "port"
            else []
        )
        rows += [result(check, Subject("port", one), step, "pass") for one in others]
        about = Subject("port", PORT) if kind == "port" else NODE
    if outcome != "left" and (step.place != "gone" or kind not in ("gpu",)):
        rows.append(result(check, about, step, outcome))
    rows.append(result("y.other", NODE, step, "pass"))
    if step.scope == "incomplete":
        rows.append(Result("y.unread", NODE, Status.UNKNOWN, ""))
    return tuple(rows)


def case_of(step: Step, node: Node) -> Case:
    data = {**PROFILE.data, "gpu": {**PROFILE.data["gpu"], "count": step.count}}
    narrowed = step.scope == "narrowed"
    run = RunInfo(level=step.level, limited_to=("--only y",) if narrowed else ())
    left_out = (NotJudged("all but y", "--only y"),) if narrowed else ()
    return Case(node, PROFILE._replace(data=data), (), run=run, left_out=left_out)


def random_life(chance: random.Random, kind: str) -> list[Step]:
    """A fault, then runs after this and that; most steps are plain, so that holds are lifted."""
    rank = list(PROOFS) + [Action.REPLACE]
    action = chance.choice(rank)
    first = Step("fail", action, level=chance.choice(LEVELS[:2]))
    steps = [first]
    for _ in range(chance.randint(1, 5)):
        last = steps[-1]
        gpu = kind in ("gpu", "log")
        place = chance.choice(("here", "here", "here", "moved", "replaced", "gone"))
        count = chance.choice((8, 8, None))
        step = Step(
            outcome=chance.choice(("pass", "pass", "pass", "pass", "fail", "open", "left")),
            action=chance.choice(rank),
            scope=chance.choice(("full", "full", "full", "full", "narrowed", "incomplete")),
            level=chance.choice((last.level, *LEVELS[:2])),
            expected=chance.choice((last.expected, last.expected, last.expected, 8)),
            place=place if gpu else "here",
            count=count if place != "gone" or not gpu else chance.choice((8, 7, None)),
            boot=last.boot + chance.choice((0, 0, 1)),
            work=chance.choice(("", "", *WORKS)),
            at_s=last.at_s + chance.choice((60.0, 300.0, SETTLE_S, 3600.0)),
            downs=last.downs + chance.choice((0, 0, 0, 1)),
        )
        # a part that is not here cannot fail; in a log, a part that is not here is not named
        steps.append(replace(step, outcome="pass") if _is_odd(step) else step)
    return steps


def _is_odd(step: Step) -> bool:
    return step.place != "here" and step.outcome == "fail"


def told(held: tuple[Held, ...]) -> dict[str, Any] | None:
    """What is held on the part: the heaviest code, and whether it sleeps."""
    if not held:
        return None
    (one,) = held
    return {"code": one.code, "asleep": getattr(one, "asleep", False)}


def first_difference(kind: str, steps: list[Step]) -> str:
    """Live through the steps; return where code and rule part, "" where they never do."""
    model = Model(kind)
    held: tuple[Held, ...] = ()
    works: list[Tried] = []
    for number, step in enumerate(steps):
        if step.work:
            works.append(Tried(step.work, step.at_s, "--tried"))
        case = case_of(step, node_of(step, held, works))
        results = results_of(kind, step)
        shown = [one for one in apply_holds(case, results) if one.check == "history.hold"]
        held = hold_after(case, results)
        model.after(step)
        code = ACTIONS[model.held].exit_code if model.held else 0
        rule = {"code": code, "asleep": model.asleep} if model.held else None
        own = ACTIONS[step.action].exit_code if step.outcome == "fail" else 0
        if told(held) != rule:
            return f"step {number}: {told(held)}, by the rule {rule}"
        if code > own and not model.asleep and not shown:
            return f"step {number}: the hold of {code} is not reported"
        if model.asleep and shown:
            return f"step {number}: a hold that sleeps is reported"
    return ""


@pytest.mark.sweep
@pytest.mark.parametrize("kind", sorted(CHECK))
def test_a_hold_is_lifted_when_and_only_when_the_rule_says_so(kind: str) -> None:
    chance = random.Random(f"lifting {kind}")  # noqa: S311
    wrong = []
    for _ in range(LIVES // len(CHECK)):
        steps = random_life(chance, kind)
        difference = first_difference(kind, steps)
        if difference:
            wrong.append((len(steps), difference, steps))
    shortest = min(wrong, key=lambda one: one[0], default=None)
    assert not wrong, f"{len(wrong)} of {LIVES // len(CHECK)} lives: {shortest}"
