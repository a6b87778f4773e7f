"""The present, by which old lines of the kernel log are judged."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscan.collectors import fabric, kernel, systemd
from gpuscan.collectors.reading import Sources, names, take, text
from gpuscan.model import Unread, is_unread, read_or
from gpuscan.recording import Recording

if TYPE_CHECKING:
    from gpuscan.incidents.ageing import Present

UPTIME = "file:/proc/uptime"
PCI = "/sys/bus/pci/devices"
INFINIBAND_CLASS = "PCI_CLASS=207"
NO_PAST = Unread("", "not-recorded", "only the ports' state now is asked for")


def present(recording: Recording, gpus: Any) -> "Present":
    """Return what a recording says of the present; only its log's end, if it is a log alone."""
    from gpuscan.incidents.ageing import Present  # only if there is a log

    sources: Sources = {}
    at_s, wall_s = _now(recording)
    infiniband, ethernet = fabric.facts(recording, gpus, NO_PAST, sources)
    services = {
        one.label.removesuffix(".service"): one.active
        for one in read_or(systemd.services(recording, gpus, sources), ())
    }
    return Present(
        at_s=at_s,
        wall_s=wall_s,
        gpus=gpus,
        driver=kernel.driver(recording, sources),
        modules=kernel.modules(recording, sources),
        hcas=_hcas(recording, infiniband, ethernet),
        ports=_states((*read_or(infiniband, ()), *read_or(ethernet, ()))),
        services=services,
    )


def _now(recording: Recording) -> tuple[float | None, float | None]:
    """Return the seconds since boot and the Unix time of the reading, or those of the latest last
    line of its logs: a file may have been judged long after it was written.
    """
    uptime = take(recording, UPTIME, lambda value: float(text(value).split()[0]))
    if not is_unread(uptime):
        return uptime, recording.meta.made_at
    logs = [recording.get(key) for key in recording.keys() if key.startswith("log:")]
    ends = [log["last"] for log in logs if isinstance(log, dict) and _is_end(log.get("last"))]
    at_s = [end[0] for end in ends if end[0] is not None]
    wall_s = [end[1] for end in ends if end[1] is not None]
    return max(at_s, default=None), max(wall_s, default=None)


def _is_end(value: Any) -> bool:
    numbers = (int, float, type(None))
    return (
        isinstance(value, list) and len(value) == 2 and all(isinstance(x, numbers) for x in value)
    )


def _hcas(recording: Recording, infiniband: Any, ethernet: Any) -> Any:
    """Return whether sysfs lists an RDMA device, or PCI an InfiniBand controller (its driver may be
    missing); Unread if that is not known.
    """
    if is_unread(infiniband):
        return infiniband
    if infiniband or ethernet:
        return True
    listed = take(recording, f"dir:{PCI}", names)
    if is_unread(listed):
        return listed
    uevents = (recording.get(f"file:{PCI}/{device}/uevent") for device in listed)
    return any(INFINIBAND_CLASS in uevent for uevent in uevents if isinstance(uevent, str))


def _states(ports: tuple[Any, ...]) -> Mapping[str, tuple[Any, ...]]:
    states: dict[str, tuple[Any, ...]] = {}
    for port in ports:
        if not is_unread(port.address):
            states[port.address] = (*states.get(port.address, ()), port.state)
    return states
