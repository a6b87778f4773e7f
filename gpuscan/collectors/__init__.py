"""From recording to facts, area by area: `plan` names the readings wanted, `node` makes records of
them.
"""

from typing import Any

from gpuscan.collectors import fabric, gpu, host, kernel, log, past, service, storage
from gpuscan.collectors.reading import Sources
from gpuscan.model import Node
from gpuscan.recording import Recording


def plan(known: Recording) -> list[str]:
    """Return every key wanted, given what is *known* so far, in the order in which to ask.

    Called again after each round of reading until it wants nothing new: what is in the machine
    decides what is asked.
    """
    return [key for area in (host, kernel, log, gpu, storage, fabric) for key in area.plan(known)]


def scope(*, cables: bool = False) -> list[str]:
    """Return patterns of every key that `plan` can want: what a live scan sets out to read, with or
    without *cables*.

    Written into each recording, so that one made before a fact existed lacks that fact by its
    scope, not by a fault.
    """
    return [
        pattern for area in (host, kernel, log, gpu, storage) for pattern in area.scope()
    ] + fabric.scope(swept=cables)


def again(known: Recording) -> list[str]:
    """Return the counters that are read a second time at the end of a scan: their growth is what
    counts.
    """
    return [key for area in (fabric, gpu) for key in area.again(known)]


def after_load(known: Recording) -> list[str]:
    """Return what is read anew after a burn-in: the kernel log, and what the GPUs say of
    themselves.
    """
    return [key for key in log.scope() if key in known] + gpu.after_load(known)


def notes(recording: Recording) -> list[str]:
    """Return in sentences what a reader of this recording's report should know of how it was read."""
    return log.notes(recording) + _on_engine(recording) + _resumed(recording)


CALIBRATED = ("sm_90a",)  # the kernels that have been run and timed on real GPUs


def _on_engine(recording: Recording) -> list[str]:
    """Say by what a node's GPUs were exercised, and where nobody knows yet how fast that should
    be.
    """
    engine = recording.meta.engine
    if not isinstance(engine, dict) or not engine:
        return []
    code = str(engine.get("code"))
    new = (
        ""
        if code in CALIBRATED
        else "; on such GPUs these kernels have not been timed yet, nor run by their authors"
    )
    return [
        f"exercised at level {recording.meta.level} by gpuscan's kernels for {code} ({engine.get('engine')}){new}"
    ]


def _resumed(recording: Recording) -> list[str]:
    """Say what was not done just now: results from before a repair speak of another state."""
    resumed = recording.meta.resumed
    return [f"the burn-in went on from a checkpoint: {resumed}"] if isinstance(resumed, str) else []


def node(recording: Recording) -> Node:
    """Make the node's facts of a recording: a pure function, the same for a live scan and a
    replay.
    """
    sources: dict[str, tuple[str, ...]] = {}
    driver = kernel.driver(recording, sources)
    kernel_log, gpus, incidents = log.facts(
        recording, gpu.facts(recording, driver, sources), sources
    )
    ports, ethernet_ports = fabric.facts(recording, sources)
    return Node(
        host=host.facts(recording, sources),
        driver=driver,
        gpus=gpus,
        device_minors=gpu.device_minors(recording, sources),
        ports=ports,
        ethernet_ports=ethernet_ports,
        disks=storage.disks(recording, sources),
        firmware=storage.firmware(recording, sources),
        kernel_modules=kernel.modules(recording, sources),
        kernel_log=kernel_log,
        incidents=incidents,
        past=past.facts(recording, sources),
        tests=_tests(recording, gpus, sources),
        sources=sources,
        **service.told(recording, sources),
    )


def _tests(recording: Recording, gpus: Any, sources: Sources) -> Any:
    if recording.meta.level is None:
        return ()
    from gpuscan.collectors import burnin  # a passive scan has no use for it

    return burnin.tests(recording, gpus, sources)
