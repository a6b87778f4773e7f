"""Patch a recording: plant faults in it, by key or glob."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpuscan.model import Unread
from gpuscan.recording.readings import Reading, Recording


def patch(recording: Recording, changes: Mapping[str, Any], log: Iterable[str] = ()) -> Recording:
    """Return a copy with other readings of the keys in *changes*, and the kernel messages *log*.

    A key of *changes* is a reading's key or a glob, which changes every key that matches. A key
    without a wildcard that was never asked is added. A change is one of

    - a value, for every reading of the key
    - `{"error": [kind, text]}`, which a return code may follow
    - None, which removes the readings
    - `{"samples": [change, …]}`: as many readings as there are changes
    - `{"growth": n}`: two readings, the first value and that value plus n
    - `{"with": {…}}`: other values for some keys of an object
    - `{"phase": p, "value" | "growth" | "error": …}`: one more reading, in that phase
    """
    readings = [
        reading for key in recording.keys() for reading in _patch_key(recording.all(key), changes)
    ]
    for key, change in changes.items():
        if "*" not in key and key not in recording and change is not None:
            readings += _apply([Reading(key, None)], change)
    lines = list(log)
    if lines:
        readings = [_append_log(reading, lines) for reading in readings]
    return Recording(recording.meta, recording.scope, readings)


def _patch_key(readings: list[Reading], changes: Mapping[str, Any]) -> list[Reading]:
    """Return the readings of one key after the first change that matches it."""
    for key, change in changes.items():
        if readings[0].key == key or ("*" in key and fnmatchcase(readings[0].key, key)):
            return [] if change is None else _apply(readings, change)
    return readings


def _apply(readings: list[Reading], change: Any) -> list[Reading]:
    first, last = readings[0], readings[-1]
    form = set(change) if isinstance(change, dict) else set()
    if "phase" in form and len(form) == 2:
        return _add_phase(readings, change)
    if form == {"growth"}:
        change = {"samples": [first.value, _grow(first.value, change["growth"])]}
    elif form == {"with"}:
        change = _merge(last.value, change["with"])
    if isinstance(change, dict) and set(change) == {"samples"}:
        samples = change["samples"]
        sources = [first, *(last for _ in samples[1:])]
        return [_answer(reading, value) for reading, value in zip(sources, samples, strict=True)]
    return [_answer(reading, change) for reading in readings]


def _add_phase(readings: list[Reading], change: Mapping[str, Any]) -> list[Reading]:
    last = readings[-1]
    rest = {name: value for name, value in change.items() if name != "phase"}
    value = _grow(last.value, rest["growth"]) if "growth" in rest else rest.get("value", rest)
    was_read = last.value is not None or last.error is not None
    return [*(readings if was_read else ()), _answer(last, value)._replace(phase=change["phase"])]


def _merge(value: Any, changes: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(changes, dict):
        return changes
    return value | {name: _merge(value.get(name), change) for name, change in changes.items()}


def _grow(value: Any, by: int) -> Any:
    """Return a counter plus *by*: a number, or a file that ends with one."""
    if not isinstance(value, str):
        return value + by
    hit = re.fullmatch(r"(.*?)(\d+)(\s*)", value, re.DOTALL)
    if hit is None:
        raise ValueError(f"{value!r} does not end with a number, so it cannot grow")
    return f"{hit[1]}{int(hit[2]) + by}{hit[3]}"


def _answer(reading: Reading, change: Any) -> Reading:
    if isinstance(change, dict) and set(change) == {"error"}:
        kind, text, *code = change["error"]
        return reading._replace(value=None, error=Unread(reading.key, kind, text, *code))
    return reading._replace(value=change, error=None)


def _append_log(reading: Reading, lines: list[str]) -> Reading:
    """Append messages to a reading of the kernel's ring buffer, each one second after the last."""
    if not reading.key.startswith("kmsg:") or reading.error is not None:
        return reading
    last = reading.value[-1].split(";")[0].split(",") if reading.value else ["4", "0", "0", "-"]
    sequence, stamp_us = int(last[1]), int(last[2])
    new = [
        f"4,{sequence + n},{stamp_us + n * 1_000_000},-;{line}" for n, line in enumerate(lines, 1)
    ]
    return reading._replace(value=[*reading.value, *new])
