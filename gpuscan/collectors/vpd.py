"""The serial and part number in a GPU's or adapter's PCI vital product data."""

from typing import Any

from gpuscan.collectors.reading import text
from gpuscan.model import Unread
from gpuscan.recording.vpd import file_bytes, find_value


def serial(value: Any) -> Any:
    """Parse the serial number."""
    return _field(value, "SN", "serial number")


def part_number(value: Any) -> Any:
    """Parse the part number."""
    return _field(value, "PN", "part number")


def _field(value: Any, keyword: str, what: str) -> Any:
    found = find_value(file_bytes(value), keyword)
    if found is None:
        return Unread("", "not-found", f"the GPU's VPD holds no {what}")
    word = text(found)
    if not word.isprintable():
        raise ValueError(word)
    return word
