"""The progress of a burn-in on standard error: on a terminal a block that is redrawn in place,
elsewhere a line per step and per minute.
"""

import os
import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any, NamedTuple, TextIO

from gpuscan.model import is_unread
from gpuscan.text import counted, printable

REDRAW_S = 0.5
LINE_S = 60.0
UP, CLEAR_LINE, CLEAR_BELOW = "\x1b[{}A", "\x1b[K", "\x1b[J"
RATE = re.compile(r"(?<![\d.e+])([\d.e+]++) (?:(\w+)_)?(tflops|gbps)\b")
UNITS = {"tflops": "TFLOP/s", "gbps": "GB/s"}
NARROWEST = 20
WIDEST = 1000  # lines are cut to the terminal, and never wrapped
Size = tuple[int, int]


class GpuProgress(NamedTuple):
    """The newest values of one GPU: its test, temperature in °C and power in W (0: not yet read),
    and its rate as the worker reports it (`640.5 tflops`).
    """

    test: str = ""
    temperature_c: float = 0.0
    power_w: float = 0.0
    rate: str = ""


class StepProgress(NamedTuple):
    """The current step: its name, its number of how many, and the seconds it should take."""

    name: str = ""
    number: int = 0
    total: int = 0
    seconds: float = 0.0


class Progress:
    """Shows how the GPUs are doing; a stream that can no longer be written to ends the display,
    never the burn-in.

    *gpus* are labels, *expected_s* is the whole duration (0: not known), *spent_s* what an earlier
    call spent of it; *size* returns the terminal's columns and lines.
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
        self.gpus: dict[str, GpuProgress] = dict.fromkeys(gpus, GpuProgress())
        self.stream = stream
        self.expected_s = expected_s
        self.clock = clock
        self.size = size or (lambda: _size(stream))
        self.at = StepProgress()
        self.line_s = clock()
        self.begun_s = self.line_s - spent_s
        self.drawn_s = self.line_s - REDRAW_S
        self.lines = 0
        self.redraws = (
            stream is not None
            and stream.isatty()
            and os.environ.get("TERM") not in ("dumb", "unknown")
        )

    def step(self, name: str, number: int, total: int, seconds: float) -> None:
        """Begin step *number* (from 1) of *total*, which should take so many *seconds*."""
        self.at = StepProgress(name, number, total, seconds)
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
        """Update a GPU's test, temperature_c, power_w or rate; a value that was not read keeps the
        last one.
        """
        known = {
            name: value
            for name, value in fields.items()
            if value is not None and not is_unread(value)
        }
        before = self.gpus.get(gpu, GpuProgress())
        if known.get("test", before.test) != before.test:
            before = before._replace(rate="")  # of another test
        self.gpus[gpu] = before._replace(**known)
        if self.redraws:
            if self.clock() >= self.drawn_s + REDRAW_S:
                self._draw()
        elif self.clock() >= self.line_s + LINE_S:
            self.line_s = self.clock()
            self._write(f"{self._time()}: {'; '.join(_summarize(self.at.name, self.gpus))}\n")

    def close(self) -> None:
        """Clear the block; what is printed next starts in its place."""
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
        lines = _fitting([self._time() + step, *_format_block(self.gpus)], rows - 1)
        up = f"\r{UP.format(self.lines)}" if self.lines else ""
        room = max(columns - 1, NARROWEST)  # in the last column some terminals begin a new line
        self._write(up + "".join(f"{line[:room]}{CLEAR_LINE}\n" for line in lines) + CLEAR_BELOW)
        self.lines = len(lines)

    def _write(self, text: str) -> None:
        """Write without blocking: a stopped terminal or a full pipe must not stop the burn-in."""
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
    except (OSError, ValueError):  # no file, or closed: writing fails then
        return True


def _size(stream: TextIO | None) -> Size:
    """Return the size of this stream's terminal: standard output may go elsewhere."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno()) if stream is not None else (0, 0)
    except (OSError, ValueError):
        columns, rows = 0, 0
    return columns or 80, rows or 24


def _fitting(lines: list[str], rows: int) -> list[str]:
    """Leave out the last GPUs where there are more than lines: what has scrolled away cannot be
    redrawn.
    """
    if len(lines) <= max(rows, 2):
        return lines
    kept = max(rows - 1, 1)
    return [*lines[:kept], f"and {counted(len(lines) - kept, 'more GPU')}"]


def _format_block(gpus: Mapping[str, GpuProgress]) -> list[str]:
    """Return a line per GPU: label, test, temperature, power and speed.

    rich lays the columns out; it is imported here because only a terminal needs it.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for _ in range(5):
        table.add_column(no_wrap=True)
    for label, seen in gpus.items():
        heat = f"{seen.temperature_c:3.0f} °C" if seen.temperature_c else " " * 6
        power = f"{seen.power_w:4.0f} W" if seen.power_w else " " * 6
        cells = (printable(label), printable(seen.test), heat, power, format_rates(seen.rate))
        table.add_row(*map(Text, cells))
    out = StringIO()
    Console(file=out, width=WIDEST, color_system=None, force_terminal=False).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def format_rates(rate: str) -> str:
    """Return the worker's rates in readable form.

    >>> format_rates("391 one_way_gbps 760 both_gbps"), format_rates("walking")
    ('one way 391 GB/s both 760 GB/s', 'walking')
    """

    def told(hit: re.Match[str]) -> str:
        what = f"{hit[2].replace('_', ' ')} " if hit[2] else ""
        return f"{what}{hit[1]} {UNITS[hit[3]]}"

    return printable(RATE.sub(told, rate))


def _summarize(name: str, gpus: Mapping[str, GpuProgress]) -> list[str]:
    """Return the step, the hottest GPU, the power of all, and the slowest GPU."""
    told = [printable(name)] if name else []
    heat = {gpu: seen.temperature_c for gpu, seen in gpus.items() if seen.temperature_c}
    if heat:
        hottest = max(heat, key=lambda gpu: heat[gpu])
        watts = sum(seen.power_w for seen in gpus.values())
        power = f", {watts / 1000:.1f} kW together" if watts else ""
        told.append(f"hottest {printable(hottest)} {heat[hottest]:.0f} °C{power}")
    return told + _slowest(gpus)


def _slowest(gpus: Mapping[str, GpuProgress]) -> list[str]:
    """Name the slowest of several GPUs that measure the same thing."""
    rates = {gpu: hit for gpu, seen in gpus.items() if (hit := RATE.fullmatch(seen.rate))}
    if len(rates) < 2 or len({hit.groups()[1:] for hit in rates.values()}) > 1:
        return []
    slowest = min(rates, key=lambda gpu: float(rates[gpu][1]))
    return [f"slowest {printable(slowest)} {format_rates(gpus[slowest].rate)}"]


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours}:{minutes_left:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
