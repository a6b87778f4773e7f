"""Turns recorded values back into the bytes that NVML would have written."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from .calls import SIGNATURES, pynvml

NOT_AVAILABLE = -1  # all bits set, whatever the width: NVML's "no value" in process lists

# NVML's nvmlValueType_t: how the eight bytes of a field value are to be read.
_VALUE_FORMS: Mapping[int, Any] = {
    0: ctypes.c_double,
    1: ctypes.c_uint,
    2: ctypes.c_ulong,
    3: ctypes.c_ulonglong,
    4: ctypes.c_longlong,
    5: ctypes.c_int,
    6: ctypes.c_ushort,
}


def encode(symbol: str, value: object) -> list[bytes]:
    """The buffers that the C side copies out so that pynvml returns ``value`` for ``symbol``."""
    shape, results = SIGNATURES[symbol]
    if "l" in shape:
        if not isinstance(value, Sequence):
            raise ValueError(f"{symbol} gives a list, not {value!r}")
        data = b"".join(bytes(_fill(_type(results[0]), _process(item))) for item in value)
        return [bytes(ctypes.c_uint(len(value))), data]
    if "v" in shape:
        return _versions(results[0], value)
    if results == ("text",):
        return [str(value).encode() + b"\0"]
    values = value if len(results) > 1 else [value]
    if not isinstance(values, Sequence) or len(values) != len(results):
        # A one-result call that pynvml wraps into a list is fine; anything else is a mistake.
        raise ValueError(f"{symbol} gives {len(results)} values, not {value!r}")
    return [
        bytes(_fill(_type(name), _scalar(item))) for name, item in zip(results, values, strict=True)
    ]


def _type(name: str) -> Any:
    return getattr(ctypes, name) if hasattr(ctypes, name) else getattr(pynvml, name)


def _scalar(value: object) -> object:
    """pynvml wraps a few single results into a list of one (nvmlDeviceGetDefaultEccMode)."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _process(item: object) -> object:
    """A process as NVML writes it: what the recording leaves out or has as None is "no value"."""
    if not isinstance(item, Mapping):
        return item
    blank = dict.fromkeys(("usedGpuMemory", "gpuInstanceId", "computeInstanceId"))
    return {
        name: NOT_AVAILABLE if entry is None else entry for name, entry in {**blank, **item}.items()
    }


def _versions(results: str, value: object) -> list[bytes]:
    """Every version of the structure that the recorded value can fill; the first one always.

    A value without a newer version's fields comes from a driver that does not know that version;
    asked for it, the library says "version mismatch", as that driver did.
    """
    name, _, field = results.partition(".")
    if field:
        value = {field: value}
    kinds = [_type(each) for each in name.split("|")]
    fitting = [
        kind
        for kind in kinds[1:]
        if isinstance(value, Mapping)
        and {entry[0] for entry in kind._fields_} - {"version"} <= value.keys()
    ]
    return [bytes(_fill(kind, value)) for kind in (kinds[0], *fitting)]


def _fill(kind: Any, value: object) -> Any:
    """An instance of the ctypes type with the value in it, in whichever form recordings have it."""
    if issubclass(kind, ctypes.Array):
        return _fill_array(kind, value)
    if not issubclass(kind, ctypes.Structure):
        return kind(_number(value))
    filled = kind()
    fields = [entry for entry in kind._fields_ if entry[0] != "version"]
    if not isinstance(value, Mapping):  # pynvml reduced the structure to its value or values
        values = value if isinstance(value, (list, tuple)) else [value]
        value = {entry[0]: item for entry, item in zip(fields, values, strict=False)}
    for name, field_kind, *_ in fields:
        if name in value:
            entry = _fill(field_kind, value[name])
            # Numbers are set as such: ctypes crashes on an instance set to a bit field.
            setattr(filled, name, getattr(entry, "value", entry) if _simple(field_kind) else entry)
    return filled


def _simple(kind: Any) -> bool:
    return not issubclass(kind, (ctypes.Array, ctypes.Structure))


def _fill_array(kind: Any, value: object) -> Any:
    if kind._type_ is ctypes.c_char:
        return str(value).encode()  # what ctypes wants to be assigned, instead of an instance
    if isinstance(value, str):  # a UUID or other run of bytes, as hex digits
        return kind(*bytes.fromhex(value.replace("-", "")))
    if not isinstance(value, Sequence):
        raise ValueError(f"cannot be encoded as an array: {value!r}")
    return kind(*(_fill(kind._type_, item) for item in value))


def _number(value: object) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    raise ValueError(f"cannot be encoded as a number: {value!r}")


def encode_field(value: object, value_type: int | None) -> list[bytes]:
    """A field value's type and its eight bytes; without a type the widest that fits the value."""
    if value_type is None:
        value_type = 0 if isinstance(value, float) else 3 if _number(value) >= 0 else 4
    data = bytes(_VALUE_FORMS[value_type](_number(value)))
    return [bytes(ctypes.c_uint(value_type)), data.ljust(8, b"\0")]
