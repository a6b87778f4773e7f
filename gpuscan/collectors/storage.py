"""The NVMe controllers in sysfs, and the firmware list imported from the BMC."""

from typing import Any

from gpuscan.collectors.reading import Sources, last, names, parsed, take, text
from gpuscan.model import Disk, Firmware, is_unread
from gpuscan.recording import FIRMWARE, Recording

ROOT = "/sys/class/nvme"
FILES = {"address": "address", "model": "model", "serial": "serial", "firmware": "firmware_rev"}


def plan(known: Recording) -> list[str]:
    """Return the listing of disks, then each one's files."""
    listed = take(known, f"dir:{ROOT}", names)
    files = (
        []
        if is_unread(listed)
        else [f"file:{ROOT}/{disk}/{name}" for disk in listed for name in FILES.values()]
    )
    return [f"dir:{ROOT}", *files]


def scope() -> list[str]:
    """Return patterns of all keys that `plan` can return."""
    return [f"dir:{ROOT}", *(f"file:{ROOT}/*/{name}" for name in FILES.values())]


def disks(recording: Recording, sources: Sources) -> Any:
    """Return the disks; a machine without that directory has none."""
    sources["disks"] = (f"dir:{ROOT}",)
    listed = take(recording, f"dir:{ROOT}", names)
    if is_unread(listed):
        return () if listed.kind == "not-found" else listed
    return tuple(_disk(recording, name, sources) for name in listed)


def _disk(recording: Recording, name: str, sources: Sources) -> Disk:
    keys = {fact: f"file:{ROOT}/{name}/{file}" for fact, file in FILES.items()}
    sources.update({f"disks[{name}].{fact}": (key,) for fact, key in keys.items()})
    return Disk(
        label=name,
        **{
            fact: take(recording, key, last if fact == "address" else text)
            for fact, key in keys.items()
        },
    )


def firmware(recording: Recording, sources: Sources) -> Any:
    """Return the imported firmware list; empty if none was imported."""
    sources["firmware"] = (FIRMWARE,)
    rows = recording.get(FIRMWARE)
    return () if is_unread(rows) else parsed(FIRMWARE, rows, _firmware)


def _firmware(rows: Any) -> tuple[Firmware, ...]:
    if not isinstance(rows, list):
        raise ValueError(rows)
    return tuple(
        Firmware(*(_word(row[part]) for part in ("id", "name", "version"))) for row in rows
    )


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value
