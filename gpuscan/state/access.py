"""What one run has to do with earlier ones: which state it loads, and where it is saved."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuscan.engine.proposing import VERIFY, VERIFY_S
from gpuscan.engine.report import Report
from gpuscan.errors import complain
from gpuscan.recording import Recording
from gpuscan.state import begun

if TYPE_CHECKING:
    from gpuscan.state.store import Store


class HistoryOptions(NamedTuple):
    """The state folder (empty: history is neither read nor saved), the work that was done on the
    node (`--tried`), and for how many seconds to scan again while something is wrong.

    *node* is the folder where root keeps the node's hold, if that counts besides; *note* the one of
    a run that scans this machine; *most_bytes* what the archive may take (0: its default).
    """

    folder: str = ""
    tried: Sequence[str] = ()
    settle_s: float = 0.0
    node: str = ""
    live: bool = False
    note: begun.Note | None = None
    most_bytes: int = 0


def begin_run(options: HistoryOptions) -> HistoryOptions:
    """Note that a run begins to scan this machine: should it end without a word, or not be stored,
    the verdict before it counts no more.
    """
    if not options.folder:
        return options
    return options._replace(live=True, note=begun.begin(options.folder))


def forget_run(options: HistoryOptions) -> None:
    """Remove the note of a run that came to nothing: a wrong option, not a broken node."""
    if options.note is not None:
        begun.end(options.note)


def load_history(
    recording: Recording, options: HistoryOptions, *, own: bool, hold: bool = True
) -> "Store | None":
    """Add this machine's history to a recording; return the store it came from, None without one.

    *own* is False for a recording of another machine, whose state lies beside this machine's.
    Without *hold* the node is judged as if no hold stood.
    """
    if not options.folder:
        return None
    from gpuscan.state.rows import whose
    from gpuscan.state.store import Store

    store = Store(
        options.folder,
        whose(recording),
        own=own,
        note=options.note,
        live=options.live,
        node=options.node if own else "",
        most_bytes=options.most_bytes,
    )
    store.add_past(recording, options.tried, hold=hold)
    return store


def save_run(store: "Store | None", report: Report, source: str, options: HistoryOptions) -> Report:
    """Save a run, *source* being `live` or `replay`, and return its report with what became of it:
    trouble (also on standard error), and whether it holds the node. Neither changes the verdict.
    """
    if store is None:
        return report
    store.keep(report, source, options.tried)
    troubles = list(dict.fromkeys(store.troubles))
    for trouble in troubles:
        complain(f"gpuscan: {trouble}")
    lost = [] if store.is_stored else [_lost(store)]
    told = _hold_told(store, report) if store.is_stored else ""
    verifies = report.run.compared_with is not None  # its notes say what becomes of the swap
    swap = "" if verifies else store.swap_left
    proposed = report.proposed
    if swap and proposed:
        proposed = proposed._replace(command=VERIFY, seconds=VERIFY_S, needs="")
    notes = (*report.notes, *lost)
    return report._replace(notes=notes, hold_told=told, swap_left=swap, proposed=proposed)


def _lost(store: "Store") -> str:
    if store.note is not None and store.note.code:
        return "this run could not be stored with the others: gpuscan status tells its hold"
    if store.note is not None:
        return "this run could not be stored: gpuscan status is incomplete until one is"
    return f"this run could not be stored: {store.folder} still tells what was known before"


def _hold_told(store: "Store", report: Report) -> str:
    """Return the sentence on the hold that stands after a run, empty where none does."""
    mine = [one for one in report.held if not one.asleep and not one.of_root]
    if not mine:
        return ""
    found = [one for one in mine if one.seen_s == store.owner.at_s]
    parts = dict.fromkeys(
        f"{one.subject.replace(':', ' ', 1)} ({one.check})" for one in found or mine
    )
    since = "held from now on" if found else "still held"
    whose = " for this user alone, as only root's runs hold it for all" if os.geteuid() else ""
    return f"This node is {since}{whose}: {', '.join(parts)}; gpuscan status, gpuscan explain hold"


def is_this_machine(recording: Recording) -> bool:
    """Return whether a recording is of the machine that gpuscan runs on."""
    from gpuscan.state.last import same_machine
    from gpuscan.state.rows import whose
    from gpuscan.state.whoami import this_machine

    here, owner = this_machine(), whose(recording)
    same_boot = bool(owner.boot_id) and owner.boot_id == here["boot_id"]
    return same_boot or same_machine(owner.ids, here)
