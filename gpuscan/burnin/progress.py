"""How a burn-in is getting on, on standard error: a small block on a terminal, elsewhere a line a
step and a line a minute.
"""

import os
import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from gpuscan.model import is_unread
from gpuscan.text import printable

REDRAW_S = 0.5
LINE_S = 60.0
UP, CLEAR_LINE, CLEAR_BELOW = "\x1b[{}A", "\x1b[K", "\x1b[J"
RATE = re.compile(r"([\d.e+]+) (?:(\w+)_)?(tflops|gbps)\b")
UNITS = {"tflops": "TFLOP/s", "gbps": "GB/s"}
NARROWEST = 20
Size = tuple[int, int]


class Seen(NamedTuple):
    """The newest that is known of one GPU: its test, °C and W (0: not yet read), how fast it is
    in words.
    """

    test: str = ""
    temperature_c: float = 0.0
    power_w: float = 0.0
    rate: str = ""


class Step(NamedTuple):
    """The step at work: its name, which one of how many, and the seconds it is to take."""

    name: str = ""
    number: int = 0
    total: int = 0
    seconds: float = 0.0


class Progress:
    """What is shown while GPUs are tested; a stream that can no longer be written to ends it,
    never the burn-in.

    *GPUs* are their labels, *expected_s* what all of it is to take (0: not known), *spent_s* what
    of it was spent before, *size* gives the terminal's columns and lines.
    """

    def __init__(
        self,
        gpus: Sequence[str],
        stream: TextIO | None,
        *,
        expected_s: float = 0.0,
        spent_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        size: Callable[[], Size] | None = None,
    ) -> None:
        self.gpus: dict[str, Seen] = dict.fromkeys(gpus, Seen())
        self.stream = stream
        self.expected_s = expected_s
        self.clock = clock
        self.size = size or (lambda: _size(stream))
        self.at = Step()
        self.told_s = clock()
        self.begun_s = self.told_s - spent_s
        self.drawn_s = self.told_s - REDRAW_S
        self.lines = 0
        self.redraws = (
            stream is not None
            and stream.isatty()
            and os.environ.get("TERM") not in ("dumb", "unknown")
        )

    def step(self, name: str, number: int, total: int, seconds: float) -> None:
        """Begin step *number* (from 1) of *total*, which is to take so many *seconds*."""
        self.at = Step(name, number, total, seconds)
        self.gpus = {
            gpu: seen._replace(test="", rate="") for gpu, seen in self.gpus.items()
        }  # not every GPU is in each step
        if self.redraws:
            self._draw()
        else:
            self._write(
                f"{self._time()}: step {number} of {total}, {printable(name)} ({seconds:.0f} s)\n"
            )

    def update(self, gpu: str, **fields: Any) -> None:
        """Note what is new of a GPU: test, temperature_c, power_w, rate. What was not read leaves
        what is known of it.
        """
        known = {
            name: value
            for name, value in fields.items()
            if value is not None and not is_unread(value)
        }
        before = self.gpus.get(gpu, Seen())
        if known.get("test", before.test) != before.test:
            before = before._replace(rate="")  # it was another test's
        self.gpus[gpu] = before._replace(**known)
        if self.redraws:
            if self.clock() >= self.drawn_s + REDRAW_S:
                self._draw()
        elif self.clock() >= self.told_s + LINE_S:
            self.told_s = self.clock()
            self._write(f"{self._time()}: {'; '.join(_together(self.at.name, self.gpus))}\n")

    def close(self) -> None:
        """Wipe the block; what follows begins where it began."""
        if self.lines:
            self._write(f"\r{UP.format(self.lines)}{CLEAR_BELOW}")
        self.lines = 0

    def _time(self) -> str:
        spent = _minutes(self.clock() - self.begun_s)
        return (
            f"burn-in {spent} of about {_minutes(self.expected_s)}"
            if self.expected_s
            else f"burn-in {spent}"
        )

    def _draw(self) -> None:
        self.drawn_s = self.clock()
        columns, rows = self.size()
        at = self.at
        step = (
            f": {printable(at.name)}, step {at.number} of {at.total}, {at.seconds:.0f} s"
            if at.number
            else ""
        )
        lines = _fitting([self._time() + step, *_block(self.gpus)], rows - 1)
        up = f"\r{UP.format(self.lines)}" if self.lines else ""
        room = max(columns - 1, NARROWEST)  # in the last column some terminals begin a new line
        self._write(up + "".join(f"{line[:room]}{CLEAR_LINE}\n" for line in lines) + CLEAR_BELOW)
        self.lines = len(lines)

    def _write(self, text: str) -> None:
        """Write, but wait for no reader: a terminal that was stopped, or a full pipe, would stop
        the burn-in.
        """
        if self.stream is None or not _takes_more(self.stream):
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # closed, or its reader is gone
            self.stream, self.redraws, self.lines = None, False, 0


def _takes_more(stream: TextIO) -> bool:
    try:
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLOUT)
        return bool(poll.poll(0))
    except (OSError, ValueError):  # no file, or closed: writing will tell
        return True


def _size(stream: TextIO | None) -> Size:
    """Ask the very stream: standard output may go elsewhere."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno()) if stream is not None else (0, 0)
    except (OSError, ValueError):
        columns, rows = 0, 0
    return columns or 80, rows or 24


def _fitting(lines: list[str], rows: int) -> list[str]:
    """Leave out the last GPUs where there are more than lines: what has scrolled away cannot be
    drawn again.
    """
    if len(lines) <= max(rows, 2):
        return lines
    kept = max(rows - 1, 1)
    return [*lines[:kept], f"and {len(lines) - kept} more GPUs"]


def _block(gpus: Mapping[str, Seen]) -> list[str]:
    """Return a line a GPU: label, test, °C, W, how fast."""
    labels = [printable(gpu) for gpu in gpus]
    tests = [printable(seen.test) for seen in gpus.values()]
    wide, wider = max(map(len, labels), default=0), max(map(len, tests), default=0)
    told = []
    for label, test, seen in zip(labels, tests, gpus.values(), strict=True):
        hot = f"{seen.temperature_c:3.0f} °C" if seen.temperature_c else " " * 6
        power = f"{seen.power_w:4.0f} W" if seen.power_w else " " * 6
        told.append(
            f"{label:<{wide}}  {test:<{wider}}  {hot}  {power}  {worded(seen.rate)}".rstrip()
        )
    return told


def worded(rate: str) -> str:
    """Return the worker's rates as people read them.

    >>> worded("640.5 tflops"), worded("391 one_way_gbps 760 both_gbps"), worded("walking")
    ('640.5 TFLOP/s', 'one way 391 GB/s both 760 GB/s', 'walking')
    """

    def told(hit: re.Match[str]) -> str:
        what = f"{hit[2].replace('_', ' ')} " if hit[2] else ""
        return f"{what}{hit[1]} {UNITS[hit[3]]}"

    return printable(RATE.sub(told, rate))


def _together(name: str, gpus: Mapping[str, Seen]) -> list[str]:
    """Return the step and what stands out among the GPUs: the hottest, the power of all, the
    slowest.
    """
    told = [printable(name)] if name else []
    heat = {gpu: seen.temperature_c for gpu, seen in gpus.items() if seen.temperature_c}
    if heat:
        hottest = max(heat, key=lambda gpu: heat[gpu])
        watts = sum(seen.power_w for seen in gpus.values())
        power = f", {watts / 1000:.1f} kW together" if watts else ""
        told.append(f"hottest {printable(hottest)} {heat[hottest]:.0f} °C{power}")
    return told + _slowest(gpus)


def _slowest(gpus: Mapping[str, Seen]) -> list[str]:
    """Name the slowest of the GPUs that measure the same thing; a GPU alone is no slower than
    others.
    """
    rates = {gpu: hit for gpu, seen in gpus.items() if (hit := RATE.fullmatch(seen.rate))}
    if len(rates) < 2 or len({hit.groups()[1:] for hit in rates.values()}) > 1:
        return []
    slowest = min(rates, key=lambda gpu: float(rates[gpu][1]))
    return [f"slowest {printable(slowest)} {worded(gpus[slowest].rate)}"]


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours}:{minutes_left:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
