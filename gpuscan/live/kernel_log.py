"""A kernel log, streamed from a file or a pipe, as a recording of nothing else."""

import os
import time
from typing import TYPE_CHECKING, Any

from gpuscan import __version__
from gpuscan.kernellog.keeping import reading_value, select_lines
from gpuscan.recording import Meta, Reading, Recording

if TYPE_CHECKING:
    from gpuscan.live.logfile import LogFile

SCOPE = "log:*"
FRAGMENT = "a kernel log"


def record_log(log: "LogFile", *, current: bool = True) -> Recording:
    """Return a recording of a log's last boot (of all its boots unless *current*), its scope being
    that log alone. Raises RecordingError.
    """
    now_s = time.time()
    name = "stdin" if log.name == "-" else os.path.basename(log.name) or "log"
    until_s = now_s if log.name == "-" else _modified_s(log.name, now_s)
    value = _read(log, until_s=until_s, current=current)
    duration_s = round(time.time() - now_s, 3)
    meta = Meta(
        gpuscan_version=__version__,
        made_at=round(now_s, 3),
        duration_s=duration_s,
        fragment=FRAGMENT,
    )
    reading = Reading(f"log:{name}", value, None, until_s, duration_s * 1000)
    return Recording(meta, [SCOPE], [reading])


def _modified_s(file: str, now_s: float) -> float:
    """Return when a file was last written: no line in it is later, which gives a timestamp without
    a year its year.
    """
    try:
        return min(os.stat(file).st_mtime, now_s)
    except OSError:
        return now_s


def _read(log: "LogFile", *, until_s: float, current: bool) -> dict[str, Any]:
    """Return the lines that matter, in the form that collectors/log.py reads."""
    lines = select_lines(log.rows(), current=current, until_s=until_s)
    head, tail = log.head.split(b"\n"), log.tail.split(b"\n")
    value = reading_value(lines, log.total, head, tail, until_s=until_s)
    value["kernel"] = value["kernel"] or log.kernel
    return value | ({"cut": log.cut} if log.cut else {})
