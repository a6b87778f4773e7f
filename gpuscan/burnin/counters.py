"""Error counters and kernel log around and during the tests of a burn-in."""

import re
from collections.abc import Collection, Sequence
from typing import Protocol

from gpuscan.burnin.clock import Clock
from gpuscan.collectors import again
from gpuscan.collectors.burnin_counters import TAIL
from gpuscan.collectors.reading import names
from gpuscan.model import Unread
from gpuscan.recording import Reading, Recording

DRIVER_LINE = re.compile(r"NVRM|nvidia-nvswitch|nvidia-nvlink|SXid", re.IGNORECASE)
MAX_LINES = 200  # kept per test
MEMORY_COUNTERS = (
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetSramEccErrorStatus",
)


class CounterReader(Protocol):
    """What reads this machine during a burn-in (`live.supervisor`), until *ends_s* (monotonic)."""

    ends_s: float

    def read(self, keys: Collection[str]) -> list[Reading]:
        """Read *keys*; each gets a reading, with a value or an error."""


class CounterLog:
    """Keeps in *readings* each counter when it changes, with the test before it as phase, and each
    test's kernel log.
    """

    def __init__(
        self, reader: CounterReader, scan: Recording, gpus: Sequence[str], clock: Clock
    ) -> None:
        self.readings: list[Reading] = []
        self._reader, self._gpus, self._clock = reader, gpus, clock
        self._keys = _counter_keys(scan, gpus)
        self._newest: dict[str, tuple[object, object]] = {}  # value and error
        self._kept: dict[str, int] = {}  # kernel log lines per test
        self._unread: set[str] = set()  # tests in which the kernel log could not be read once

    def read_counters(self, phase: str) -> None:
        """Read the error counters, and keep those that differ from the last time."""
        for reading in self._reader.read([*self._keys, TAIL]):
            newest = (reading.value, reading.error)
            if reading.key == TAIL:
                self.note_log([reading], phase.removeprefix("after:"))
            elif self._is_cut_off(reading):
                continue  # what was read before still holds
            elif self._newest.get(reading.key) != newest:
                self._newest[reading.key] = newest
                self.readings.append(reading._replace(phase=phase))

    def _is_cut_off(self, reading: Reading) -> bool:
        """Return whether a counter was not read because the time was up."""
        if reading.error is None or reading.error.kind != "blocked-behind":
            return False
        return self._clock.interrupted() or self._clock.now() >= self._reader.ends_s

    def note_log(self, readings: Sequence[Reading], test: str) -> None:
        """Keep the kernel's lines of the driver and of these GPUs, and at least one reading per
        test, which shows that the log was read.

        Where more came than is kept, or the log could not be read once, the test's log is unread:
        what else was logged is not known.
        """
        for reading in readings:
            if reading.key == TAIL:
                self._note_lines(reading, test)

    def _note_lines(self, reading: Reading, test: str) -> None:
        first, kept = test not in self._kept, self._kept.get(test, 0)
        failed = reading.error is not None
        if kept > MAX_LINES or (failed and test in self._unread):
            return
        lines = [] if failed else [line for line in names(reading.value) if self._matters(line)]
        self._kept[test] = kept + len(lines)
        if self._kept[test] > MAX_LINES:
            text = f"more than {MAX_LINES} lines were logged in this test: see the kernel log"
            error = Unread(TAIL, "garbled", text)
            self.readings.append(reading._replace(value=None, error=error, phase=test))
        elif failed:
            self._unread.add(test)
            self.readings.append(reading._replace(phase=test))
        elif lines or first:
            self.readings.append(reading._replace(value=lines, phase=test))

    def _matters(self, line: str) -> bool:
        if DRIVER_LINE.search(line):
            return True
        return any(gpu.rsplit(".", 1)[0] in line.lower() for gpu in self._gpus)


def _counter_keys(scan: Recording, gpus: Sequence[str]) -> list[str]:
    """Return the counters' keys: those that a scan reads twice, and those of memory errors."""
    memory = [
        key
        for key in scan.keys()
        if key.startswith("nvml:") and key[5:].split("(")[0] in MEMORY_COUNTERS
    ]
    keys = [*memory, *again(scan)]
    return [key for key in keys if key in scan and any(gpu in key for gpu in gpus)]
