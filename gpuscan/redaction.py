"""What names a machine or a part, replaced by pseudonyms: the same value gives the same one, here and next time."""

import hashlib
import hmac
import json
import os
import re
from typing import Any

from gpuscan.facts import is_unread
from gpuscan.recording import Recording, dump, restore

HOSTNAME = "file:/proc/sys/kernel/hostname"
NAMING = (  # whole values of these readings name a machine or a part
    HOSTNAME,
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
    r"|(?<![0-9a-zA-Z])[0-9a-fA-F]{32}(?![0-9a-zA-Z])"  # UUID, machine or boot id without its dashes
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5,19}[0-9a-fA-F]{2}(?![0-9a-fA-F:])"  # MAC address of Ethernet or InfiniBand
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![0-9a-fA-F:])"  # InfiniBand GUID
    r"|(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]\w)"  # IPv4, no version
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6}(?![\w:])"  # IPv6 address, shortened
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])"  # and in full
    r"|\([\w.-]+@[\w.-]+\)"  # who built the kernel module
)
SHORTEST = 4  # a shorter value (a serial of "0", a host called "n1") is replaced in its own reading only
NO_NAMES = ("", "none", "not specified", "default string", "localhost")


def redacted(recording: Recording) -> Recording:
    """Return a copy without serials, UUIDs, host names, MAC and IP addresses.

    Pseudonyms are keyed by the machine id, so that two recordings of one machine stay comparable and nobody can
    find a serial by trying them all; without a machine id the key is random.
    """
    key = _secret(recording)
    names = sorted(_names(recording), key=len, reverse=True)
    whole = [rf"(?<![0-9a-zA-Z]){re.escape(name)}(?![0-9a-zA-Z])" for name in names]  # a serial within a longer number is none
    pattern = re.compile("|".join([*whole, SHAPES.pattern]), re.IGNORECASE)

    def replace(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda hit: pseudonym(hit[0], key), value)
        if isinstance(value, dict):
            return {replace(name): replace(item) for name, item in value.items()}
        if isinstance(value, list):
            return [replace(item) for item in value]
        return int(pseudonym(str(value), key)) if type(value) is int and str(value) in names else value

    document = json.loads(json.dumps(dump(recording)))
    document["readings"] = [_row(row, replace, key) for row in document["readings"]]
    document |= {"about": replace(document["about"])} if "about" in document else {}
    document["redacted"] = True
    return restore(document, "the redacted recording")


def _row(row: dict[str, Any], replace: Any, key: bytes) -> dict[str, Any]:
    """Replace in what was said, never in times or return codes, where a serial could only match by chance."""
    changed = {**row, "key": replace(row["key"])}
    if "value" in row:
        own = row["key"].startswith(NAMING) and isinstance(row["value"], str) and row["value"].strip().lower() not in NO_NAMES
        short = own and len(row["value"].strip().removeprefix("GPU-")) < SHORTEST
        changed["value"] = pseudonym(row["value"], key) if short else replace(row["value"])
    if "error" in row:
        changed["error"] = {**row["error"], "text": replace(row["error"]["text"])}
    return changed


def _names(recording: Recording) -> set[str]:
    """Return the values that name this machine and its parts, and the host's name without its domain."""
    found = set()
    for reading in recording:
        if reading.error is None and reading.key.startswith(NAMING):
            value = str(reading.value).strip().removeprefix("GPU-")
            found |= {value, value.partition(".")[0]} if reading.key == HOSTNAME else {value}
    return {value for value in found if len(value) >= SHORTEST and value.lower() not in NO_NAMES}


def _secret(recording: Recording) -> bytes:
    machine = recording.get("file:/etc/machine-id")
    return os.urandom(16) if is_unread(machine) or not str(machine).strip() else str(machine).strip().encode()


def pseudonym(name: str, key: bytes) -> str:
    """Return a stand-in of the same shape: digits for digits, hexadecimal for hexadecimal, letters for letters."""
    digest = hmac.new(key, name.lower().encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
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
