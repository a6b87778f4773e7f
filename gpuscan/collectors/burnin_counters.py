"""Error counters and kernel log lines of one GPU in one test of a burn-in."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from gpuscan.collectors import gpu_facts
from gpuscan.collectors.reading import names, parsed, take
from gpuscan.model import Amount, Unread, is_unread
from gpuscan.recording import Recording

TAIL = "tail:/dev/kmsg"
CORRECTED = re.compile(r"(?<!un)correct(ed|able)", re.IGNORECASE)
AER = re.compile(r"PCIe Bus Error: severity=", re.IGNORECASE)
# what follows an AER line: the registers, and the name of each bit
AER_DETAIL = re.compile(r"error status/mask=|:\s+\[\s*\d+\]")
UNCORRECTABLE_ECC = "uncorrectable ECC errors"
GROUPED = {
    "uncorrected_volatile": UNCORRECTABLE_ECC,
    "corrected_volatile": "corrected ECC errors",
    "replays": "PCIe replays",
    "fatal": "fatal PCIe errors",
    "nonfatal": "non-fatal PCIe errors",
}
EVERY_GPU_COUNTS = (UNCORRECTABLE_ECC, "PCIe replays")  # of those that are worth a burn-in
LINKED = {
    "replays": "NVLink replays",
    "recoveries": "NVLink recoveries",
    "crc_errors": "NVLink CRC errors",
}
# kinds of errors of a counter that should be there
GRAVE = (
    "lost",
    "timed-out",
    "blocked-behind",
    "garbled",
    "no-permission",
    "reset-required",
)
Parser = Callable[[Any], Any]


def counter_growth(recording: Recording, address: str, test: str) -> Any:
    """Return the error counters of a GPU that rose in a test, by how much; Unread where one of them
    was not read.
    """
    sums: dict[str, int] = {}
    for label, key, parse in _counters(address):
        newest = take(recording, key, parse)
        if is_unread(newest) and newest.kind in GRAVE and not key.startswith("file:"):
            return newest
        if is_unread(newest) and label in EVERY_GPU_COUNTS:
            text = f"this GPU or driver counts no {label}"
            return newest._replace(kind="not-recorded", text=text)
        growth = _growth_in(recording, key, parse, test)
        if growth:
            sums[label] = sums.get(label, 0) + growth
    return tuple(Amount(label, value) for label, value in sums.items())


def _growth_in(recording: Recording, key: str, parse: Parser, test: str) -> int:
    """Return by how much a counter rose in the rounds of a test; one that fell was reset."""
    growth = 0
    readings = [reading for reading in recording.all(key) if reading.error is None]
    for before, after in pairwise(readings):
        first, last = (parsed(key, reading.value, parse) for reading in (before, after))
        if is_unread(first) or is_unread(last) or after.phase != f"after:{test}":
            continue
        growth += max(last - first, 0)
    return growth


def _counters(address: str) -> Iterator[tuple[str, str, Parser]]:
    """Yield the name, key and parser of each error counter of a GPU."""
    asks = {ask.fact: ask for group in gpu_facts.GROUPS for ask in group.asks}
    for fact, label in GROUPED.items():
        yield label, asks[fact].key(address), asks[fact].parse
    rows = next(ask for ask in gpu_facts.OWN if ask.fact == "remapped_rows")
    yield (
        "rows remapped after uncorrectable errors",
        rows.key(address),
        lambda value: rows.parse(value).uncorrectable,
    )
    yield (
        "rows remapped after correctable errors",
        rows.key(address),
        lambda value: rows.parse(value).correctable,
    )
    for link_asks in gpu_facts.LINK_ASKS:
        for ask in link_asks:
            if ask.fact in LINKED:
                yield LINKED[ask.fact], ask.key(address), ask.parse


def logged_lines(recording: Recording, address: str, test: str) -> Any:
    """Return what the kernel logged of a GPU during a test; without that, Unread where the log was
    not followed all the time.

    A corrected PCIe error is counted, and is no fault.
    """
    readings = [reading for reading in recording.all(TAIL) if reading.phase == test]
    values = [reading.value for reading in readings if reading.error is None]
    lines = parsed(TAIL, values, _join_lines)
    if is_unread(lines):
        return lines
    short = address.rsplit(".", 1)[0]
    mine = [line for line in _drop_corrected(lines) if short and short in line.lower()]
    error = next((reading.error for reading in readings if reading.error is not None), None)
    if not mine and error is not None:
        return error
    if not mine and not readings:
        return Unread(TAIL, "blocked-behind", "the kernel log was not followed in this test")
    return tuple(line.partition(";")[2] or line for line in mine)


def _join_lines(values: Sequence[Any]) -> list[str]:
    return [line for value in values for line in names(value)]


def _drop_corrected(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines but for those of corrected errors, with their lines of details."""
    corrected = False
    for line in lines:
        if AER.search(line):
            corrected = bool(CORRECTED.search(line))
        if not CORRECTED.search(line) and not (corrected and AER_DETAIL.search(line)):
            yield line
