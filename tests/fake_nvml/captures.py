"""Turns a dump of every NVML getter of a real node into a recording, to try the fake on.

The dump is one JSON object: ``system`` and ``devices`` map pynvml's function names to ``v`` (the
value) or ``e`` (the error) and ``us``; ``extra`` of a device has the calls with arguments, without
``nvmlDeviceGet``, and a batch of field values.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .calls import encodable
from .scenario import canonical_address, parse_key

_EXTRA = re.compile(r"(\w+)(?:\((.*)\))?")


def load(path: Path) -> dict[str, Any]:
    """The dump as a recording; its ``left_out`` names the values that have no signature here."""
    dump = json.loads(path.read_text(encoding="utf-8"))
    readings: list[dict[str, Any]] = []
    left_out: list[str] = []
    for key, answer in _answers(dump):
        call = parse_key(key)
        assert call is not None, key
        if "e" in answer:
            readings.append({"key": key, "error": _error(answer["e"])})
        elif encodable(call.symbol):
            readings.append({"key": key, "value": _without_version(answer["v"])})
        else:
            left_out.append(key)
    frame = {"format": "gpuscan-recording", "schema_version": "1.0", "scope": ["*"]}
    return {**frame, "readings": readings, "left_out": left_out}


def _answers(dump: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, answer in dump["system"].items():
        yield f"nvml:{name}()", answer
    for device in dump["devices"]:
        address = canonical_address(device["nvmlDeviceGetPciInfo"]["v"]["busId"])
        yield f"nvml:nvmlDeviceGetHandleByPciBusId({address})", {"v": True}
        for name, answer in device.items():
            if name != "extra":
                yield f"nvml:{name}({address})", answer
        for name, answer in device["extra"].items():
            if name.startswith("FieldValues"):
                for field, value in answer["v"].items():
                    yield f"nvml:nvmlDeviceGetFieldValues({address},{field},0)", {"v": value}
                continue
            match = _EXTRA.fullmatch(name)
            assert match is not None, name
            short, args = match.groups()
            getter = {"FabricInfoV": "GpuFabricInfoV"}.get(short, short)
            comma = f",{args}" if args else ""
            yield f"nvml:nvmlDeviceGet{getter}({address}{comma})", answer


def _without_version(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: item for name, item in value.items() if name != "version"}


def _error(text: str) -> dict[str, Any]:
    """The error with its number, by the name of pynvml's exception class."""
    name, _, message = text.partition(": ")
    errors: Any = importlib.import_module("pynvml")
    code = getattr(errors, name)().value
    return {
        "kind": "not-supported" if code == errors.NVML_ERROR_NOT_SUPPORTED else "garbled",
        "text": message,
        "code": code,
    }
