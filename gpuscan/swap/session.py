"""`gpuscan swap begin` and `swap verify`: the node before a part is pulled, and the proof that the
right one is back.
"""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuscan import collectors
from gpuscan.durations import format_moment
from gpuscan.engine import hold, judging
from gpuscan.engine.blame import Target
from gpuscan.engine.case import SWAP
from gpuscan.engine.judging import Selection
from gpuscan.engine.report import Report
from gpuscan.engine.suite import aliases
from gpuscan.errors import GpuscanError, UsageError, complain
from gpuscan.importers.load import open_recording
from gpuscan.live.machine import ScanOptions, scan_machine
from gpuscan.model import Held, Node
from gpuscan.model.outcome import LEVELS, Action, Result, Status
from gpuscan.model.subject import NODE
from gpuscan.recording import Recording, load
from gpuscan.state.access import HistoryOptions, is_this_machine, load_history
from gpuscan.state.place import StateError
from gpuscan.state.store import Store, proves
from gpuscan.swap.changes import unlisted
from gpuscan.swap.compare import SwapOptions, compare_recordings, find_gaps
from gpuscan.swap.expect import PART, RESEATED, parse_expectations
from gpuscan.swap.worksheet import Kept, PartToPull, find_part_to_pull, render_worksheet
from gpuscan.tickets import evidence

ACTION = {"cable": Action.INSPECT}  # what the hold asks for; all other parts are to be replaced
PROOF = "swap.is_proven"
DRILL = "Drill: a recording is read, no machine is touched, and no node is held"
RESEAT = "reseat"  # the work that `=reseated` declares, as --tried does


class Asked(NamedTuple):
    """What `swap begin` was asked: the ticket, the parts' words, seconds for nvidia-bug-report.sh,
    the sheet's format; to record *again* what is begun already; the recording of a drill.
    """

    ticket: str
    parts: Sequence[str]
    bug_report_s: float
    format: str
    again: bool = False
    replay: str = ""


def begin(scan: ScanOptions, want: Selection, history: HistoryOptions, asked: Asked) -> str:
    """Record the node, save the evidence and hold the node; return the worksheet that says which
    part to pull.

    A drill reads a recording instead, and keeps something only where a state folder is named.
    """
    if not asked.ticket.strip() or not asked.parts:
        raise UsageError(
            "swap begin: name the ticket and what is to be changed: --ticket T --part gpu:SXM6"
        )
    expected = parse_expectations(asked.parts, PART)
    plan = judging.prepare(want)
    recording = open_recording(asked.replay) if asked.replay else _scan(scan)
    own = not asked.replay or is_this_machine(recording)
    store = load_history(recording, history, own=own)
    if not asked.replay:
        store = need_store(store)
    under_way = _find_under_way(store, asked) if store else None
    report = judging.judge_recording(recording, asked.replay, plan)
    recording.meta = recording.meta._replace(**judging.provenance(recording, plan))
    node = collectors.node(recording)
    chosen, _ = judging.profile_of(recording, node, plan)
    gaps = find_gaps(node, chosen)._replace(unlisted=unlisted(node))
    pulled = [find_part_to_pull(one, node, chosen, gaps) for one in expected]
    kept = Kept(asked.ticket, "", (DRILL,) if asked.replay else (), drill=bool(asked.replay))
    if store is None:
        return render_worksheet(kept, report, pulled, asked.format)
    held = [_reason(one, asked.ticket, report, node) for one in pulled]
    place = _keep_evidence(store, recording, report, scan, asked)
    swap = _join(under_way, _describe(store, asked, pulled, place), again=asked.again)
    try:
        store.begin(report, swap, held, "replay" if asked.replay else "live")
    except StateError as error:
        raise UsageError(
            f"{error}: the swap is not begun, for nothing would hold the node (the evidence is in"
            f" {place})"
        ) from None
    for trouble in dict.fromkeys(store.troubles):
        complain(f"gpuscan: {trouble}")
    notes = (*kept.notes, *_on_earlier_begin(under_way, again=asked.again))
    return render_worksheet(
        kept._replace(evidence=place, notes=notes), report, pulled, asked.format
    )


def _scan(options: ScanOptions) -> Recording:
    recording, stopped = scan_machine(options)
    if stopped:
        raise UsageError(
            "swap begin: the scan was ended by a signal: nothing is recorded, and nothing is held"
        )
    return recording


def _keep_evidence(
    store: Store, recording: Recording, report: Report, scan: ScanOptions, asked: Asked
) -> str:
    """Return the folder in which the recording, the report and the rest of the evidence are."""
    folder = os.path.join(store.folder, "swaps")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}: the swap is not begun") from None
    return evidence.collect(
        recording,
        report,
        folder,
        bug_report_s=0.0 if asked.replay else asked.bug_report_s,
        root=scan.root,
        live=not asked.replay,
    )


def _describe(
    store: Store, asked: Asked, pulled: Sequence[PartToPull], place: str
) -> dict[str, Any]:
    return {
        "ticket": asked.ticket,
        "parts": [f"{one.word}={RESEATED}" if one.reseated else one.word for one in pulled],
        "begun_at": store.owner.at_s,
        "boot_id": store.owner.boot_id,
        "folder": place,
        "before": os.path.join(place, "recording.json.gz"),
    }


def _join(under_way: dict[str, Any] | None, swap: dict[str, Any], *, again: bool) -> dict[str, Any]:
    """Return the swap to store: one that grows keeps its recording from before; one that is begun
    *again* is recorded anew.
    """
    if under_way is None or again:
        return swap
    parts = dict.fromkeys([*under_way["parts"], *swap["parts"]])
    return {**under_way, "parts": list(parts)}


def _on_earlier_begin(under_way: dict[str, Any] | None, *, again: bool) -> list[str]:
    if under_way is None:
        return []
    begun = f"{under_way['ticket']} was begun {format_moment(under_way['begun_at'])}"
    if again:
        return [
            f"{begun}: what the node was then is in {under_way['folder']}; from now on it is"
            " compared with this recording"
        ]
    return [f"{begun}, and stays compared with what the node was then; --again records it anew"]


def need_store(store: Store | None) -> Store:
    """Return the store; raises UsageError where the command has none."""
    if store is None:
        raise UsageError("swap needs the saved state: leave --no-history out")
    return store


def _find_under_way(store: Store, asked: Asked) -> dict[str, Any] | None:
    """Return the swap of this ticket that is under way; raises UsageError for another ticket's, and
    for one of another boot that is not to be recorded *again*.
    """
    under_way = store.swap()
    if not under_way:
        return None
    parts = f"{under_way['ticket']} ({', '.join(under_way['parts'])})"
    if under_way["ticket"] != asked.ticket:
        raise UsageError(
            f"a swap is under way, {parts}: end it first with gpuscan swap verify, or gpuscan clear"
            " --reason"
        )
    if under_way["boot_id"] != store.owner.boot_id and not asked.again:
        begun = format_moment(under_way["begun_at"])
        raise UsageError(
            f"swap {parts} was begun {begun}, and the node has been booted since: prove it with"
            " gpuscan swap verify, or record the node anew with --again"
        )
    return under_way


def _reason(one: PartToPull, ticket: str, report: Report, node: Node) -> Held:
    target = Target(one.word, one.address or None, one.serial or None, one.part_number or None)
    action = Action.INSPECT if one.reseated else ACTION.get(one.kind, Action.REPLACE)
    return hold.reason(target, SWAP, f"swap {ticket} was begun", action, report.run, node)


def prove(
    store: Store | None,
    recording: Recording,
    plan: judging.Plan,
    wish: SwapOptions,
    replay: str = "",
) -> Report:
    """Return the judgement beside the recording of `swap begin`, else of the last boot before,
    else by the list of parts; that of a drill on the recording *replay*.
    """
    swap = store.swap() if store else None
    wish = wish._replace(expected=wish.expected or (swap["parts"] if swap else ()))
    if store and any(each.reseated for each in parse_expectations(wish.expected)):
        store.declare(recording, RESEAT)
    before, name = _before(store, swap) if store else (None, "")
    if before is None and not wish.expected_parts:
        report = _unproven(judging.judge_recording(recording, replay, plan))
    else:
        names = (name, replay or "this node")
        report = compare_recordings(before, recording, plan, wish, names)
        report = report._replace(notes=(*report.notes, *_follow_ups(report, swap)))
    drill = (DRILL,) if replay else ()
    run = report.run._replace(recording=replay or None)
    return report._replace(run=run, notes=(*drill, *report.notes))


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
        old = row.before.get("serial") or "the old part, its serial not read,"
        now = row.after.get("serial") or "the new serial"
        notes.append(
            f"follow-up: {row.kind} {row.slot}: note {now} in the inventory; {old} goes back"
        )
    if swap and proves(report):
        notes.append(f"swap {swap['ticket']} is proven, and its hold lifted")
    elif swap:
        notes.append(f"swap {swap['ticket']} is not proven: the node stays held")
    return notes
