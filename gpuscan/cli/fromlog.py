"""`gpuscan log`: a kernel log made into a recording of nothing else, and judged."""

import os
import time
from typing import TYPE_CHECKING, Any

from gpuscan import __version__
from gpuscan.cli import output
from gpuscan.cli.output import Shown
from gpuscan.engine import judging
from gpuscan.engine.judging import Wanted
from gpuscan.errors import UsageError
from gpuscan.kernellog.keeping import reading_value, select_lines
from gpuscan.recording import Meta, Reading, Recording
from gpuscan.state import remembering
from gpuscan.state.remembering import Memory

if TYPE_CHECKING:
    from gpuscan.live.logfile import LogFile

BOOTS = ("current", "all")
SCOPE = "log:*"
FRAGMENT = "a kernel log"


def log(source: "LogFile", boot: str, want: Wanted, show: Shown, memory: Memory) -> int:
    """Judge a kernel log, of the last boot in it or of all, and return the exit code."""
    output.refuse_unusable(show)
    if boot not in BOOTS:
        raise UsageError(f"--boot {boot}: what can be judged is the current boot, or all")
    plan = judging.prepare(want)
    made = recording(source, current=boot == "current")
    store = remembering.told(made, memory, own=remembering.of_this_machine(made))
    report = judging.judged(made, source.name, plan)
    code = output.tell([report], show)
    remembering.stored(store, report, "replay", memory)
    return code


def recording(source: "LogFile", *, current: bool = True) -> Recording:
    """Read a log into a recording whose scope is that log alone; raises RecordingError."""
    now_s = time.time()
    name = "stdin" if source.name == "-" else os.path.basename(source.name) or "log"
    at_s = now_s if source.name == "-" else _written_s(source.name, now_s)
    value = reading(source, until_s=at_s, current=current)
    duration_s = round(time.time() - now_s, 3)
    meta = Meta(
        gpuscan_version=__version__,
        made_at=round(now_s, 3),
        duration_s=duration_s,
        fragment=FRAGMENT,
    )
    return Recording(meta, [SCOPE], [Reading(f"log:{name}", value, None, at_s, duration_s * 1000)])


def _written_s(file: str, now_s: float) -> float:
    """Return when a file was last written: no line of it can be later, and a stamp without a year
    is told by that.
    """
    try:
        return min(os.stat(file).st_mtime, now_s)
    except OSError:
        return now_s


def reading(source: "LogFile", *, until_s: float, current: bool) -> dict[str, Any]:
    """Return what is kept of a log, as `collectors/log.py` reads it again."""
    found = select_lines(source.rows(), current=current, until_s=until_s)
    value = reading_value(
        found, source.total, source.head.split(b"\n"), source.tail.split(b"\n"), until_s=until_s
    )
    value["kernel"] = value["kernel"] or source.kernel
    return value | ({"cut": source.cut} if source.cut else {})
