"""Services as systemd states them, or an imported text."""

from typing import Any

from gpuscan.collectors.pci import has_nvswitch
from gpuscan.collectors.reading import Sources, names, take, text
from gpuscan.model import Fact, Gpu, Service, is_unread, read_or
from gpuscan.recording import Recording

UNIT = "service:"
BOOTED = "dir:/run/systemd/system"  # there if systemd runs this machine: sd_booted(3)
UNITS = (
    "nvidia-fabricmanager",
    "nvidia-persistenced",
    "nvidia-imex",
    "nvidia-dcgm",
    "nvlsm",
    "openibd",
    "opensm",
)
SHOW = (
    "run:systemctl show --no-pager "
    "--property=Id,LoadState,ActiveState,SubState,Result,UnitFileState "
    + " ".join(f"{unit}.service" for unit in UNITS)
)
FABRIC_MANAGER = "nvidia-fabricmanager"
STATED = ("active", "result", "enabled", "loaded")  # the facts that an imported text gives


def plan(known: Recording) -> list[str]:
    """Return what tells whether systemd runs here, then its answer on the units."""
    if is_unread(known.get(BOOTED)):
        return [BOOTED]
    return [BOOTED, SHOW]


def scope() -> list[str]:
    """Return patterns of all keys that `plan` can return."""
    return [BOOTED, SHOW]


def services(
    recording: Recording, gpus: Fact[tuple[Gpu, ...]], sources: Sources
) -> Fact[tuple[Service, ...]]:
    """Return the units that systemd or an imported text names; Unread if systemd did not answer.

    A machine without systemd has none.
    """
    imported = [key for key in recording.keys() if key.startswith(UNIT)]
    sources.update({f"services[{key.removeprefix(UNIT)}]": (key,) for key in imported})
    told = tuple(_service(recording, key) for key in imported)
    sources["services"] = (BOOTED, SHOW)
    fabric = has_nvswitch(recording) or _reports_fabric(gpus)
    booted: Fact[tuple[str, ...]] = take(recording, BOOTED, names)
    shown: Fact[tuple[Service, ...]] = (
        booted
        if is_unread(booted)
        else take(recording, SHOW, lambda value: _units(text(value), fabric=fabric))
    )
    if is_unread(booted):
        return told if told or booted.kind == "not-found" else booted
    if is_unread(shown):  # with --root no command is run
        return told if told or shown.kind == "not-supported" else shown
    sources.update({f"services[{one.label}]": (SHOW,) for one in shown})
    return told + tuple(shown)


def _units(shown: str, *, fabric: bool) -> tuple[Service, ...]:
    """Parse the blocks of `systemctl show`, one a unit; units that are not installed are left out.

    A unit that keeps restarting is `activating` with the result `auto-restart`.
    """
    blocks = [
        dict(line.partition("=")[::2] for line in block.splitlines())
        for block in shown.strip().split("\n\n")
    ]
    return tuple(
        Service(
            label=block["Id"].removesuffix(".service"),
            active=block["ActiveState"],
            result=block["SubState"] if block["ActiveState"] == "activating" else block["Result"],
            enabled=block["UnitFileState"],
            loaded=block["LoadState"],
            needed="yes" if fabric or not block["Id"].startswith(FABRIC_MANAGER) else "no",
        )
        for block in blocks
        if block["LoadState"] != "not-found"
    )


def _reports_fabric(gpus: Fact[tuple[Gpu, ...]]) -> bool:
    """Return whether a GPU says that it belongs to a fabric: NVSwitches may be on no PCI bus."""
    states = [gpu.fabric.state for gpu in read_or(gpus, ()) if not is_unread(gpu.fabric)]
    return any(not is_unread(state) and state > 0 for state in states)


def _service(recording: Recording, key: str) -> Service:
    words = take(recording, key, lambda value: {name: _word(value[name]) for name in STATED})
    facts: list[Any] = [words if is_unread(words) else words[name] for name in STATED]
    return Service(key.removeprefix(UNIT), *facts)


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value
