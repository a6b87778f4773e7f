"""`gpuscan swap begin` and `swap verify`: the node before a part is pulled, and the proof that the
right one is back.
"""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuscan import collectors
from gpuscan.engine import hold, judging
from gpuscan.engine.blame import Target
from gpuscan.engine.judging import Selection
from gpuscan.engine.report import Report
from gpuscan.engine.suite import aliases
from gpuscan.errors import GpuscanError, UsageError, complain
from gpuscan.live.machine import ScanOptions, scan_machine
from gpuscan.model import Held, Node
from gpuscan.model.outcome import FAILED, LEVELS, Action, Result, Status
from gpuscan.model.subject import NODE
from gpuscan.recording import Recording, load
from gpuscan.state.access import HistoryOptions, load_history
from gpuscan.state.place import StateError
from gpuscan.state.store import Store, proves
from gpuscan.swap.compare import SwapOptions, compare_recordings
from gpuscan.swap.expect import PART, RESEATED, parse_expectations
from gpuscan.swap.worksheet import PartToPull, find_part_to_pull, render_worksheet
from gpuscan.tickets import evidence

ACTION = {"cable": Action.INSPECT}  # what the hold asks for; all other parts are to be replaced
PROOF = "swap.is_proven"
RESEAT = "reseat"  # the work that `=reseated` declares, as --tried does


class Asked(NamedTuple):
    """What `swap begin` was asked: the ticket, the parts' words, seconds for nvidia-bug-report.sh,
    the sheet's format.
    """

    ticket: str
    parts: Sequence[str]
    bug_report_s: float
    format: str


def begin(scan: ScanOptions, want: Selection, history: HistoryOptions, asked: Asked) -> str:
    """Record the node, save the evidence and hold the node; return the worksheet that says which
    part to pull.
    """
    if not asked.ticket.strip() or not asked.parts:
        raise UsageError(
            "swap begin: name the ticket and what is to be changed: --ticket T --part gpu:SXM6"
        )
    expected = parse_expectations(asked.parts, PART)
    plan = judging.prepare(want)
    recording, stopped = scan_machine(scan)
    if stopped:
        raise UsageError(
            "swap begin: the scan was ended by a signal: nothing is recorded, and nothing is held"
        )
    store = need_store(load_history(recording, history, own=True))
    _refuse_second(store, asked.ticket)
    report = judging.judge_recording(recording, "", plan)
    recording.meta = recording.meta._replace(**judging.provenance(recording, plan))
    node = collectors.node(recording)
    chosen, _ = judging.profile_of(recording, node, plan)
    pulled = [find_part_to_pull(one, node, chosen) for one in expected]
    held = [_reason(one, asked.ticket, report, node) for one in pulled]
    folder = os.path.join(store.folder, "swaps")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}: the swap is not begun") from None
    place = evidence.collect(
        recording, report, folder, bug_report_s=asked.bug_report_s, root=scan.root
    )
    swap = {
        "ticket": asked.ticket,
        "parts": [f"{one.word}={RESEATED}" if one.reseated else one.word for one in pulled],
        "begun_at": store.owner.at_s,
        "boot_id": store.owner.boot_id,
        "folder": place,
        "before": os.path.join(place, "recording.json.gz"),
    }
    try:
        store.begin(report, swap, held)
    except StateError as error:
        raise UsageError(
            f"{error}: the swap is not begun, for nothing would hold the node (the evidence is in"
            f" {place})"
        ) from None
    for trouble in dict.fromkeys(store.troubles):
        complain(f"gpuscan: {trouble}")
    return render_worksheet(asked.ticket, report, pulled, place, asked.format)


def need_store(store: Store | None) -> Store:
    """Return the store; raises UsageError where the command has none."""
    if store is None:
        raise UsageError("swap needs the saved state: leave --no-history out")
    return store


def _refuse_second(store: Store, ticket: str) -> None:
    under_way = store.swap()
    if under_way and under_way.get("ticket") != ticket:
        swap = f"{under_way.get('ticket')} ({', '.join(under_way.get('parts', ()))})"
        raise UsageError(
            f"a swap is under way, {swap}: end it first with gpuscan swap verify, or gpuscan clear"
            " --reason"
        )


def _reason(one: PartToPull, ticket: str, report: Report, node: Node) -> Held:
    target = Target(one.word, one.address or None, one.serial or None, one.part_number or None)
    action = Action.INSPECT if one.reseated else ACTION.get(one.kind, Action.REPLACE)
    return hold.reason(target, hold.SWAP, f"swap {ticket} was begun", action, report.run, node)


def prove(store: Store, recording: Recording, plan: judging.Plan, wish: SwapOptions) -> Report:
    """Return the judgement beside the recording of `swap begin`, else of the last boot before,
    else by the list of parts.
    """
    swap = store.swap()
    wish = wish._replace(expected=wish.expected or (swap["parts"] if swap else ()))
    if any(each.reseated for each in parse_expectations(wish.expected)):
        store.declare(recording, RESEAT)
    before, name = _before(store, swap)
    if before is None and not wish.expected_parts:
        return _unproven(judging.judge_recording(recording, "", plan))
    report = compare_recordings(before, recording, plan, wish, (name, "this node"))
    report = report._replace(run=report.run._replace(recording=None))
    return report._replace(notes=(*report.notes, *_follow_ups(report, swap)))


def release(
    store: Store,
    report: Report,
    recording: Recording,
    plan: judging.Plan,
) -> Report:
    """Return the report with what becomes of the hold: a pass lifts it and ends the swap."""
    node = collectors.node(recording)
    chosen, _ = judging.profile_of(recording, node, plan)
    return store.verified(report, node, chosen, aliases(plan.checks))


def _before(store: Store, swap: dict[str, Any] | None) -> tuple[Recording | None, str]:
    """Return the recording to compare with, and what to call it."""
    kept = [swap["before"]] if swap else store.recordings()
    for file in kept:
        try:
            return load(file), file
        except GpuscanError as error:
            complain(f"gpuscan: {error}")
    return None, ""


def _unproven(report: Report) -> Report:
    """Nothing is known of the node before: whatever it shows now, no swap is proven by it."""
    why = (
        "swap not proven: no swap begin, no run of an earlier boot in the archive, no"
        " --expected-parts"
    )
    title = "The part that was to be changed was changed, and nothing else."
    results = (*report.results, Result(PROOF, NODE, Status.UNKNOWN, title, why))
    return report._replace(results=results)


def _follow_ups(report: Report, swap: dict[str, Any] | None) -> list[str]:
    """Return what people still have to do, and what this judgement did not do."""
    notes = []
    if report.run.level == LEVELS[0]:
        notes.append(
            "not exercised: nothing was computed on the GPUs; burn them in (--level quick) before"
            " the node takes long jobs"
        )
    new = [row for row in report.changes if row.what in ("replaced", "added") and row.expected]
    for row in new:
        old, now = (part.get("serial") or "serial not read" for part in (row.before, row.after))
        notes.append(
            f"follow-up: {row.kind} {row.slot}: note {now} in the inventory; {old} goes back"
        )
    if swap and proves(report):
        notes.append(f"swap {swap['ticket']} is proven, and its hold lifted")
    elif swap and (report.exit_code < FAILED or report.run.limited_to):
        notes.append(f"swap {swap['ticket']} is not proven: the node stays held")
    return notes
