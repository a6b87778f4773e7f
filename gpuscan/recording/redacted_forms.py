"""Redact the readings in which names have a form of their own: VPD, GIDs, tables of cables."""

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from typing import Any

from gpuscan.recording import vpd


def _redact_vpd(value: str, key: bytes) -> str:
    """Redact every field of a VPD but part number and revision.

    What follows the read-only fields is cut off: the owner may have written to it.
    """
    try:
        data = bytearray(vpd.file_bytes(value))
        fields = vpd.parse_fields(bytes(data))
    except ValueError:
        return pseudonym(value, key)
    for keyword, start, end in fields:
        word = data[start:end].decode("latin-1").strip(" \0")
        if word and keyword not in ("PN", "EC"):
            data[start:end] = data[start:end].replace(
                word.encode("latin-1"), pseudonym(word, key).encode("latin-1")
            )
    kept = bytes(data[: max((field.end for field in fields), default=0)])
    return (kept + bytes([vpd.END])).decode("utf-8", "surrogateescape")


def _redact_gid(value: str, key: bytes) -> str:
    """Redact the GUID at the end of a GID like the GUID itself: the two must stay equal."""
    head, guid = value[:20], value[20:]
    return head + pseudonym(guid.strip(), key) + "\n"


def _redact_sweep(value: str, key: bytes) -> str:
    """Redact the GUIDs, which have no colons here, and every word of the node descriptions."""
    lines = []
    for line in value.splitlines(keepends=True):
        is_link = re.match(r" *(?:[A-Z]{2}|\?+) +\d", line)
        ends, quote, names = line.partition("'") if is_link else ("", "", line)
        ends = re.sub(
            "(?<=0x)[0-9a-f]{16}",
            lambda hit: pseudonym(":".join(re.findall("....", hit[0])), key).replace(":", ""),
            ends,
        )
        lines.append(ends + quote + _redact_words(names, key))
    return "".join(lines)


def _redact_lspci(value: str, key: bytes) -> str:
    """Redact the serial numbers that lspci prints, and the fields of the vendor's own choice; what
    has a name's shape elsewhere is found like everywhere.
    """
    return re.sub(
        r"((?:Serial [Nn]umber|\[(?:V.|Y.|RW)\] [^:\n]*|Asset tag):? )(\S[^\n]*)",
        lambda hit: hit[1] + _redact_words(hit[2], key),
        value,
    )


def _redact_words(value: str, key: bytes) -> str:
    return re.sub(r"[^\s']+", lambda hit: pseudonym(hit[0], key), value)


def _redact_neighbours(value: str, key: bytes) -> str:
    """Redact everything that LLDP neighbours announce except the names of their ports."""
    try:
        return json.dumps(_redact_announced(json.loads(value), key))
    except ValueError:
        return _redact_words(value, key)


PORT = re.compile(
    r"(?:(?:[Ee]th(?:ernet)?|swp|et|xe|ge|te|fo|hu|p|port)[ -]?)?\d+(?:[/:.s]\d+){0,4}"
)


def _redact_announced(item: Any, key: bytes) -> Any:
    if isinstance(item, list):
        return [_redact_announced(part, key) for part in item]
    if not isinstance(item, dict):
        return item
    is_port = item.get("type") in ("ifname", "local") and PORT.fullmatch(str(item.get("value")))
    return {
        name: (
            _redact_words(part, key)
            if name == "value" and isinstance(part, str) and not is_port
            else _redact_announced(part, key)
        )
        for name, part in item.items()
    }


# by a part of the reading's key
FORMS: dict[str, Callable[[str, bytes], str]] = {
    "/vpd": _redact_vpd,
    "/gids/": _redact_gid,
    "run:ibnetdiscover": _redact_sweep,
    "run:lldpcli": _redact_neighbours,
    "run:lspci": _redact_lspci,
}


def pseudonym(name: str, key: bytes) -> str:
    """Return a stand-in of the same form: digits for digits, letters for letters, hex for hex."""
    digest = hmac.new(key, name.lower().encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
    while len(digest) < len(name):
        digest += hashlib.sha256(digest).digest()
    hexadecimal = re.fullmatch(r"[0-9a-fA-F:-]+", name) is not None
    pairs = zip(name, digest, strict=False)
    other = "".join(_stand_in(char, byte, hexadecimal) for char, byte in pairs)
    if other != name or not any(map(str.isalnum, name)):
        return other
    return pseudonym(name, digest)  # a short name may come out as itself


def _stand_in(char: str, byte: int, hexadecimal: bool) -> str:
    if char.isdigit():
        return str(byte % 10)
    if not char.isalpha():
        return char
    letters = "abcdef" if hexadecimal else "abcdefghijklmnopqrstuvwxyz"
    letter = letters[byte % len(letters)]
    return letter.upper() if char.isupper() else letter
