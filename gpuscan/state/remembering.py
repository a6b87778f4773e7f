"""What a command does with the past: which state it reads and writes, and what was tried before
it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuscan.engine.report import Report
from gpuscan.errors import UsageError, complain, near_misses
from gpuscan.model.outcome import WORK
from gpuscan.recording import Recording

if TYPE_CHECKING:
    from gpuscan.state.store import Store


class Memory(NamedTuple):
    """The state's folder (empty: none is asked), work that was tried, seconds to settle."""

    folder: str = ""
    tried: tuple[str, ...] = ()
    settle_s: float = 0.0


def memory(folder: str, tried: Sequence[str], settle: str = "") -> Memory:
    """Return what the options say of it; raises UsageError for words that are none."""
    from gpuscan.durations import parse_duration

    strange = [work for work in tried if work not in WORK]
    if strange:
        raise UsageError(
            f"--tried {strange[0]}: {near_misses(strange[0], list(WORK), 'kinds of work')}"
        )
    settle_s = parse_duration(settle) if settle else 0.0
    if settle_s is None:
        raise UsageError(f"--settle {settle}: write a duration as 90s, 5m or 1h")
    return Memory(folder, tuple(tried), settle_s)


def told(recording: Recording, memory: Memory, *, own: bool) -> "Store | None":
    """Add the past to a recording, and return the store that it came from; None where none is
    asked.
    """
    if not memory.folder:
        return None
    from gpuscan.state.rows import whose
    from gpuscan.state.store import Store

    store = Store(memory.folder, whose(recording), own=own)
    store.tell(recording, memory.tried)
    return store


def stored(store: "Store | None", report: Report, source: str, memory: Memory) -> None:
    """Keep a run in the state; what goes wrong there is told, and costs neither verdict nor exit
    code.
    """
    if store is None:
        return
    store.keep(report, source, memory.tried)
    for trouble in dict.fromkeys(store.troubles):
        complain(f"gpuscan: {trouble}")


def of_this_machine(recording: Recording) -> bool:
    """Tell whether a recording is of the machine that we run on: its state lies at the top,
    others' beside it.
    """
    from gpuscan.state.last import same_machine
    from gpuscan.state.rows import whose
    from gpuscan.state.whoami import this_machine

    here, owner = this_machine(), whose(recording)
    return (bool(owner.boot_id) and owner.boot_id == here["boot_id"]) or same_machine(
        owner.ids, here
    )
