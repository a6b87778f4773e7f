"""What one run has to do with earlier ones: which state it loads, and where it is saved."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuscan.engine.report import Report
from gpuscan.errors import complain
from gpuscan.recording import Recording

if TYPE_CHECKING:
    from gpuscan.state.store import Store


class HistoryOptions(NamedTuple):
    """The state folder (empty: history is neither read nor saved), the work that was done on the
    node (`--tried`), and for how many seconds to scan again while something is wrong.
    """

    folder: str = ""
    tried: Sequence[str] = ()
    settle_s: float = 0.0


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

    store = Store(options.folder, whose(recording), own=own)
    store.add_past(recording, options.tried, hold=hold)
    return store


def save_run(store: "Store | None", report: Report, source: str, options: HistoryOptions) -> None:
    """Save a run, *source* being `live` or `replay`. Trouble is reported on standard error and
    changes neither verdict nor exit code.
    """
    if store is None:
        return
    store.keep(report, source, options.tried)
    for trouble in dict.fromkeys(store.troubles):
        complain(f"gpuscan: {trouble}")


def is_this_machine(recording: Recording) -> bool:
    """Return whether a recording is of the machine that gpuscan runs on."""
    from gpuscan.state.last import same_machine
    from gpuscan.state.rows import whose
    from gpuscan.state.whoami import this_machine

    here, owner = this_machine(), whose(recording)
    same_boot = bool(owner.boot_id) and owner.boot_id == here["boot_id"]
    return same_boot or same_machine(owner.ids, here)
