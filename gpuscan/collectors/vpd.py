"""PCI vital product data: the part and serial number that a GPU carries, as binary fields behind
tags.
"""

from typing import Any

from gpuscan.collectors.reading import text
from gpuscan.model import Unread

NAME, READ_ONLY, END = 0x82, 0x90, 0x78
TAG = 3  # bytes of a large resource's tag and length
FIELD = 3  # bytes of a keyword and its length

Field = tuple[str, int, int]  # keyword, and where its value begins and ends


def bytes_of(value: Any) -> bytes:
    """Return a file's bytes as they were: those that are no UTF-8 are kept as surrogates."""
    if not isinstance(value, str):
        raise ValueError(value)
    return value.encode("utf-8", "surrogateescape")


def located(data: bytes) -> list[Field]:
    """Return where the read-only fields lie (PCI Local Bus 3.0, appendix I); raises ValueError for
    what is no VPD.
    """
    at = 0
    while data[at : at + 1] == bytes([NAME]):
        at += TAG + int.from_bytes(data[at + 1 : at + TAG], "little")
    if data[at : at + 1] != bytes([READ_ONLY]):
        raise ValueError("no read-only resource")
    end = at + TAG + int.from_bytes(data[at + 1 : at + TAG], "little")
    at, fields = at + TAG, []
    while at + FIELD <= min(end, len(data)):
        keyword, start = data[at : at + 2], at + FIELD
        at = start + data[at + 2]
        if not (keyword.isalnum() and at <= end):
            raise ValueError("a field reaches beyond its resource")
        fields.append((keyword.decode("ascii"), start, at))
    return [field for field in fields if field[2] <= len(data)]


def serial(value: Any) -> Any:
    """Parse the serial number."""
    return _field(value, "SN", "serial number")


def part_number(value: Any) -> Any:
    """Parse the part number."""
    return _field(value, "PN", "part number")


def _field(value: Any, keyword: str, what: str) -> Any:
    data = bytes_of(value)
    found = [data[start:end] for name, start, end in located(data) if name == keyword]
    if not found:
        return Unread("", "not-found", f"the GPU's VPD holds no {what}")
    word = text(found[0].decode("ascii").strip(" \0"))
    if not word.isprintable():
        raise ValueError(word)
    return word
