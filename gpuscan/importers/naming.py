"""Give each GPU one name: parts of an input know it by address, index or UUID, or not at all."""

from collections.abc import Iterable, Sequence

from gpuscan.importers.part import NAMELESS, by_index
from gpuscan.recording import Reading
from gpuscan.recording.keys import IMPORTED_GPUS, parse_nvml

BY_INDEX = "nvml:nvmlDeviceGetHandleByIndex("
UUID = "nvml:nvmlDeviceGetUUID("


def unify_gpus(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings with each GPU under its best name, and one list of the GPUs.

    >>> uuid = "GPU-10000000-0000-4000-8000-000000000000"
    >>> for reading in unify_gpus([
    ...     Reading(f"nvml:nvmlDeviceGetUUID(GPU 0)", uuid),
    ...     Reading(f"nvml:nvmlDeviceGetUUID(0000:19:00.0)", uuid),
    ...     Reading("nvml:nvmlDeviceGetName(GPU 0)", "NVIDIA H200"),
    ... ]):
    ...     print(reading.key)
    nvml:nvmlDeviceGetUUID(0000:19:00.0)
    nvml:nvmlDeviceGetUUID(0000:19:00.0)
    nvml:nvmlDeviceGetName(0000:19:00.0)
    """
    names = _best_names(readings)
    kept, gpus = [], list[str]()
    for reading in readings:
        if reading.key == IMPORTED_GPUS:
            gpus += [names.get(gpu, gpu) for gpu in reading.value]
        else:
            kept.append(_rename(reading, names))
    return [*kept, Reading(IMPORTED_GPUS, list(dict.fromkeys(gpus)))] if gpus else kept


def _best_names(readings: Sequence[Reading]) -> dict[str, str]:
    """Return the name to use by each other name: the address if it is known."""
    uuids = {
        _gpu(reading.key): str(reading.value)
        for reading in readings
        if reading.key.startswith(UUID) and reading.error is None
    }
    addresses = {uuid: gpu for gpu, uuid in uuids.items() if _is_address(gpu)}
    names: dict[str, str] = {}
    for gpu, uuid in uuids.items():
        if uuid in addresses and not _is_address(gpu):
            names[gpu] = addresses[uuid]
    for gpu, uuid in uuids.items():
        if gpu != uuid and not gpu.startswith("GPU-"):
            names[uuid] = gpu
    names |= addresses
    for reading in readings:
        if reading.key.startswith(BY_INDEX) and _is_address(reading.value):
            names.setdefault(by_index(_gpu(reading.key)), reading.value)
    known = {names.get(gpu, gpu) for gpu in _all_gpus(readings)} - {NAMELESS}
    if len(known) == 1:  # then the nameless GPU can only be this one
        names[NAMELESS] = known.pop()
    return {other: names.get(name, name) for other, name in names.items()}


def _all_gpus(readings: Sequence[Reading]) -> Iterable[str]:
    return (gpu for reading in readings if reading.key == IMPORTED_GPUS for gpu in reading.value)


def _gpu(key: str) -> str:
    arguments = parse_nvml(key)[1]
    return arguments[0] if arguments else ""


def _is_address(name: object) -> bool:
    return isinstance(name, str) and name.count(":") > 1


def _rename(reading: Reading, names: dict[str, str]) -> Reading:
    """Put a GPU's name into a key: the first argument of an NVML call, or in place of NAMELESS."""
    key = reading.key
    if key.startswith(BY_INDEX):
        return reading._replace(value=names.get(reading.value, reading.value))
    if key.startswith("nvml:"):
        gpu = _gpu(key)
        key = key.replace(f"({gpu}", f"({names.get(gpu, gpu)}", 1)
    elif NAMELESS in names:
        key = key.replace(NAMELESS, names[NAMELESS])
    error = reading.error._replace(key=key) if reading.error is not None else None
    return reading._replace(key=key, error=error)
