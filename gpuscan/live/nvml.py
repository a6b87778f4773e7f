"""Reads NVML through nvidia-ml-py: calls by name, field values in batches, GPUs by PCI address."""

import ctypes
import time
from collections.abc import Iterator
from typing import Any

import pynvml

from gpuscan.live.gpm import Gpm
from gpuscan.live.library import find_library
from gpuscan.live.reader import Answer, Places
from gpuscan.model.nvml import INVALID_ARGUMENT, meaning_of
from gpuscan.recording.keys import INIT, gpu_of, parse_nvml

FIELD_VALUES = "nvmlDeviceGetFieldValues"
# in a batch with others they make those 0.0
C2C_FIELDS = frozenset(map(str, (170, 171, 172, 231, 232, 233, 234)))
# these calls fill a structure of the caller's; of several versions the newest is asked for first
STRUCTURES = {
    "nvmlDeviceGetSramEccErrorStatus": ("c_nvmlEccSramErrorStatus_v1_t",),
    "nvmlDeviceGetGpuFabricInfoV": ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"),
    "nvmlDeviceGetGpuFabricInfo": ("c_nvmlGpuFabricInfo_t",),
}
# the member that holds a field's value, by value type
VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class NvmlReader:
    """Answers calls. A GPU whose answer took longer than *slow_s* is asked nothing more: its
    firmware is dead.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self.handles: dict[str, Any] = {}
        self.started = False
        self.silent: dict[str, str] = {}
        self.gpm = Gpm()

    def batches(self, keys: list[str]) -> Iterator[list[str]]:
        """Yield the keys one by one, except for one GPU's field values, which go together."""
        batch: list[str] = []
        for key in keys:
            if batch and not (_batch_of(key) and _batch_of(key) == _batch_of(batch[0])):
                yield batch
                batch = []
            batch.append(key)
        if batch:
            yield batch

    def answer(self, batch: list[str]) -> list[Answer]:
        """Return the answers to one call; an NVML error is the answer to each of its keys."""
        address = gpu_of(batch[0])
        if address in self.silent:
            return [(key, None, ("blocked-behind", self.silent[address], None)) for key in batch]
        start_s = time.monotonic()
        try:
            return self._ask(address, batch)
        except pynvml.NVMLError as error:
            code = int(error.value)
            return [(key, None, (meaning_of(code).kind, str(error), code)) for key in batch]
        finally:
            took_s = time.monotonic() - start_s
            if address and took_s > self.places.slow_s:
                self.silent[address] = f"not asked: {batch[0]} took {took_s:.1f} s"

    def _ask(self, address: str, batch: list[str]) -> list[Answer]:
        name, arguments = parse_nvml(batch[0])
        self.start()
        if name == FIELD_VALUES:
            pairs = [tuple(map(int, parse_nvml(key)[1][1:])) for key in batch]
            values = pynvml.nvmlDeviceGetFieldValues(self.handle(address), pairs)
            return [_field(key, value) for key, value in zip(batch, values, strict=True)]
        return [(batch[0], self.call(name, address, arguments), None)]

    def start(self) -> None:
        """Initialise NVML once. A driver root's library is loaded first: the binding then finds the
        name already loaded.
        """
        if self.started:
            return
        library = find_library(self.places.driver_root)
        if library:
            try:
                ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
            except OSError:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND) from None
        pynvml.nvmlInit()
        self.started = True

    def handle(self, address: str) -> Any:
        """Open a GPU by its PCI address, once."""
        if address not in self.handles:
            self.handles[address] = pynvml.nvmlDeviceGetHandleByPciBusId(address.encode("ascii"))
        return self.handles[address]

    def call(self, name: str, address: str, arguments: list[str]) -> Any:
        """Call one function of NVML and return its result as JSON data."""
        if f"nvml:{name}()" == INIT:
            return True
        if name == "nvmlGpmMetricsGet":
            return self.gpm.since_last(address, self.handle(address))
        if name == "nvmlDeviceGetHandleByPciBusId":
            return self.handle(address) is not None
        function = getattr(pynvml, name, None)
        if function is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        if name == "nvmlDeviceGetHandleByIndex":
            return _address(pynvml.nvmlDeviceGetPciInfo(function(int(arguments[0]))).busId)
        if name in STRUCTURES:
            return as_json(_fill(function, self.handle(address), STRUCTURES[name]))
        if address:
            return as_json(function(self.handle(address), *map(int, arguments[1:])))
        return as_json(function(*map(int, arguments)))


def _fill(function: Any, handle: Any, versions: tuple[str, ...]) -> Any:
    """Return the newest version of a structure that both binding and driver know."""
    *newer, oldest = [version for version in versions if hasattr(pynvml, version)] or versions[-1:]
    for version in newer:
        filled = getattr(pynvml, version)()
        try:
            function(handle, ctypes.byref(filled))
        except pynvml.NVMLError_ArgumentVersionMismatch:
            continue
        return filled
    filled = getattr(pynvml, oldest)()
    function(handle, ctypes.byref(filled))
    return filled


def _batch_of(key: str) -> str:
    """Return the name of a key's batch: a GPU's field values, with those of its C2C links apart;
    "" for any other key.
    """
    name, arguments = parse_nvml(key)
    if name != FIELD_VALUES:
        return ""
    return f"{arguments[0]} C2C" if arguments[1] in C2C_FIELDS else arguments[0]


def _field(key: str, value: Any) -> Answer:
    """Return one field's answer; a driver without that field returns "invalid argument"."""
    code = int(value.nvmlReturn)
    if code:
        kind = "not-supported" if code == INVALID_ARGUMENT else meaning_of(code).kind
        return key, None, (kind, str(pynvml.NVMLError(code)), code)
    if value.valueType >= len(VALUE_MEMBERS):
        return key, None, ("garbled", f"value type {value.valueType}", None)
    return key, getattr(value.value, VALUE_MEMBERS[value.valueType]), None


def _address(bus_id: Any) -> str:
    text = bus_id.decode("ascii") if isinstance(bus_id, bytes) else str(bus_id)
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def as_json(value: Any) -> Any:
    """Return a value of pynvml's as JSON data: structures as dicts without their version, byte
    strings as text.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, ctypes.Array) and value._type_ is ctypes.c_ubyte:
        return bytes(value).hex()
    if hasattr(value, "_fields_"):
        return {
            field[0]: as_json(getattr(value, field[0]))
            for field in value._fields_
            if field[0] != "version"
        }
    if hasattr(value, "value"):
        return as_json(value.value)
    if hasattr(value, "__dict__") and not hasattr(
        value, "__len__"
    ):  # pynvml's own copies of structures
        return {name: as_json(item) for name, item in vars(value).items()}
    return [as_json(item) for item in value]
