"""A burn-in as a command runs it: planned from the scan before it, run in a process of its own, and
added to the scan's recording.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from gpuscan import collectors
from gpuscan.burnin.checkpoint import EarlierWork, identify, start_checkpoint
from gpuscan.burnin.plan import (
    END_KEY,
    START_S,
    BurnInPlan,
    add_tool_times,
    make_plan,
    plan_reading,
)
from gpuscan.burnin.proving import Wish, add_proof, make_proof
from gpuscan.burnin.request import INSTALL, BurnInOptions, has_cuda_binding
from gpuscan.burnin.scheduler import BurnInJob, run_job
from gpuscan.burnin.tools import run
from gpuscan.durations import format_moment
from gpuscan.engine import judging
from gpuscan.engine.proving import ask_all, ask_named, refuse_unknown, told_not_held
from gpuscan.errors import UsageError, complain
from gpuscan.live.machine import ScanOptions
from gpuscan.live.scanner import Request, Scanner
from gpuscan.model import Held, Unread, is_unread
from gpuscan.model.proof import PROOF
from gpuscan.model.select import select_gpus
from gpuscan.recording import Reading, Recording, load

NO_RATE = (
    "--confidence: nothing tells how often these faults come, so the proof takes its usual time"
    " and gives no confidence"
)
MIN_EXPECTED_S = 10.0
REREAD_S = 10.0  # of a deadline that was given: to read the GPUs once more


def run_burnin(
    scan: ScanOptions,
    options: BurnInOptions,
    recording: Recording,
    selection: judging.Plan,
    held: Sequence[Held] = (),
) -> int:
    """Burn in the node's GPUs at a level, exercise besides what it was *held* for, and add what was
    found to their recording.

    Returns the signal that cut it short, 0 if none did.
    """
    plan = _plan(options, recording, selection)
    if held and plan.steps:
        plan = add_proof(plan, ask_all(collectors.node(recording), held))
    return carry_out(add_tool_times(plan, run.program), scan, options, recording)


def run_proof(
    scan: ScanOptions, wish: Wish, recording: Recording, elsewhere: Callable[[], Iterable[str]]
) -> int:
    """Exercise what is wished for, and add what was found to this node's recording.

    Returns the signal that cut it short, 0 if none did. Raises UsageError where nothing is held,
    with what is held *elsewhere*, and where GPUs are to be loaded without NVIDIA's binding.
    """
    node = collectors.node(recording)
    held = ask_all(node)
    parts = wish.parts
    refuse_unknown(node, parts)
    if wish.hold or not parts:
        if not held and (is_unread(node.past) or node.past.unread_holds):
            return 0  # what is held is not known: the judgement says so
        if not held:
            raise UsageError(
                "prove: nothing is held on this node: --part names a part to exercise, and gpuscan"
                " run --level quick exercises all of them",
                *told_not_held(node),
                *elsewhere(),
            )
        parts = (*(one.subject for one in held), *parts) if parts else ()
    asked = ask_named(node, parts) if parts else held
    if wish.confidence and not any(one.rate for one in asked):
        complain(f"gpuscan: {NO_RATE}")
    plan = make_proof(node, asked, wish)
    if plan.steps and not has_cuda_binding():
        raise UsageError(f"prove: needs NVIDIA's binding of the CUDA driver: {INSTALL}")
    plan = add_tool_times(plan._replace(parts=parts), run.program)
    return carry_out(plan, scan, BurnInOptions(force=wish.force), recording)


def carry_out(
    plan: BurnInPlan, scan: ScanOptions, options: BurnInOptions, recording: Recording
) -> int:
    """Do what is planned, and add what was found to the recording of the scan before it.

    Returns the signal that cut it short, 0 if none did.
    """
    scanned_s, began_s = recording.meta.duration_s or 0.0, time.monotonic()
    plan = limit_deadline(plan, scan.deadline_s, scanned_s)
    _note_plan(plan, recording)
    if not (plan.steps or plan.tools):
        return 0
    identity = identify(plan, recording) if options.checkpoint else {}
    earlier = start_checkpoint(options.checkpoint, identity)
    if scan.deadline_s is None:
        spent_s = min(earlier.spent_s, plan.rounds_s)
        plan = plan._replace(deadline_s=plan.deadline_s - spent_s)
    complain(announce(plan, earlier))
    if earlier.spent_s:
        done, began = _format_minutes(earlier.spent_s), format_moment(earlier.began_at)
        resumed = f"its first {done} ran in a call begun {began}"
        recording.meta = recording.meta._replace(resumed=resumed)
    job = BurnInJob(plan, recording, earlier, options.checkpoint, identity)
    request = Request(scan.root, scan.driver_root, plan.deadline_s, load=partial(run_job, job))
    burnt, stopped = Scanner(request).finish()
    was_killed = burnt.meta.engine is None
    recording.meta = recording.meta._replace(engine=burnt.meta.engine or {})
    for reading in _load_left_behind(options) if was_killed else burnt:
        recording.add(reading)
    if not stopped:
        elapsed_s = scanned_s + time.monotonic() - began_s
        stopped = _reread(scan, recording, elapsed_s)
    if stopped:
        recording.meta = recording.meta._replace(ended_by_signal=stopped)
        if options.checkpoint:
            complain(f"gpuscan: {_progress_saved(options)}")
    duration_s = round(scanned_s + time.monotonic() - began_s, 3)
    recording.meta = recording.meta._replace(duration_s=duration_s)
    return stopped


def limit_deadline(plan: BurnInPlan, given_s: float | None, scanned_s: float) -> BurnInPlan:
    """Return the plan within a deadline that was given, which includes the scans around it."""
    if given_s is None:
        return plan
    left_s = given_s - scanned_s
    left_s -= min(REREAD_S, left_s / 4)
    return plan._replace(deadline_s=max(min(plan.deadline_s, left_s), 1.0))


def _note_plan(plan: BurnInPlan, recording: Recording) -> None:
    """Add to the recording what is planned, and which GPUs are not tested."""
    recording.meta = recording.meta._replace(level=plan.level)
    recording.widen(["burnin:*", "tail:*"])
    recording.add(Reading("burnin:plan()", plan_reading(plan), None, time.time()))
    for gpu, why in plan.refused.items():
        error = Unread("", "blocked-behind", f"not run: {why}")
        recording.add(Reading(f"burnin:open({gpu})", None, error, time.time()))


def _reread(scan: ScanOptions, recording: Recording, elapsed_s: float) -> int:
    """Read once more what a burn-in may change; return the signal that cut it short, or 0."""
    keys = tuple(collectors.after_load(recording))
    left_s = scan.limit_s()
    if scan.deadline_s is not None:
        left_s = max(left_s - elapsed_s, 1.0)
    request = Request(scan.root, scan.driver_root, left_s, keys=keys)
    after, stopped = Scanner(request).finish()
    for reading in after:
        recording.add(reading._replace(phase="after"))
    return stopped


def require_burnin_checks(selection: judging.Plan) -> None:
    """Raise UsageError where the GPUs would be loaded, but no check judges the result."""
    checks = [check for check in selection.checks if check.id.startswith("burnin.")]
    if all(check.id in selection.skipped for check in checks):
        raise UsageError("--only/--skip deselect every burn-in check, so --level has no effect")


def remove_finished_checkpoint(options: BurnInOptions, recording: Recording) -> None:
    """Remove the checkpoint of a finished burn-in, once its report is out."""
    is_done = (
        END_KEY in recording
        and not is_unread(recording.get(END_KEY))
        and recording.meta.ended_by_signal is None
    )
    if not is_done or not os.path.exists(options.checkpoint):
        return
    try:
        os.unlink(options.checkpoint)
    except OSError as error:
        complain(
            f"gpuscan: {options.checkpoint}: {error.strerror or error}: "
            "delete it, or the next burn-in will resume from it"
        )


def _plan(options: BurnInOptions, recording: Recording, selection: judging.Plan) -> BurnInPlan:
    node = collectors.node(recording)
    chosen, _ = judging.profile_of(recording, node, selection)
    all_gpus = () if is_unread(node.gpus) else node.gpus
    names = selection.want.gpus
    if names:
        node = select_gpus(node, judging.parse_gpu_names(names))
    tested = () if is_unread(node.gpus) else node.gpus
    beside = [] if is_unread(node.gpus) else [gpu for gpu in all_gpus if gpu not in tested]
    burnin = chosen.data["burnin"]
    floors = {label: floor for label, floor in burnin.items() if isinstance(floor, (int, float))}
    floors |= burnin["nccl"] or {}
    return make_plan(node, options, floors, tools=not names, beside=beside)


def announce(plan: BurnInPlan, earlier: EarlierWork) -> str:
    """Return what will be done and how long it may take."""
    left_s = max(plan.expected_s - earlier.spent_s, MIN_EXPECTED_S)
    gpus = f"{len(plan.gpus)} GPU{'s' if len(plan.gpus) > 1 else ''}"
    what = "proof" if plan.level == PROOF else f"level {plan.level}"
    what += f" on {gpus}" if plan.gpus else ""
    if earlier.spent_s:
        began = format_moment(earlier.began_at)
        what += f" (resumed after {_format_minutes(earlier.spent_s)}, begun {began})"
    text = f"gpuscan: {what}: about {_format_minutes(left_s)}"
    text += f", at most {_format_minutes(plan.deadline_s)}"
    if plan.deadline_s < left_s - START_S:
        text += "; this may be too short to finish, and the report would be incomplete"
    return text


def _format_minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 180 else f"{seconds:.0f} s"


def _progress_saved(options: BurnInOptions) -> str:
    return f"progress is saved in {options.checkpoint}: rerun the same command to resume"


def _load_left_behind(options: BurnInOptions) -> Recording:
    """Return what the checkpoint has of a burn-in whose process was killed."""
    if not options.checkpoint:
        return Recording({}, [])
    complain(f"gpuscan: the burn-in was killed; {_progress_saved(options)}")
    return load(options.checkpoint)
