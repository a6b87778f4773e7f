"""A live scan: plan, read, plan again with what is now known, until nothing more is planned."""

import time
from collections.abc import Callable, Collection, Mapping

from gpuscan import __version__, collectors
from gpuscan.live import signals
from gpuscan.live.process import Child
from gpuscan.live.supervisor import ReadOptions, ReadSupervisor
from gpuscan.recording import Meta, Recording

WINDOW_S = 1.0  # a slowdown that lasts is no change of the P-state, and an error rate is per second


def scan(
    readers: Mapping[str, Child],
    options: ReadOptions,
    on_wait: Callable[[str, float], None],
    gpus: Collection[str] = (),
    *,
    cables: bool = False,
    keys: Collection[str] = (),
) -> Recording:
    """Read this machine and return its recording.

    *readers* were forked earlier; *on_wait* is as in `ReadSupervisor`; *gpus* limits NVML to these
    PCI addresses, so that a GPU that hangs need not be touched; *cables* reads the far end of each
    port too; *keys*, if any, are all that is read.
    """
    started_s = time.time()
    meta = Meta(
        gpuscan_version=__version__,
        made_at=round(started_s, 3),
        zone_s=time.localtime(started_s).tm_gmtoff,
        cables=True if cables else None,
    )
    recording = Recording(meta, collectors.scope(cables=cables))
    supervisor = ReadSupervisor(readers, options, on_wait)
    try:
        while missing := [
            key
            for key in keys or collectors.plan(recording)
            if key not in recording and _is_asked(key, gpus)
        ]:
            for reading in supervisor.read(missing):
                recording.add(reading)
        if not signals.received:
            for reading in supervisor.read(_second_samples(recording)):
                recording.add(reading)
        _look_again(recording, supervisor)
        for death in supervisor.deaths:
            recording.add(death)
    finally:
        supervisor.close()
    recording.meta = recording.meta._replace(duration_s=round(time.time() - started_s, 3))
    if signals.received:
        recording.meta = recording.meta._replace(ended_by_signal=int(signals.received[0]))
    return recording


def _look_again(recording: Recording, supervisor: ReadSupervisor) -> None:
    """Take a third sample of what the first two, often 50 ms apart, leave open."""
    keys = [] if signals.received else collectors.doubtful(recording)
    if not keys or time.monotonic() + 2 * WINDOW_S > supervisor.ends_s:
        return
    first_s = min(recording.all(key)[0].at_s for key in keys)
    time.sleep(min(max(first_s + WINDOW_S - time.time(), 0.0), WINDOW_S))
    if signals.received:
        return
    for reading in supervisor.read(keys):
        if reading.error is None or reading.error.kind != "blocked-behind":  # two samples stand
            recording.add(reading)


def _is_asked(key: str, gpus: Collection[str]) -> bool:
    return (
        not gpus
        or not key.startswith("nvml:nvmlDevice")
        or ":" not in key[5:]
        or any(gpu in key for gpu in gpus)
    )


def _second_samples(recording: Recording) -> list[str]:
    """Return the keys to sample a second time: those that were answered the first time."""
    return [
        key
        for key in collectors.again(recording)
        if key in recording and recording.all(key)[-1].error is None
    ]
