"""A burn-in as a command wants it: planned from the scan before it, run in a process of its own,
added to the recording.
"""

import os
import shutil
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from gpuscan import __version__, collectors
from gpuscan.burnin.plan import END, START_S, Plan, planned, told, with_tools
from gpuscan.burnin.request import BurnInOptions
from gpuscan.burnin.scheduler import Before, Load, burn
from gpuscan.durations import format_moment
from gpuscan.engine import judging
from gpuscan.errors import GpuscanError, UsageError, complain
from gpuscan.live.machine import ScanOptions
from gpuscan.live.scanner import Request, Scanner
from gpuscan.model import Unread, is_unread, read_or
from gpuscan.model.select import select_gpus
from gpuscan.recording import Reading, Recording, is_plausible_time, load, save

LEAST_S = 10.0
AFTER_S = 10.0  # of a deadline that was given: for reading the GPUs once more


def run_burnin(
    scan: ScanOptions, wish: BurnInOptions, recording: Recording, wanted: judging.Plan
) -> int:
    """Burn the node's GPUs in, add what was found to their recording; return the signal that cut
    it short, 0 if none did.
    """
    scanned_s, began_s = recording.meta.duration_s or 0.0, time.monotonic()
    plan = _planned(wish, recording, wanted)
    if scan.deadline_s is not None:
        left_s = scan.deadline_s - scanned_s
        plan = plan._replace(
            deadline_s=max(min(plan.deadline_s, left_s - min(AFTER_S, left_s / 4)), 1.0)
        )
    recording.meta = recording.meta._replace(level=plan.level)
    recording.widen(["burnin:*", "tail:*"])
    if os.environ.get("GPUSCAN_BURNIN_SCALE"):
        recording.meta = recording.meta._replace(drill=True)
    recording.add(Reading("burnin:plan()", told(plan), None, time.time()))
    for gpu, why in plan.refused.items():
        recording.add(
            Reading(
                f"burnin:open({gpu})",
                None,
                Unread("", "blocked-behind", f"not run: {why}"),
                time.time(),
            )
        )
    if not plan.steps:
        return 0
    mark = _mark(plan, recording) if wish.checkpoint else {}
    before = _before(wish, mark)
    plan = (
        plan._replace(deadline_s=plan.deadline_s - min(before.spent_s, plan.rounds_s))
        if scan.deadline_s is None
        else plan
    )
    complain(_announced(plan, before))
    if before.spent_s:
        done = _minutes(before.spent_s)
        began = format_moment(before.began_at)
        resumed = f"its first {done} were done in a call that began {began}"
        recording.meta = recording.meta._replace(resumed=resumed)
    loads = Load(plan, recording, before, wish.checkpoint, mark)
    found, stopped = Scanner(
        Request(scan.root, scan.driver_root, plan.deadline_s, load=partial(burn, loads))
    ).finish()
    recording.meta = recording.meta._replace(engine=found.meta.engine or {})
    for reading in found if found.meta.engine is not None else _left_behind(wish):
        recording.add(reading)
    if not stopped:
        keys = tuple(collectors.after_load(recording))
        spent_s = 0.0 if scan.deadline_s is None else scanned_s + time.monotonic() - began_s
        left_s = max(scan.limit_s() - spent_s, 1.0)
        anew, stopped = Scanner(Request(scan.root, scan.driver_root, left_s, keys=keys)).finish()
        for reading in anew:
            recording.add(reading._replace(phase="after"))
    if stopped:
        recording.meta = recording.meta._replace(ended_by_signal=stopped)
        if wish.checkpoint:
            complain(
                f"gpuscan: {wish.checkpoint} has what was done: run the same command again to go on"
            )
    spent_s = round(scanned_s + time.monotonic() - began_s, 3)
    recording.meta = recording.meta._replace(duration_s=spent_s)
    return stopped


def require_burnin_checks(wanted: judging.Plan) -> None:
    """Raise UsageError where the GPUs would be loaded, and no check is left that judges it."""
    if not any(
        check.id.startswith("burnin.") and check.id not in wanted.skipped for check in wanted.checks
    ):
        raise UsageError(
            "--level loads the GPUs, and by --only and --skip no check of the burn-in is left: leave --level out"
        )


def remove_finished_checkpoint(wish: BurnInOptions, recording: Recording) -> None:
    """Remove the checkpoint of a burn-in that was done, once its report is out: what is lost
    before that is not burnt in anew.
    """
    done = (
        END in recording
        and not is_unread(recording.get(END))
        and recording.meta.ended_by_signal is None
    )
    if not done or not os.path.exists(wish.checkpoint):
        return
    try:
        os.unlink(wish.checkpoint)
    except OSError as error:
        complain(
            f"gpuscan: {wish.checkpoint}: {error.strerror or error}: remove it, or the next burn-in is taken for done"
        )


def _planned(wish: BurnInOptions, recording: Recording, wanted: judging.Plan) -> Plan:
    node = collectors.node(recording)
    chosen, _ = judging.profile_of(recording, node, wanted)
    whole = () if is_unread(node.gpus) else node.gpus
    if wanted.want.gpus:
        node = select_gpus(node, judging.gpus_named(wanted.want.gpus))
    beside = [] if is_unread(node.gpus) else [gpu for gpu in whole if gpu not in node.gpus]
    floors = {
        label: floor
        for label, floor in chosen.data["burnin"].items()
        if isinstance(floor, (int, float))
    }
    every = {**floors, **(chosen.data["burnin"]["nccl"] or {})}
    return with_tools(
        planned(node, wish, every, tools=not wanted.want.gpus, beside=beside), shutil.which
    )


def _announced(plan: Plan, before: Before) -> str:
    """Say before it begins what will be done and how long it may take."""
    left_s = max(plan.expected_s - before.spent_s, LEAST_S)
    resumed = (
        f" (resumed after {_minutes(before.spent_s)}, begun {format_moment(before.began_at)})"
        if before.spent_s
        else ""
    )
    gpus = f"{len(plan.gpus)} GPU{'s' if len(plan.gpus) > 1 else ''}"
    short = (
        "; maybe too short a time to finish: what is cut off is incomplete"
        if plan.deadline_s < left_s - START_S
        else ""
    )
    return f"gpuscan: level {plan.level} on {gpus}{resumed}: about {_minutes(left_s)}, at most {_minutes(plan.deadline_s)}{short}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 180 else f"{seconds:.0f} s"


def _left_behind(wish: BurnInOptions) -> Recording:
    """Return what the checkpoint has of a burn-in whose process was killed: the same command goes
    on from there.
    """
    if not wish.checkpoint:
        return Recording({}, [])
    complain(
        f"gpuscan: the burn-in was killed; {wish.checkpoint} has what was done: run the same command again to go on"
    )
    return load(wish.checkpoint)


def _mark(plan: Plan, recording: Recording) -> dict[str, Any]:
    """Return what tells this burn-in from any other: the GPUs by UUID, what is done to them and by
    which version.

    Raises UsageError where a GPU's UUID is not known: another GPU at its address would be taken
    for tested.
    """
    node = collectors.node(recording)
    uuids = {gpu.address: gpu.uuid for gpu in read_or(node.gpus, ()) if gpu.address in plan.gpus}
    silent = [address for address, uuid in uuids.items() if is_unread(uuid)]
    if silent:
        raise UsageError(
            f"--checkpoint: the UUID of {silent[0]} was not read: which GPU was tested could not be told later"
        )
    wanted = {"level": plan.level, "rounds_s": plan.rounds_s, "keys": told(plan)["keys"]}
    return {
        **wanted,
        "uuids": uuids,
        "version": __version__,
        "drill": os.environ.get("GPUSCAN_BURNIN_SCALE", ""),
    }


def _before(wish: BurnInOptions, mark: Mapping[str, Any]) -> Before:
    """Return what the checkpoint has done, or begin one; UsageError where it is of another
    burn-in, or cannot be written.
    """
    empty = Before(Recording({}, []), began_at=round(time.time(), 3))
    file = wish.checkpoint
    if not file:
        return empty
    if not os.path.exists(file):
        nothing = {
            "of": dict(mark),
            "rounds": 0,
            "steps": 0,
            "spent_s": 0.0,
            "began_at": empty.began_at,
        }
        save(Recording({"checkpoint": nothing}, []), file)
        return empty
    try:
        kept = load(file)
        done = dict(kept.meta.checkpoint or {})
        if not (is_plausible_time(done["began_at"]) and is_plausible_time(done["spent_s"])):
            raise ValueError(f"it began at {done['began_at']!r} and took {done['spent_s']!r} s")
        differ = sorted(
            name for name in {*mark, *done["of"]} if mark.get(name) != done["of"].get(name)
        )
        found = Before(
            kept,
            int(done["rounds"]),
            int(done["steps"]),
            float(done["spent_s"]),
            float(done["began_at"]),
        )
    except (GpuscanError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{file}: no checkpoint of a burn-in ({error}): name another file, or remove it to begin anew"
        ) from None
    if differ:
        raise UsageError(
            f"{file}: the checkpoint of another burn-in ({', '.join(differ)} differ): remove it to begin anew"
        )
    return found
