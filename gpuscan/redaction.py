"""What names a machine or a part, replaced by pseudonyms: the same value gives the same one, here and next time."""

import hashlib
import hmac
import json
import os
import re
from typing import Any

from gpuscan.facts import is_unread
from gpuscan.recording import Recording, dump, restore

NAMING = (  # whole values of these readings name a machine or a part
    "file:/proc/sys/kernel/hostname",
    "file:/etc/machine-id",
    "file:/proc/sys/kernel/random/boot_id",
    "file:/sys/class/dmi/id/product_serial",
    "file:/sys/class/dmi/id/product_uuid",
    "file:/sys/class/dmi/id/board_serial",
    "file:/sys/class/dmi/id/chassis_serial",
    "nvml:nvmlDeviceGetSerial(",
    "nvml:nvmlDeviceGetUUID(",
    "nvml:nvmlDeviceGetPdi(",
)
SHAPES = re.compile(  # and these shapes do so in any text, such as the kernel log
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"  # UUID
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![0-9a-fA-F:])"  # MAC address
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![0-9a-fA-F:])"  # InfiniBand GUID
    r"|(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"  # IPv4 address
    r"|\([\w.-]+@[\w.-]+\)"  # who built the kernel module
)
SHORTEST = 4  # a shorter value (a serial of "0", a host called "n1") would be found in every other number


def redacted(recording: Recording) -> Recording:
    """Return a copy without serials, UUIDs, host names, MAC and IP addresses.

    Pseudonyms are keyed by the machine id, so that two recordings of one machine stay comparable and nobody can
    find a serial by trying them all; without a machine id the key is random.
    """
    key = _secret(recording)
    names = sorted(_names(recording), key=len, reverse=True)
    table = {name: pseudonym(name, key) for name in names}
    pattern = re.compile("|".join([*(re.escape(name) for name in names), SHAPES.pattern]))

    def replace(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda hit: table.get(hit[0]) or pseudonym(hit[0], key), value)
        if isinstance(value, dict):
            return {replace(name): replace(item) for name, item in value.items()}
        if isinstance(value, list):
            return [replace(item) for item in value]
        if isinstance(value, int) and str(value) in table:
            return int(table[str(value)])
        return value

    document = json.loads(json.dumps(dump(recording)))
    document["readings"] = [_row(row, replace) for row in document["readings"]]
    document["redacted"] = True
    return restore(document, "the redacted recording")


def _row(row: dict[str, Any], replace: Any) -> dict[str, Any]:
    """Replace in what was said, never in times or return codes, where a serial could only match by chance."""
    changed = dict(row)
    for part in ("key", "value"):
        if part in row:
            changed[part] = replace(row[part])
    if "error" in row:
        changed["error"] = {**row["error"], "text": replace(row["error"]["text"])}
    return changed


def _names(recording: Recording) -> set[str]:
    """Return the values that name this machine and its parts."""
    found = set()
    for reading in recording:
        if reading.error is None and reading.key.startswith(NAMING):
            value = str(reading.value).strip().removeprefix("GPU-")
            if len(value) >= SHORTEST and not value.isspace() and value.lower() not in ("none", "not specified", "default string"):
                found.add(value)
    return found


def _secret(recording: Recording) -> bytes:
    machine = recording.get("file:/etc/machine-id")
    return os.urandom(16) if is_unread(machine) or not str(machine).strip() else str(machine).strip().encode()


def pseudonym(name: str, key: bytes) -> str:
    """Return a stand-in of the same shape: digits for digits, hexadecimal for hexadecimal, letters for letters."""
    digest = hmac.new(key, name.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()
    while len(digest) < len(name):
        digest += hashlib.sha256(digest).digest()
    hexadecimal = re.fullmatch(r"[0-9a-fA-F:-]+", name) is not None
    return "".join(_stand_in(char, byte, hexadecimal) for char, byte in zip(name, digest, strict=False))


def _stand_in(char: str, byte: int, hexadecimal: bool) -> str:
    if char.isdigit():
        return str(byte % 10)
    if not char.isalpha():
        return char
    letters = "abcdef" if hexadecimal else "abcdefghijklmnopqrstuvwxyz"
    letter = letters[byte % len(letters)]
    return letter.upper() if char.isupper() else letter
