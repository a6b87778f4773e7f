"""From recording to facts, by area: `plan` returns the keys to read, `node` makes records of the
readings.
"""

from typing import Any

from gpuscan.collectors import (
    adapters,
    fabric,
    gpu,
    host,
    kernel,
    log,
    past,
    service,
    storage,
    systemd,
)
from gpuscan.collectors.reading import Sources
from gpuscan.model import Node
from gpuscan.model.proof import PROOF
from gpuscan.recording import Recording


def plan(known: Recording) -> list[str]:
    """Return every key to read, given what is *known* so far, in the order of reading.

    Called again after each round until nothing new is returned, because what is in the machine
    decides what there is to read.
    """
    return [
        key
        for area in (host, kernel, log, gpu, storage, fabric, systemd)
        for key in area.plan(known)
    ]


def scope(*, cables: bool = False) -> list[str]:
    """Return patterns of every key that `plan` can return: what a live scan sets out to read, with
    or without *cables*.

    Each recording keeps it, so that in one made before a fact existed the fact is out of scope, not
    missing.
    """
    return [
        pattern for area in (host, kernel, log, gpu, storage, systemd) for pattern in area.scope()
    ] + fabric.scope(swept=cables)


def again(known: Recording) -> list[str]:
    """Return the counters that are read a second time at the end of a scan, for their growth."""
    return [key for area in (fabric, gpu) for key in area.again(known)]


def doubtful(known: Recording) -> list[str]:
    """Return the keys to sample once more some time later, as the first samples were too close
    together to judge what they show.
    """
    return gpu.doubtful(known)


def after_load(known: Recording) -> list[str]:
    """Return what is read again after a burn-in: the kernel log, the ports' counters, and the GPUs'
    lasting facts.
    """
    others = [key for key in (*log.scope(), *fabric.again(known)) if key in known]
    return others + gpu.after_load(known)


def notes(recording: Recording) -> list[str]:
    """Return sentences on how the recording was made that belong into its report."""
    return log.notes(recording) + _on_engine(recording) + _resumed(recording)


CALIBRATED = ("sm_90a",)  # the kernels that have been run and timed on real GPUs


def _on_engine(recording: Recording) -> list[str]:
    """Return what exercised the GPUs, and whether its speeds were calibrated on such GPUs."""
    engine = recording.meta.engine
    if not isinstance(engine, dict) or not engine:
        return []
    code = str(engine.get("code"))
    new = (
        ""
        if code in CALIBRATED
        else "; on such GPUs these kernels have not been timed yet, nor run by their authors"
    )
    how = "for a proof" if recording.meta.level == PROOF else f"at level {recording.meta.level}"
    return [f"exercised {how} by gpuscan's kernels for {code} ({engine.get('engine')}){new}"]


def _resumed(recording: Recording) -> list[str]:
    """Return where a burn-in resumed: results from before a repair describe another state."""
    resumed = recording.meta.resumed
    return [f"the burn-in resumed from a checkpoint: {resumed}"] if isinstance(resumed, str) else []


def node(recording: Recording) -> Node:
    """Return the node's facts in a recording; the same function serves live scan and replay."""
    sources: dict[str, tuple[str, ...]] = {}
    driver = kernel.driver(recording, sources)
    earlier = past.facts(recording, sources)
    kernel_log, gpus, incidents = log.facts(
        recording, gpu.facts(recording, driver, earlier, sources), sources
    )
    ports, ethernet_ports = fabric.facts(recording, gpus, earlier, sources)
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
        past=earlier,
        tests=_tests(recording, gpus, sources),
        asked=_asked(recording),
        adapters=adapters.facts(recording, sources),
        sources=sources,
        services=systemd.services(recording, gpus, sources),
        **service.facts(recording, sources),
    )


def _asked(recording: Recording) -> tuple[str, ...]:
    if recording.meta.level != PROOF:
        return ()
    from gpuscan.collectors import burnin

    return burnin.asked(recording)


def _tests(recording: Recording, gpus: Any, sources: Sources) -> Any:
    imported = recording.meta.imported is not None
    if recording.meta.level is None and not imported:
        return ()
    from gpuscan.collectors import burnin  # a passive scan has no use for it

    if imported:
        return burnin.pasted_tests(recording, gpus, sources)
    return burnin.tests(recording, gpus, sources)
