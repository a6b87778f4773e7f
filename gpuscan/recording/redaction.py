"""Redact a recording: replace what names a machine or a part by pseudonyms.

One value always gets the same pseudonym, in this recording and in the machine's next one.
"""

import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable
from typing import Any

from gpuscan.model import is_unread
from gpuscan.recording import vpd
from gpuscan.recording.files import dump, restore
from gpuscan.recording.readings import Recording

HOSTNAME = "file:/proc/sys/kernel/hostname"
NAMING = (  # the values of these readings name a machine or a part
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
NAMING_FILES = re.compile(r"file:/sys/class/nvme/[^/]*/serial")  # and of these
# the serial numbers of dead GPUs, which only the kernel log has
LOGGED = re.compile(r"(?:GPU Board Serial Number: |GPU serial number is )([0-9A-Za-z]+)")
# what burn-in programs print: DCGM's serials, the host of nccl-tests and nvbandwidth, perftest's
# GIDs
PRINTED = re.compile(
    r'"serial_num"\s*:\s*"([^"]+)"|"GPU Device'
    r' Serials"\s*:\s*\{([^}]*)\}|"Hostname"\s*:\s*"([^"]+)"'
    r"|Pid +\d+ on +(\S+) +device|GID: ((?:[0-9a-fA-F]{2,3}:){15}[0-9a-fA-F]{2,3})"
)
SHAPES = re.compile(  # what names a machine or a part in any text, such as the kernel log
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"  # UUID
    # a UUID, machine id or boot id without dashes
    r"|(?<![0-9a-zA-Z])[0-9a-fA-F]{32}(?![0-9a-zA-Z])"
    # MAC address of Ethernet or InfiniBand
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5,19}[0-9a-fA-F]{2}(?![0-9a-fA-F:])"
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![0-9a-fA-F:])"  # InfiniBand GUID
    # an IPv4 address, but no version number
    r"|(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]\w)"
    # IPv6 address, shortened
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6}(?![\w:])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])"  # and in full
    r"|\([\w.-]+@[\w.-]+\)"  # who built the kernel module
)
# a shorter value (a serial of "0", a host called "n1") is replaced in its own reading only
SHORTEST = 4
NO_NAMES = ("", "none", "not specified", "default string", "localhost")


def redact(recording: Recording) -> Recording:
    """Return a copy without serials, UUIDs, host names, MAC and IP addresses.

    Pseudonyms are keyed by the machine id, so that two recordings of one machine stay comparable,
    and a serial cannot be found by trying all. Without a machine id the key is random.
    """
    key = _secret(recording)
    names = sorted(_find_names(recording), key=len, reverse=True)
    # whole words only: digits within a longer number are not a serial
    whole = [rf"(?<![0-9a-zA-Z]){re.escape(name)}(?![0-9a-zA-Z])" for name in names]
    pattern = re.compile("|".join([*whole, SHAPES.pattern]), re.IGNORECASE)

    def replace(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda hit: pseudonym(hit[0], key), value)
        if isinstance(value, dict):
            return {replace(name): replace(item) for name, item in value.items()}
        if isinstance(value, list):
            return [replace(item) for item in value]
        if type(value) is int and str(value) in names:
            return int(pseudonym(str(value), key))
        return value

    document = json.loads(json.dumps(dump(recording)))
    document["readings"] = [_redact_row(row, replace, key) for row in document["readings"]]
    if "about" in document:
        document["about"] = replace(document["about"])
    document["redacted"] = True
    return restore(document, "the redacted recording")


def _redact_row(row: dict[str, Any], replace: Callable[[Any], Any], key: bytes) -> dict[str, Any]:
    """Redact a reading's key and answer; in times or return codes a match could only be chance."""
    changed = {**row, "key": replace(row["key"])}
    special = next((redact for part, redact in SPECIAL.items() if part in row["key"]), None)
    if special and isinstance(row.get("value"), str):
        changed["value"] = special(row["value"], key)
    elif "value" in row:
        short = _is_short_name(row["key"], row["value"])
        changed["value"] = pseudonym(row["value"], key) if short else replace(row["value"])
    if "error" in row:
        changed["error"] = {**row["error"], "text": replace(row["error"]["text"])}
    return changed


def _is_short_name(key: str, value: Any) -> bool:
    if not _is_naming(key) or not isinstance(value, str):
        return False
    name = value.strip()
    return name.lower() not in NO_NAMES and len(name.removeprefix("GPU-")) < SHORTEST


def _find_names(recording: Recording) -> set[str]:
    """Return the values that name this machine and its parts; the host also without its domain."""
    names = set()
    for reading in recording:
        if reading.error is not None:
            continue
        key, value = reading.key, reading.value
        if key.startswith(("kmsg:", "run:journalctl", "run:dmesg", "log:")):
            names |= set(LOGGED.findall(json.dumps(value)))
        if key.startswith("log:"):
            names |= _find_hosts(value)
        if key.startswith("run:") and isinstance(value, dict):  # a program of the burn-in
            names |= _find_printed(str(value.get("stdout")))
        if key.endswith("/vpd"):
            names |= _find_serial(value)
        if _is_naming(key):
            name = str(value).strip().removeprefix("GPU-")
            names |= {name, name.partition(".")[0]} if key == HOSTNAME else {name}
    return {name for name in names if len(name) >= SHORTEST and name.lower() not in NO_NAMES}


def _find_printed(text: str) -> set[str]:
    """Return the serial numbers, hosts and GIDs that a program of the burn-in printed."""
    names = set()
    for serial, serials, host, other_host, gid in PRINTED.findall(text):
        names |= {serial, gid, *re.findall(r':\s*"([^"]+)"', serials)}
        for name in (host, other_host):
            names |= {name, name.partition(".")[0]}
    return names


def _find_hosts(value: Any) -> set[str]:
    """Return the hosts in the lines of a log, each with and without its domain."""
    from gpuscan.kernellog.prefixes import parse_line

    names = set()
    for _, line in value["lines"] if isinstance(value, dict) else ():
        parsed = parse_line(str(line).strip(), 0.0)
        if parsed and parsed.host:
            names |= {parsed.host, parsed.host.partition(".")[0]}
    return names


def _is_naming(key: str) -> bool:
    return key.startswith(NAMING) or NAMING_FILES.fullmatch(key) is not None


def _find_serial(value: Any) -> set[str]:
    try:
        serial = vpd.find_value(vpd.file_bytes(value), "SN")
    except ValueError:
        return set()
    return {serial.strip()} if serial else set()


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
    """Redact the serial numbers that lspci prints."""
    return re.sub(
        r"(?<=Serial [Nn]umber)(:? )(\S+)", lambda hit: hit[1] + pseudonym(hit[2], key), value
    )


def _redact_words(value: str, key: bytes) -> str:
    return re.sub(r"[^\s']+", lambda hit: pseudonym(hit[0], key), value)


def _redact_neighbours(value: str, key: bytes) -> str:
    """Redact everything that LLDP neighbours announce except the names of their ports."""
    try:
        return json.dumps(_redact_announced(json.loads(value), key))
    except ValueError:
        return _redact_words(value, key)


def _redact_announced(item: Any, key: bytes) -> Any:
    if isinstance(item, list):
        return [_redact_announced(part, key) for part in item]
    if not isinstance(item, dict):
        return item
    is_port = item.get("type") in ("ifname", "local")
    return {
        name: (
            _redact_words(part, key)
            if name == "value" and isinstance(part, str) and not is_port
            else _redact_announced(part, key)
        )
        for name, part in item.items()
    }


# readings in which names have a form of their own, by a part of their key
SPECIAL: dict[str, Callable[[str, bytes], str]] = {
    "/vpd": _redact_vpd,
    "/gids/": _redact_gid,
    "run:ibnetdiscover": _redact_sweep,
    "run:lldpcli": _redact_neighbours,
    "run:lspci": _redact_lspci,
}


def _secret(recording: Recording) -> bytes:
    machine = recording.get("file:/etc/machine-id")
    if is_unread(machine) or not str(machine).strip():
        return os.urandom(16)
    return str(machine).strip().encode()


def pseudonym(name: str, key: bytes) -> str:
    """Return a stand-in of the same form: digits for digits, letters for letters, hex for hex."""
    digest = hmac.new(key, name.lower().encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
    while len(digest) < len(name):
        digest += hashlib.sha256(digest).digest()
    hexadecimal = re.fullmatch(r"[0-9a-fA-F:-]+", name) is not None
    pairs = zip(name, digest, strict=False)
    return "".join(_stand_in(char, byte, hexadecimal) for char, byte in pairs)


def _stand_in(char: str, byte: int, hexadecimal: bool) -> str:
    if char.isdigit():
        return str(byte % 10)
    if not char.isalpha():
        return char
    letters = "abcdef" if hexadecimal else "abcdefghijklmnopqrstuvwxyz"
    letter = letters[byte % len(letters)]
    return letter.upper() if char.isupper() else letter
