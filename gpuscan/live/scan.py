"""A live scan: plan, read, plan again with what is now known, until nothing more is wanted."""

import time
from collections.abc import Callable, Collection, Mapping

from gpuscan import __version__, collectors
from gpuscan.live import process as source
from gpuscan.live.supervisor import Guard, Options
from gpuscan.recording import Meta, Recording


def scan(
    children: Mapping[str, source.Child],
    options: Options,
    waiting: Callable[[str, float], None],
    gpus: Collection[str] = (),
    *,
    cables: bool = False,
    keys: Collection[str] = (),
) -> Recording:
    """Read this machine and return its recording.

    *children* are readers forked earlier; *waiting* is told of a key that takes long; *GPUs*
    limits NVML to these PCI addresses, so that a GPU that hangs need not be touched; *cables*
    reads the far end of each port, too; *keys*, if any, are all that is read.
    """
    started = time.time()
    meta = Meta(
        gpuscan_version=__version__, made_at=round(started, 3), cables=True if cables else None
    )
    recording = Recording(meta, collectors.scope(cables=cables))
    guard = Guard(children, options, waiting)
    try:
        while wanted := [
            key
            for key in keys or collectors.plan(recording)
            if key not in recording and _asked(key, gpus)
        ]:
            for reading in guard.read(wanted):
                recording.add(reading)
        if not source.caught:
            for reading in guard.read(_again(recording)):
                recording.add(reading)
    finally:
        guard.close()
    recording.meta = recording.meta._replace(duration_s=round(time.time() - started, 3))
    if source.caught:
        recording.meta = recording.meta._replace(ended_by_signal=int(source.caught[0]))
    return recording


def _asked(key: str, gpus: Collection[str]) -> bool:
    return (
        not gpus
        or not key.startswith("nvml:nvmlDevice")
        or ":" not in key[5:]
        or any(gpu in key for gpu in gpus)
    )


def _again(recording: Recording) -> list[str]:
    """Return the keys to sample a second time: those that were answered the first time."""
    return [
        key
        for key in collectors.again(recording)
        if key in recording and recording.all(key)[-1].error is None
    ]
