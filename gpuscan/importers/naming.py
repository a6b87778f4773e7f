"""One name for each GPU: parts of an input know it by address, index or UUID, and one may not
know which it is about.
"""

from collections.abc import Iterable, Sequence

from gpuscan.importers.part import NAMELESS, TOLD_GPUS, by_index
from gpuscan.recording import Reading

BY_INDEX = "nvml:nvmlDeviceGetHandleByIndex("
UUID = "nvml:nvmlDeviceGetUUID("


def joined(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings with every GPU under its best name, and one list of the GPUs that were
    told of.
    """
    names = _aliases(readings)
    kept, gpus = [], list[str]()
    for reading in readings:
        if reading.key == TOLD_GPUS:
            gpus += [names.get(gpu, gpu) for gpu in reading.value]
        else:
            kept.append(_renamed(reading, names))
    return [*kept, Reading(TOLD_GPUS, list(dict.fromkeys(gpus)))] if gpus else kept


def _aliases(readings: Sequence[Reading]) -> dict[str, str]:
    """Return other names and the name to use: an address where one is known."""
    uuids = {
        _gpu(r.key): str(r.value) for r in readings if r.key.startswith(UUID) and r.error is None
    }
    addresses = {uuid: gpu for gpu, uuid in uuids.items() if _is_address(gpu)}
    names = {
        gpu: addresses[uuid]
        for gpu, uuid in uuids.items()
        if uuid in addresses and not _is_address(gpu)
    }
    names |= {
        uuid: gpu for gpu, uuid in uuids.items() if gpu != uuid and not gpu.startswith("GPU-")
    }
    names |= addresses
    for reading in readings:
        if reading.key.startswith(BY_INDEX) and _is_address(reading.value):
            names.setdefault(by_index(_gpu(reading.key)), reading.value)
    others = {names.get(gpu, gpu) for gpu in _told(readings)} - {NAMELESS}
    if len(others) == 1:
        names[NAMELESS] = others.pop()
    return {other: names.get(name, name) for other, name in names.items()}


def _told(readings: Sequence[Reading]) -> Iterable[str]:
    return (gpu for reading in readings if reading.key == TOLD_GPUS for gpu in reading.value)


def _gpu(key: str) -> str:
    return key.partition("(")[2].rstrip(")").partition(",")[0]


def _is_address(name: object) -> bool:
    return isinstance(name, str) and name.count(":") > 1


def _renamed(reading: Reading, names: dict[str, str]) -> Reading:
    """Put a GPU's name into a key: behind the bracket of an NVML call, between the slashes of a
    file, behind a command.
    """
    key = reading.key
    if key.startswith(BY_INDEX):
        return reading._replace(value=names.get(reading.value, reading.value))
    if key.startswith("nvml:"):
        gpu = _gpu(key)
        name = names.get(gpu, gpu)
        key = key.replace(f"({gpu}", f"({name}", 1)
    elif NAMELESS in names:
        key = key.replace(NAMELESS, names[NAMELESS])
    error = reading.error._replace(key=key) if reading.error is not None else None
    return reading._replace(key=key, error=error)
