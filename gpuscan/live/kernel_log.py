"""A kernel log, streamed from a file or a pipe, as a recording of nothing else."""

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuscan import __version__
from gpuscan.errors import RecordingError
from gpuscan.kernellog import wrapping
from gpuscan.kernellog.keeping import count_kernel_lines, reading_value, select_lines
from gpuscan.recording import Meta, Reading, Recording

if TYPE_CHECKING:
    from gpuscan.live.logfile import LogFile

SCOPE = "log:*"
JSON = (b"{", b"[", b'"')
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
    wrapped = _Wrapped(log)
    lines = select_lines(wrapped.rows(), current=current, until_s=until_s)
    hosts = wrapping.hosts_apart(lines.hosts)
    if len(hosts) > 1:
        raise RecordingError(f"{log.name}: {wrapping.several_nodes(hosts)}")
    head, tail = wrapped.lines(log.head), wrapped.lines(log.tail)
    value = reading_value(lines, log.total, head, tail, until_s=until_s)
    value["kernel"] = value["kernel"] or (log.kernel and not log.head.lstrip().startswith(JSON))
    return value | ({"cut": log.cut} if log.cut else {})


class _Wrapped:
    """A log without what its lines were passed on in, as its first lines show it.

    Raises RecordingError for lines of several nodes.
    """

    def __init__(self, log: "LogFile") -> None:
        self.log = log
        self.layers: tuple[wrapping.Layer, ...] | None = None

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield the rows of the log; where one held several lines, numbers count those."""
        more = 0
        for number, raw in self.log.rows():
            lines = self._unwrap(raw)
            for place, line in enumerate(lines):
                yield number + more + place, line
            more += max(len(lines) - 1, 0)

    def lines(self, data: bytes) -> list[bytes]:
        """Return the lines of a piece of the log."""
        return [line for raw in data.split(b"\n") for line in self._unwrap(raw)]

    def _unwrap(self, raw: bytes) -> list[bytes]:
        if self.layers is None:
            self.layers = self._find_layers()
        pieces = [piece for piece in raw.split(b"\r") if piece] or [b""]
        if not self.layers:
            return pieces
        lines = list(map(_text, pieces))
        for layer in self.layers:
            lines = list(wrapping.take_off(layer, lines))
        return [line.encode("utf-8", "surrogateescape") for line in lines]

    def _find_layers(self) -> tuple[wrapping.Layer, ...]:
        best, most = tuple[wrapping.Layer, ...](), -1
        lines = [_text(raw) for raw in self.log.head.split(b"\n")]
        for layers, sample in wrapping.ways_to_unwrap(lines):
            if any(layer.said for layer in layers):
                continue  # a program's journal quotes the kernel
            weight = count_kernel_lines(sample)
            if weight > most:
                best, most = layers, weight
        names = [name for layer in best for name in layer.names]
        if wrapping.are_several(names):
            raise RecordingError(f"{self.log.name}: {wrapping.several_nodes(names)}")
        return best


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape").rstrip("\r").replace("\u00a0", " ")
