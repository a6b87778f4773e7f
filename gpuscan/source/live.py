"""A live scan: plan, read, plan again with what is now known, until nothing more is wanted."""

import time
from collections.abc import Callable, Collection
from typing import Any

from gpuscan import __version__, collectors
from gpuscan.recording import Recording
from gpuscan.source import Child, spawn_all
from gpuscan.source.guard import Guard, Limits, Options


def scan(
    children: dict[str, Child] | None,
    options: Options,
    waiting: Callable[[str, float], None],
    cards: Collection[str] = (),
) -> tuple[Recording, int]:
    """Read this machine and return its recording and the signal that ended the scan early, 0 if none did.

    *children* are readers forked earlier; *waiting* is told of a key that takes long; *cards* limits NVML to these
    PCI addresses, so that a card that hangs need not be touched.
    """
    started = time.time()
    recording = Recording({"gpuscan_version": __version__, "made_at": round(started, 3)}, collectors.scope())
    guard = Guard(children or spawn_all(), options, waiting)
    guard.watch_signals()
    try:
        while wanted := [key for key in collectors.plan(recording) if key not in recording and _asked(key, cards)]:
            for reading in guard.read(wanted):
                recording.add(reading)
        if not guard.stopped:
            for reading in guard.read(_again(recording)):
                recording.add(reading)
    finally:
        guard.close()
    recording.meta["duration_s"] = round(time.time() - started, 3)
    if guard.stopped:
        recording.meta["ended_by_signal"] = int(guard.stopped)
    return recording, guard.stopped


def _asked(key: str, cards: Collection[str]) -> bool:
    return not cards or not key.startswith("nvml:nvmlDevice") or ":" not in key[5:] or any(card in key for card in cards)


def _again(recording: Recording) -> list[str]:
    """Return the keys to sample a second time: those that were answered the first time."""
    return [key for key in collectors.again(recording) if key in recording and recording.all(key)[-1].error is None]


def limits_from(text: str) -> Limits:
    """Return limits such as `init=2,call=1,host=1`; tests shorten them through GPUSCAN_LIMITS."""
    pairs: dict[str, Any] = {f"{k}_s": float(v) for k, v in (pair.split("=") for pair in text.split(",") if pair)}
    return Limits(**pairs)
