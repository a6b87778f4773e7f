"""What names a machine or a part, replaced by pseudonyms: the same value gives the same one, here
and next time.
"""

import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable
from typing import Any

from gpuscan.burnin.tools.programs import is_tool
from gpuscan.collectors import vpd
from gpuscan.model import is_unread
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
OWN_FILES = re.compile(r"file:/sys/class/nvme/[^/]*/serial")  # and of these
LOGGED = re.compile(
    r"(?:GPU Board Serial Number: |GPU serial number is )([0-9A-Za-z]+)"
)  # a dead GPU tells it nowhere else
# what the programs of a burn-in print: DCGM's serials, nccl-tests' and nvbandwidth's host,
# perftest's GIDs
TOOLS = re.compile(
    r'"serial_num"\s*:\s*"([^"]+)"|"GPU Device Serials"\s*:\s*\{([^}]*)\}|"Hostname"\s*:\s*"([^"]+)"'
    r"|Pid +\d+ on +(\S+) +device|GID: ((?:[0-9a-fA-F]{2,3}:){15}[0-9a-fA-F]{2,3})"
)
SHAPES = re.compile(  # and these shapes do so in any text, such as the kernel log
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"  # UUID
    # UUID, machine or boot id without its dashes
    r"|(?<![0-9a-zA-Z])[0-9a-fA-F]{32}(?![0-9a-zA-Z])"
    # MAC address of Ethernet or InfiniBand
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5,19}[0-9a-fA-F]{2}(?![0-9a-fA-F:])"
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![0-9a-fA-F:])"  # InfiniBand GUID
    # IPv4, no version
    r"|(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]\w)"
    # IPv6 address, shortened
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6}(?![\w:])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])"  # and in full
    r"|\([\w.-]+@[\w.-]+\)"  # who built the kernel module
)
SHORTEST = (
    4  # a shorter value (a serial of "0", a host called "n1") is replaced in its own reading only
)
NO_NAMES = ("", "none", "not specified", "default string", "localhost")


def redacted(recording: Recording) -> Recording:
    """Return a copy without serials, UUIDs, host names, MAC and IP addresses.

    Pseudonyms are keyed by the machine id, so that two recordings of one machine stay comparable
    and nobody can find a serial by trying them all; without a machine id the key is random.
    """
    key = _secret(recording)
    names = sorted(_names(recording), key=len, reverse=True)
    whole = [
        rf"(?<![0-9a-zA-Z]){re.escape(name)}(?![0-9a-zA-Z])" for name in names
    ]  # a serial within a longer number is none
    pattern = re.compile("|".join([*whole, SHAPES.pattern]), re.IGNORECASE)

    def replace(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda hit: pseudonym(hit[0], key), value)
        if isinstance(value, dict):
            return {replace(name): replace(item) for name, item in value.items()}
        if isinstance(value, list):
            return [replace(item) for item in value]
        return (
            int(pseudonym(str(value), key)) if type(value) is int and str(value) in names else value
        )

    document = json.loads(json.dumps(dump(recording)))
    document["readings"] = [_row(row, replace, key) for row in document["readings"]]
    document |= {"about": replace(document["about"])} if "about" in document else {}
    document["redacted"] = True
    return restore(document, "the redacted recording")


def _row(row: dict[str, Any], replace: Any, key: bytes) -> dict[str, Any]:
    """Replace in what was said, never in times or return codes, where a serial could only match by
    chance.
    """
    changed = {**row, "key": replace(row["key"])}
    way = next((way for name, way in SPECIAL.items() if name in row["key"]), None)
    if way and isinstance(row.get("value"), str):
        changed["value"] = way(row["value"], key)
    elif "value" in row:
        own = (
            _is_naming(row["key"])
            and isinstance(row["value"], str)
            and row["value"].strip().lower() not in NO_NAMES
        )
        short = own and len(row["value"].strip().removeprefix("GPU-")) < SHORTEST
        changed["value"] = pseudonym(row["value"], key) if short else replace(row["value"])
    if "error" in row:
        changed["error"] = {**row["error"], "text": replace(row["error"]["text"])}
    return changed


def _names(recording: Recording) -> set[str]:
    """Return the values that name this machine and its parts, and the host's name without its
    domain.
    """
    found = set()
    for reading in recording:
        if reading.error is not None:
            continue
        if reading.key.startswith(("kmsg:", "run:journalctl", "run:dmesg", "log:")):
            found |= set(LOGGED.findall(json.dumps(reading.value)))
        if reading.key.startswith("log:"):
            found |= _hosts(reading.value)
        if is_tool(reading.key) and isinstance(reading.value, dict):
            found |= _printed(str(reading.value.get("stdout")))
        if reading.key.endswith("/vpd"):
            found |= {name for name in [_serial_in(reading.value)] if name}
        if _is_naming(reading.key):
            value = str(reading.value).strip().removeprefix("GPU-")
            found |= {value, value.partition(".")[0]} if reading.key == HOSTNAME else {value}
    return {value for value in found if len(value) >= SHORTEST and value.lower() not in NO_NAMES}


def _printed(text: str) -> set[str]:
    """Return the serial numbers, hosts and GIDs that a program of the burn-in printed."""
    found = set()
    for serial, serials, host, name, gid in TOOLS.findall(text):
        found |= {serial, gid, *re.findall(r':\s*"([^"]+)"', serials)}
        found |= {form for word in (host, name) for form in (word, word.partition(".")[0])}
    return found


def _hosts(value: Any) -> set[str]:
    """Return the hosts that the lines of a log bear, each with and without its domain."""
    from gpuscan.kernellog.prefixes import parse_line

    lines = [str(line) for _, line in value["lines"]] if isinstance(value, dict) else []
    named = {
        found.host
        for found in (parse_line(line.strip(), 0.0) for line in lines)
        if found and found.host
    }
    return named | {host.partition(".")[0] for host in named}


def _is_naming(key: str) -> bool:
    return key.startswith(NAMING) or OWN_FILES.fullmatch(key) is not None


def _serial_in(value: Any) -> str:
    try:
        serial = vpd.serial(value)
    except ValueError:
        return ""
    return "" if is_unread(serial) else str(serial)


def _vpd(value: str, key: bytes) -> str:
    """Replace all that a GPU's VPD says but part number and revision; what its owner may have
    written to it is cut off.
    """
    try:
        data = bytearray(vpd.bytes_of(value))
        fields = vpd.located(bytes(data))
    except ValueError:
        return pseudonym(value, key)
    for name, start, end in fields:
        word = data[start:end].decode("latin-1").strip(" \0")
        if word and name not in ("PN", "EC"):
            data[start:end] = data[start:end].replace(
                word.encode("latin-1"), pseudonym(word, key).encode("latin-1")
            )
    kept = bytes(data[: max((end for _, _, end in fields), default=0)])
    return (kept + bytes([vpd.END])).decode("utf-8", "surrogateescape")


def _gid(value: str, key: bytes) -> str:
    """Replace the GUID that ends a GID as it is replaced by itself, so that a sweep still finds
    it.
    """
    head, guid = value[:20], value[20:]
    return head + pseudonym(guid.strip(), key) + "\n"


def _sweep(value: str, key: bytes) -> str:
    """Replace GUIDs, as they are without colons, and every word of the node descriptions."""
    lines = []
    for line in value.splitlines(keepends=True):
        ends, quote, names = (
            line.partition("'") if re.match(r" *(?:[A-Z]{2}|\?+) +\d", line) else ("", "", line)
        )
        ends = re.sub(
            "(?<=0x)[0-9a-f]{16}",
            lambda hit: pseudonym(":".join(re.findall("....", hit[0])), key).replace(":", ""),
            ends,
        )
        lines.append(ends + quote + _words(names, key))
    return "".join(lines)


def _block(value: str, key: bytes) -> str:
    """Replace the serial numbers that lspci prints of a device."""
    return re.sub(
        r"(?<=Serial [Nn]umber)(:? )(\S+)", lambda hit: hit[1] + pseudonym(hit[2], key), value
    )


def _words(value: str, key: bytes) -> str:
    return re.sub(r"[^\s']+", lambda hit: pseudonym(hit[0], key), value)


def _neighbours(value: str, key: bytes) -> str:
    """Replace all that neighbours say of themselves, but the names of their ports."""
    try:
        return json.dumps(_heard(json.loads(value), key))
    except ValueError:
        return _words(value, key)


def _heard(item: Any, key: bytes) -> Any:
    if isinstance(item, list):
        return [_heard(part, key) for part in item]
    if isinstance(item, dict):
        kept = item.get("type") in ("ifname", "local")
        return {
            name: _words(part, key)
            if name == "value" and isinstance(part, str) and not kept
            else _heard(part, key)
            for name, part in item.items()
        }
    return item


SPECIAL: dict[
    str, Callable[[str, bytes], str]
] = {  # readings in which names stand in a shape of their own
    "/vpd": _vpd,
    "/gids/": _gid,
    "run:ibnetdiscover": _sweep,
    "run:lldpcli": _neighbours,
    "run:lspci": _block,
}


def _secret(recording: Recording) -> bytes:
    machine = recording.get("file:/etc/machine-id")
    return (
        os.urandom(16)
        if is_unread(machine) or not str(machine).strip()
        else str(machine).strip().encode()
    )


def pseudonym(name: str, key: bytes) -> str:
    """Return a stand-in of the same shape: digits for digits, hexadecimal for hexadecimal, letters
    for letters.
    """
    digest = hmac.new(key, name.lower().encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
    while len(digest) < len(name):
        digest += hashlib.sha256(digest).digest()
    hexadecimal = re.fullmatch(r"[0-9a-fA-F:-]+", name) is not None
    return "".join(
        _stand_in(char, byte, hexadecimal) for char, byte in zip(name, digest, strict=False)
    )


def _stand_in(char: str, byte: int, hexadecimal: bool) -> str:
    if char.isdigit():
        return str(byte % 10)
    if not char.isalpha():
        return char
    letters = "abcdef" if hexadecimal else "abcdefghijklmnopqrstuvwxyz"
    letter = letters[byte % len(letters)]
    return letter.upper() if char.isupper() else letter
