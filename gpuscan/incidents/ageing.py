"""How old lines end: by the present state where it can be read, else by an hour without return.

A line tells of a moment. Versions, loaded modules, services, ports and the fabric can be asked now,
and then their state decides, however old the line is. Otherwise one burst of a line that the
catalogue lets age (`ages`: class 20, and about no GPU, switch, PCIe, memory or CPU fault) is
history once it is an hour old.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from gpuscan import catalogue
from gpuscan.kernellog.event import NOTHING, Event
from gpuscan.model import Unread, is_unread
from gpuscan.model.outcome import ACTIONS, Action

UNREAD = Unread("", "not-recorded", "not read")
OUT_OF_SCOPE = ("not-recorded", "not-supported", "too-old-driver")
HOUR_S = 3600.0
BURST_S = 600.0  # a server that is away, or a table that is full, is told of every few minutes
SETTING = 20  # the class of what a setting or a service mends
STILL = "still trying"  # of a hard mount: it waits until the server is back, and then says so
FABRIC_COMPLETED = 3
UNITS = {  # systemd units by the program's name, of which the kernel keeps 15 characters
    "nv-fabricmanage": ("nvidia-fabricmanager",),
    "nv-hostengine": ("nvidia-dcgm", "dcgm"),
    "nvidia-persiste": ("nvidia-persistenced",),
    "nvidia-imex": ("nvidia-imex",),
    "slurmd": ("slurmd",),
    "kubelet": ("kubelet",),
    "containerd": ("containerd",),
    "dockerd": ("docker",),
    "crio": ("crio",),
    "sshd": ("sshd", "ssh"),
    "dbus-daemon": ("dbus",),
}


class Present(NamedTuple):
    """What is known of the node now.

    *at_s* is seconds since boot, *wall_s* Unix time: when the state was read, or at least the last
    line of the log; None if unknown. *modules* are the loaded modules, *hcas* whether the node has
    an HCA, *ports* the states of the ports of each HCA by PCI address, *services* the states of
    systemd units by name.
    """

    at_s: float | None = None
    wall_s: float | None = None
    gpus: Any = UNREAD
    driver: Any = UNREAD
    modules: Any = UNREAD
    hcas: Any = UNREAD
    ports: Mapping[str, Sequence[Any]] = NOTHING
    services: Mapping[str, Any] = NOTHING


class _State(NamedTuple):
    """What the present state says of a line: it is settled (*why*), or it stands (*why* is "")."""

    why: str


STANDS = _State("")


def find_end(events: Sequence[Event], action: Action, present: Present) -> str:
    """Return what of the present ends the fault of these events of one code and part, "" if
    nothing does.
    """
    if ACTIONS[action].exit_code != SETTING:
        return ""
    last = events[-1]
    ask = STATES.get(last.entry)
    state = ask(last, present) if ask else None
    if state is not None:
        return state.why
    if not catalogue.entry(last.entry).ages or _still_hangs(events):
        return ""
    return "an hour without return" if _is_one_old_burst(events, present) else ""


def _is_one_old_burst(events: Sequence[Event], present: Present) -> bool:
    """Return whether all events, which need a time, are of one burst that ended an hour ago."""
    for now, times in (
        (present.at_s, [event.at_s for event in events]),
        (present.wall_s, [event.wall_s for event in events]),
    ):
        told = sorted(time for time in times if time is not None)
        if now is not None and len(told) == len(events):
            together = all(later - earlier <= BURST_S for earlier, later in pairwise(told))
            return together and now - told[-1] > HOUR_S
    return False


def _still_hangs(events: Sequence[Event]) -> bool:
    """Return whether a line says that something waits until it is told to be over."""
    return any(event.entry == "nfs:not-responding" and STILL in event.text for event in events)


def _unread(*facts: Any) -> _State | None:
    """Return what unread facts say: nothing if they were not asked for (a log alone); else the line
    stands, since the state could have decided.
    """
    asked = [fact for fact in facts if is_unread(fact) and fact.kind not in OUT_OF_SCOPE]
    return STANDS if asked else None


def _versions(_: Event, present: Present) -> _State | None:
    if is_unread(present.driver):
        return _unread(present.driver)
    module, library = present.driver.module_version, present.driver.library_version
    if is_unread(module) or is_unread(library):
        return _unread(module, library)
    return _State(f"module and library, which are both {module}") if module == library else STANDS


def _module(event: Event, present: Present) -> _State | None:
    return _loaded([event.part], present)


def _driver_modules(_: Event, present: Present) -> _State | None:
    return _loaded(["nvidia", "nvidia_uvm"], present)


def _loaded(names: Sequence[str], present: Present) -> _State | None:
    if is_unread(present.modules):
        return _unread(present.modules)
    wanted = [name.replace("-", "_") for name in names]
    if all(name in present.modules for name in wanted):
        return _State(f"the loading of {' and '.join(wanted)}")
    return STANDS


def _peer_memory(_: Event, present: Present) -> _State | None:
    """GPUDirect RDMA serves an HCA: without one nobody misses the module (NVIDIA's guide to it)."""
    if not is_unread(present.hcas) and not present.hcas:
        return _State("the node, which has no HCA")
    if is_unread(present.modules):
        return _unread(present.modules)
    loaded = {"nvidia_peermem", "nv_peer_mem"}.intersection(present.modules)
    return _State(f"the loading of {min(loaded)}") if loaded else STANDS


def _nouveau(_: Event, present: Present) -> _State | None:
    if is_unread(present.modules):
        return _unread(present.modules)
    if "nouveau" in present.modules or "nvidia" not in present.modules:
        return STANDS
    return _State("nvidia, which is loaded instead of nouveau")


def _gpus_in_use(event: Event, present: Present) -> _State:
    """A GPU that the driver opens has its firmware, its memory regions and its interrupt."""
    if is_unread(present.gpus):
        return STANDS
    named = [gpu for gpu in present.gpus if event.address in ("", gpu.address)]
    well = [gpu for gpu in named if not is_unread(gpu.access) and gpu.access == "ok"]
    return _State("the driver, which uses the GPU now") if well and well == named else STANDS


def _fabric(_: Event, present: Present) -> _State | None:
    """A GPU is registered with the fabric by a Fabric Manager that works."""
    gpus = () if is_unread(present.gpus) else present.gpus
    facts = [gpu.fabric if is_unread(gpu.fabric) else gpu.fabric.state for gpu in gpus]
    states = [fact for fact in facts if not is_unread(fact) and fact]
    if not states:
        return _unread(present.gpus, *facts)
    done = all(state == FABRIC_COMPLETED for state in states)
    return _State("the GPUs' registration with the fabric") if done else STANDS


def _fabric_or_stands(event: Event, present: Present) -> _State:
    return _fabric(event, present) or STANDS


def _port(event: Event, present: Present) -> _State:
    states = present.ports.get(event.address, ())
    active = bool(states) and all(state == "ACTIVE" for state in states)
    return _State("the port, which is active") if active else STANDS


def _service(event: Event, present: Present) -> _State | None:
    names = next((UNITS[name] for name in UNITS if event.process.startswith(name)), ())
    known = {name: present.services[name] for name in names if name in present.services}
    states = {name: state for name, state in known.items() if not is_unread(state)}
    if not states:
        return _unread(*known.values())
    running = [name for name, state in states.items() if state == "active"]
    return _State(f"{running[0]}, which is running") if running else STANDS


STATES: Mapping[str, Callable[[Event, Present], _State | None]] = {
    "nvrm:api-mismatch": _versions,
    "nvrm:not-supported": _gpus_in_use,
    "nvrm:probe-not-called": _gpus_in_use,
    "nvrm:no-gpu": _gpus_in_use,
    "nvrm:bar": _gpus_in_use,
    "nvrm:no-irq": _gpus_in_use,
    "nvrm:firmware-missing": _gpus_in_use,
    "nvrm:firmware-version": _gpus_in_use,
    "driver:module-mismatch": _module,
    "driver:unsigned": _driver_modules,
    "driver:nouveau": _nouveau,
    "peermem:symbol": _peer_memory,
    "segfault:service": _service,
    "oom:limit": _service,
    "oom:node": _service,
    "mlx5:module-refused": _port,
    "fm:version": _fabric,
    "fm:not-ready": _fabric,
    "fm:driver-query": _fabric_or_stands,
    "fm:multicast": _fabric_or_stands,
}
