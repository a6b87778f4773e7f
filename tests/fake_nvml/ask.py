"""Asks the NVML on the library path for ``nvml:`` keys, and prints what comes as readings.

Run as a program, keys as a JSON list on standard input. It goes through the real pynvml and knows
nothing of scenarios, so that what it prints is what any caller would get.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import re
import sys
from typing import Any

pynvml: Any = importlib.import_module("pynvml")

# Calls to which pynvml's callers bring the structure.
_BROUGHT = {
    "nvmlDeviceGetGpuFabricInfo": "c_nvmlGpuFabricInfo_t",
    "nvmlDeviceGetGpuFabricInfoV": "c_nvmlGpuFabricInfo_v3_t",
    "nvmlDeviceGetPlatformInfo": "c_nvmlPlatformInfo_v2_t",
    "nvmlDeviceGetRemappedRows_v2": "c_nvmlRemappedRowsInfo_v2_t",
    "nvmlDeviceGetSramEccErrorStatus": "c_nvmlEccSramErrorStatus_v1_t",
}


def plain(value: Any) -> Any:
    """The value as JSON has it; structures without the version word, which the caller brings."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (ctypes.Array, list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, ctypes.Structure):
        names = [name for name, *_ in value._fields_ if name != "version"]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    if hasattr(value, "__dict__"):  # pynvml's copies of structures
        return {name: plain(item) for name, item in vars(value).items()}
    return value


def ask(key: str) -> Any:
    """The answer to one key; NVMLError if NVML says no."""
    name, words = re.fullmatch(r"nvml:(\w+)\((.*)\)", key).groups()  # type: ignore[union-attr]
    args: list[Any] = [word for word in words.split(",") if word]
    if name == "nvmlDeviceGetHandleByPciBusId":
        return bool(pynvml.nvmlDeviceGetHandleByPciBusId(args[0]))
    args = [
        pynvml.nvmlDeviceGetHandleByPciBusId(word) if ":" in word else int(word) for word in args
    ]
    if name == "nvmlDeviceGetHandleByIndex":
        handle = pynvml.nvmlDeviceGetHandleByIndex(*args)
        return pynvml.nvmlDeviceGetPciInfo(handle).busIdLegacy
    if name == "nvmlDeviceGetFieldValues":
        return field_value(pynvml.nvmlDeviceGetFieldValues(args[0], [(args[1], args[2])])[0])
    if name not in _BROUGHT:
        return plain(getattr(pynvml, name)(*args))
    structure = getattr(pynvml, _BROUGHT[name])()
    try:
        getattr(pynvml, name)(*args, ctypes.byref(structure))
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
            raise
        structure = pynvml.c_nvmlGpuFabricInfo_v2_t()
        getattr(pynvml, name)(*args, ctypes.byref(structure))
    return plain(structure)


def field_value(value: Any) -> Any:
    """The field's number by its type; its own return code is raised as NVML's error."""
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(value.nvmlReturn)
    members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    return getattr(value.value, members[value.valueType])


def reading(key: str) -> dict[str, Any]:
    """One reading, as a recording has it, without time and latency."""
    try:
        return {"key": key, "value": ask(key)}
    except pynvml.NVMLError as error:
        return {"key": key, "error": {"text": str(error), "code": error.value}}


def main() -> None:
    """Initialise, ask for each key in order, print each reading as soon as it is there."""
    keys = json.load(sys.stdin)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        failed = {"key": "nvml:nvmlInit()", "error": {"text": str(error), "code": error.value}}
        print(json.dumps(failed), flush=True)
        return
    for key in keys:
        print(json.dumps(reading(key)), flush=True)


if __name__ == "__main__":
    main()
