"""PCI vital product data: binary fields such as part number and serial number.

The layout is that of PCI Local Bus 3.0, appendix I: a name, then read-only fields of a keyword, a
length and a value, then an end tag.
"""

from typing import Any, NamedTuple

NAME, READ_ONLY, END = 0x82, 0x90, 0x78
TAG = 3  # bytes of a large resource's tag and length
FIELD = 3  # bytes of a keyword and its length


class VpdField(NamedTuple):
    """A read-only field: its keyword (`SN`, `PN`), and where its value begins and ends."""

    keyword: str
    start: int
    end: int


def file_bytes(value: Any) -> bytes:
    """Return the bytes of a file's reading, in which surrogates stand for what is not UTF-8.

    Raises ValueError if the reading is not text.
    """
    if not isinstance(value, str):
        raise ValueError(value)
    return value.encode("utf-8", "surrogateescape")


def parse_fields(data: bytes) -> list[VpdField]:
    """Return the read-only fields of a VPD; raises ValueError for anything else.

    >>> parse_fields(b"\\x82\\x02\\x00GH\\x90\\x06\\x00SN\\x03123\\x78")
    [VpdField(keyword='SN', start=11, end=14)]
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
        fields.append(VpdField(keyword.decode("ascii"), start, at))
    return [field for field in fields if field.end <= len(data)]


def find_value(data: bytes, keyword: str) -> str | None:
    """Return the text of a field, None if there is none; raises ValueError if it is not ASCII."""
    fields = [field for field in parse_fields(data) if field.keyword == keyword]
    if not fields:
        return None
    return data[fields[0].start : fields[0].end].decode("ascii").strip(" \0")
