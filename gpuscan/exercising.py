"""A burn-in as a command wants it: planned from the scan before it, run in a process of its own, added to the recording."""

import os
import shutil
import time

from gpuscan import collectors, judging, profile
from gpuscan.burnin.levels import Plan, planned, told, with_tools
from gpuscan.burnin.wish import Wish
from gpuscan.errors import GpuscanError, UsageError, complain
from gpuscan.facts import Unread
from gpuscan.recording import Reading, Recording, load
from gpuscan.scanning import Machine
from gpuscan.source.burning import Before, Load
from gpuscan.source.scanner import DEADLINE_S, Request, Scanner

LEAST_S = 10.0


def exercised(machine: Machine, recording: Recording, wanted: judging.Plan) -> int:
    """Burn the node's cards in, add what was found to their recording; return the signal that cut it short, 0 if none did."""
    plan = _planned(machine.wish, machine.deadline_s, recording, wanted)
    recording.meta["level"] = plan.level
    recording.widen(["burnin:*", "tail:*"])
    if os.environ.get("GPUSCAN_BURNIN_SCALE"):
        recording.meta["drill"] = True
    recording.add(Reading("burnin:plan()", told(plan), None, time.time()))
    for card, why in plan.refused.items():
        recording.add(Reading(f"burnin:open({card})", None, Unread("", "blocked-behind", f"not run: {why}"), time.time()))
    if not plan.steps:
        return 0
    before = _before(machine.wish, plan)
    complain(_announced(plan, before))
    loads = Load(plan, recording, before, machine.wish.checkpoint)
    found, stopped = Scanner(Request(machine.root, machine.driver_root, plan.deadline_s, load=loads)).finish()
    recording.meta["engine"] = found.meta.get("engine", {})
    for reading in found:
        recording.add(reading)
    if not stopped:
        keys = tuple(collectors.after_load(recording))
        anew, stopped = Scanner(Request(machine.root, machine.driver_root, machine.deadline_s, keys=keys)).finish()
        for reading in anew:
            recording.add(reading._replace(phase="after"))
    if stopped:
        recording.meta["ended_by_signal"] = stopped
    elif machine.wish.checkpoint and os.path.exists(machine.wish.checkpoint):
        os.unlink(machine.wish.checkpoint)  # all of it is done, and in the recording
    made_at = recording.meta.get("made_at")
    recording.meta["duration_s"] = round(time.time() - made_at, 3) if isinstance(made_at, (int, float)) else None
    return stopped


def _planned(wish: Wish, deadline_s: float, recording: Recording, wanted: judging.Plan) -> Plan:
    node = collectors.node(recording)
    chosen, _ = judging.profile_of(recording, node, wanted)
    if wanted.want.gpus:
        node = profile.only_gpus(node, judging.cards_named(wanted.want.gpus))
    floors = {label: floor for label, floor in chosen.data["burnin"].items() if isinstance(floor, (int, float))}
    every = {**floors, **(chosen.data["burnin"]["nccl"] or {})}
    plan = with_tools(planned(node, wish, every, tools=not wanted.want.gpus), shutil.which)
    return plan if deadline_s == DEADLINE_S else plan._replace(deadline_s=min(plan.deadline_s, deadline_s))


def _announced(plan: Plan, before: Before) -> str:
    """Say before it begins what will be done and how long it may take."""
    left_s = max(plan.expected_s - before.spent_s, LEAST_S)
    resumed = f" (resumed after {_minutes(before.spent_s)})" if before.spent_s else ""
    cards = f"{len(plan.cards)} card{'s' if len(plan.cards) > 1 else ''}"
    words = f"level {plan.level} on {cards}{resumed}: about {_minutes(left_s)}, at most {_minutes(plan.deadline_s)}"
    return f"gpuscan: {words}; nothing is installed, set or reset"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 180 else f"{seconds:.0f} s"


def _before(wish: Wish, plan: Plan) -> Before:
    """Return what the checkpoint has done already; UsageError where it is of another burn-in."""
    if not wish.checkpoint or not os.path.exists(wish.checkpoint):
        return Before(Recording({}, []))
    file = wish.checkpoint
    try:
        kept = load(file)
        done = kept.meta["checkpoint"]
        same = (done["level"], tuple(done["cards"]), done["rounds_s"]) == (plan.level, plan.cards, plan.rounds_s)
        found = Before(kept, int(done["rounds"]), int(done["steps"]), float(done["spent_s"]))
    except (GpuscanError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file}: no checkpoint of a burn-in ({error}): name another file, or remove it to begin anew") from None
    if not same:
        raise UsageError(f"{file}: the checkpoint of another burn-in (level, cards or duration differ): remove it to begin anew")
    return found
