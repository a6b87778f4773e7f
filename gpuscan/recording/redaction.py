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
from gpuscan.recording.redacted_text import LONG, find_named, redact_words

HOSTNAME = "file:/proc/sys/kernel/hostname"
NAMING = (  # the values of these readings name a machine or a part
    HOSTNAME,
    "file:/etc/machine-id",
    "file:/proc/sys/kernel/random/boot_id",
    "file:/sys/class/dmi/id/product_serial",
    "file:/sys/class/dmi/id/product_uuid",
    "file:/sys/class/dmi/id/board_serial",
    "file:/sys/class/dmi/id/chassis_serial",
    "file:/sys/class/dmi/id/product_asset_tag",
    "file:/sys/class/dmi/id/board_asset_tag",
    "file:/sys/class/dmi/id/chassis_asset_tag",
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
    # MAC address of Ethernet or InfiniBand, and InfiniBand GUID
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5,19}[0-9a-fA-F]{2}(?![0-9a-fA-F]|:[0-9a-fA-F])"
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![0-9a-fA-F]|:[0-9a-fA-F])"
    # an IPv4 address, but no version number
    r"|(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]\w)"
    # IPv6 address, shortened
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6}(?!\w|:\w)"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?!\w|:\w)"  # and in full
    r"|\([\w.-]+@[\w.-]+\)"  # who built the kernel module
)
# readings whose values are known: numbers, models and states, in which only names are replaced; in
# the text of all others only known words stay
KNOWN = (
    "nvml:", "burnin:", "service:", "history:", "dir:", "link:", "bmc:", "redfish:",
    "file:/proc/driver/nvidia", "file:/proc/cpuinfo", "file:/proc/modules", "file:/proc/uptime",
    "file:/proc/meminfo", "file:/proc/sys/", "file:/proc/devices", "file:/etc/os-release",
    "file:/sys/", "run:systemctl", "run:lspci", "run:dcgmi", "run:nvbandwidth", "run:nvidia-smi",
    "run:ibnetdiscover", "run:lldpcli", "run:nvlsm", "run:mlxlink", "run:gpu_burn", "run:ib_",
)  # fmt: skip
HEADS = ("format", "schema_version", "gpuscan_version", "made_at", "checkpoint")
RECORD_HEAD = re.compile(r"\d+,\d+,\d+,[^;]*;|<\d+>")  # of /dev/kmsg
STAMP_FIELD = re.compile(r"TIMESTAMP|^PRIORITY$|^_TRANSPORT$|^time$|^ts$", re.IGNORECASE)
# a shorter value (a serial of "0", a host called "n1") is replaced in its own reading only
SHORTEST = 4
NO_NAMES = ("", "none", "not specified", "default string", "localhost")


def redact(recording: Recording) -> Recording:
    """Return a copy without serials, UUIDs, host names, MAC and IP addresses.

    Pseudonyms are keyed by the machine id, so that two recordings of one machine stay comparable,
    and a serial cannot be found by trying all. Without a machine id the key is random.
    """
    key = _secret(recording)
    names = sorted(_find_names(recording) | _find_named(recording), key=len, reverse=True)
    # whole words only: digits within a longer number are not a serial
    whole = [rf"(?<![0-9a-zA-Z]){re.escape(name)}(?![0-9a-zA-Z])" for name in names]
    secret = "|".join([*whole, SHAPES.pattern])
    pattern = re.compile(f"{secret}|{LONG}", re.IGNORECASE)

    def replace(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(_stand_in_for(key), value)
        if isinstance(value, dict):
            return {replace(name): replace(item) for name, item in value.items()}
        if isinstance(value, list):
            return [replace(item) for item in value]
        if type(value) is int and str(value) in names:
            return int(pseudonym(str(value), key))
        return value

    def replace_words(value: Any) -> Any:
        if isinstance(value, str):
            return _redact_lines(value, secret, key)
        if isinstance(value, dict):
            return {name: replace_words(item) for name, item in value.items()}
        if isinstance(value, list):
            return [replace_words(item) for item in value]
        return replace(value)

    document = json.loads(json.dumps(dump(recording)))
    rows = document.pop("readings")
    document = {name: item if name in HEADS else replace(item) for name, item in document.items()}
    document["readings"] = [_redact_row(row, replace, replace_words, key) for row in rows]
    document["redacted"] = True
    return restore(document, "the redacted recording")


def _stand_in_for(key: bytes) -> Callable[[re.Match[str]], str]:
    return lambda hit: pseudonym(hit[0], key)


def _redact_lines(text: str, secret: str, key: bytes) -> str:
    """Redact text of unknown kind, line by line; heads of kernel records and JSON keep their
    form.
    """
    return "\n".join(_redact_line(line, secret, key) for line in text.split("\n"))


def _redact_line(line: str, secret: str, key: bytes) -> str:
    if line.startswith("{") and line.rstrip().endswith("}"):
        try:
            return json.dumps(_redact_fields(json.loads(line), secret, key))
        except (ValueError, RecursionError):
            pass
    head = RECORD_HEAD.match(line)
    start = head.end() if head else 0
    told = redact_words(line[start:], secret, lambda word: pseudonym(word, key))
    return line[:start] + told


def _redact_fields(item: Any, secret: str, key: bytes) -> Any:
    """Redact what a journal's JSON holds; its names and its times stay."""
    if isinstance(item, str):
        return _redact_line(item, secret, key)
    if isinstance(item, list):
        return [_redact_fields(part, secret, key) for part in item]
    if not isinstance(item, dict):
        return item
    return {
        name: part if STAMP_FIELD.search(name) else _redact_fields(part, secret, key)
        for name, part in item.items()
    }


def _redact_row(
    row: dict[str, Any],
    replace: Callable[[Any], Any],
    replace_words: Callable[[Any], Any],
    key: bytes,
) -> dict[str, Any]:
    """Redact a reading's key and answer; in times or return codes a match could only be chance."""
    changed = {**row, "key": replace(row["key"])}
    special = next((redact for part, redact in SPECIAL.items() if part in row["key"]), None)
    if special and isinstance(row.get("value"), str):
        changed["value"] = special(row["value"], key)
    elif "value" in row:
        short = _is_short_name(row["key"], row["value"])
        known = row["key"].startswith(KNOWN) or _is_naming(row["key"])
        hide = replace if known else replace_words
        changed["value"] = pseudonym(row["value"], key) if short else hide(row["value"])
    if "error" in row:
        changed["error"] = {**row["error"], "text": replace_words(row["error"]["text"])}
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


def _find_named(recording: Recording) -> set[str]:
    """Return what a word before it gives away as a name, in any text of unknown kind."""
    texts = (
        json.dumps(reading.value, ensure_ascii=False)
        for reading in recording
        if reading.error is None and not reading.key.startswith(KNOWN)
    )
    names = {name for text in texts for name in find_named(text)}
    return {name for name in names if len(name) >= SHORTEST}


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
    """Redact the serial numbers that lspci prints, and the fields of the vendor's own choice."""
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
