"""Redact a recording: replace what names a machine or a part by pseudonyms.

One value always gets the same pseudonym, in this recording and in the machine's next one.
"""

import json
import os
import re
from typing import Any, NamedTuple

from gpuscan.model import is_unread
from gpuscan.recording import vpd
from gpuscan.recording.files import dump, restore
from gpuscan.recording.meta import Meta
from gpuscan.recording.readings import Recording
from gpuscan.recording.redacted_forms import FORMS, pseudonym
from gpuscan.recording.redacted_text import find_named, redact_words
from gpuscan.recording.shapes import Names

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
# readings whose values are known: numbers, models and states, in which only names are replaced; in
# the text of all others only known words stay
KNOWN = (
    "nvml:", "burnin:", "service:", "history:", "dir:", "link:", "bmc:", "redfish:",
    "file:/proc/driver/nvidia", "file:/proc/cpuinfo", "file:/proc/modules", "file:/proc/uptime",
    "file:/proc/meminfo", "file:/proc/sys/", "file:/proc/devices", "file:/etc/os-release",
    "file:/sys/", "run:systemctl", "run:lspci", "run:dcgmi", "run:nvbandwidth", "run:nvidia-smi",
    "run:ibnetdiscover", "run:lldpcli", "run:nvlsm", "run:mlxlink", "run:gpu_burn", "run:ib_",
)  # fmt: skip
SYSTEM_LOGS = tuple(f"log:/var/log/{name}" for name in ("kern.log", "messages", "dmesg", "syslog"))
HEADS = ("format", "schema_version", "gpuscan_version", "made_at", "checkpoint")
COUNT = re.compile(r"\s*\d+\s*")
RECORD_HEAD = re.compile(r"\d+,\d+,\d+,[^;]*;|<\d+>")  # of /dev/kmsg
# of a journal, or of a daemon's log
FIELD = re.compile(r"[A-Z0-9_]+|msg|message|level|time|ts|log|stream")
STAMP_FIELD = re.compile(r"TIMESTAMP|^PRIORITY$|^_TRANSPORT$|^time$|^ts$", re.IGNORECASE)
STAMP = re.compile(
    r"\d{1,16}(?:\.\d{1,9})?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d:.Z+-]*"
    r"|kernel|journal|syslog|stdout|audit|driver"
)
# a shorter value (a serial of "0", a host called "n1") is replaced in its own reading only
SHORTEST = 4
NO_NAMES = ("", "none", "not specified", "default string", "localhost")


def redact(recording: Recording) -> Recording:
    """Return a copy without serials, UUIDs, host names, MAC and IP addresses.

    Pseudonyms are keyed by the machine id, so that two recordings of one machine stay comparable,
    and a serial cannot be found by trying all. Without a machine id the key is random.
    """
    hide = _Redaction(Names(_find_names(recording) | _find_named(recording)), _secret(recording))
    document = json.loads(json.dumps(dump(recording)))
    rows = document.pop("readings")
    document = {name: hide.head(name, item) for name, item in document.items()}
    document["readings"] = [hide.row(row) for row in rows]
    document["redacted"] = True
    return restore(document, "the redacted recording")


class _Redaction(NamedTuple):
    """Replaces names by pseudonyms, in what is known (`value`) and in free text (`words`)."""

    names: Names
    key: bytes

    def head(self, name: str, item: Any) -> Any:
        """Redact what the recording says of itself: free text, unless a name alone is told."""
        if name in HEADS:
            return item
        if name == "scope":
            return list(map(self.reading_key, item))
        is_free = name in ("about", "imported") or name not in Meta._fields
        return self.words(item) if is_free else self.value(item)

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Redact a reading's key and answer; in times or return codes a match could only be
        chance.
        """
        changed = {**row, "key": self.reading_key(row["key"])}
        if "value" in row:
            changed["value"] = self.answer(row["key"], row["value"])
        if "error" in row:
            changed["error"] = {**row["error"], "text": self.words(row["error"]["text"])}
        return changed

    def reading_key(self, key: str) -> str:
        """Redact a key, or a pattern of keys: a log's is a file that somebody named."""
        if key.startswith("log:") and key not in SYSTEM_LOGS:
            return f"log:{self.words(key.removeprefix('log:'))}"
        return str(self.value(key))

    def answer(self, key: str, value: Any) -> Any:
        """Redact what was read, by what its key says of it."""
        special = next((redact for part, redact in FORMS.items() if part in key), None)
        if special and isinstance(value, str):
            told = special(value, self.key)
            return self.value(told) if key.startswith("run:lspci") else told
        if _is_short_name(key, value):
            return pseudonym(value, self.key)
        is_known = key.startswith(KNOWN) or _is_naming(key)
        return self.value(value) if is_known else self.words(value)

    def value(self, value: Any) -> Any:
        """Redact the names in numbers, models, states and paths."""
        if isinstance(value, str):
            return self._known_text(value)
        if isinstance(value, dict):
            return {self.value(name): self.value(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if type(value) is int and str(value) in self.names.names:
            return int(pseudonym(str(value), self.key))
        return value

    def _known_text(self, text: str) -> str:
        if COUNT.fullmatch(text) and text.strip() not in self.names.names:
            return text
        told, at = [], 0
        for start, end in self.names.spans(text):
            told += [text[at:start], pseudonym(text[start:end], self.key)]
            at = end
        return "".join((*told, text[at:]))

    def words(self, value: Any) -> Any:
        """Redact text of unknown kind, line by line; heads of kernel records and JSON keep their
        form.
        """
        if isinstance(value, str):
            return "\n".join(map(self._line, value.split("\n")))
        if isinstance(value, dict):
            return {self.value(name): self.words(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.words(item) for item in value]
        return self.value(value)

    def _line(self, line: str) -> str:
        if line.startswith("{") and line.rstrip().endswith("}"):
            try:
                return json.dumps(self._json(json.loads(line)))
            except (ValueError, RecursionError):
                pass
        head = RECORD_HEAD.match(line)
        start = head.end() if head else 0
        told = redact_words(line[start:], self.names, lambda word: pseudonym(word, self.key))
        return line[:start] + told

    def _json(self, item: Any) -> Any:
        """Redact what a journal's JSON holds; its times and the names of its fields stay."""
        if isinstance(item, str):
            return self._line(item)
        if isinstance(item, list):
            return [self._json(part) for part in item]
        if not isinstance(item, dict):
            return item
        return {
            self.value(name) if FIELD.fullmatch(name) else self._line(name): (
                part if _is_stamp(name, part) else self._json(part)
            )
            for name, part in item.items()
        }


def _is_stamp(name: str, part: Any) -> bool:
    return STAMP_FIELD.search(name) is not None and STAMP.fullmatch(str(part)) is not None


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
        if key.startswith("history:"):
            names |= _find_remembered(value)
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


def _find_remembered(value: Any) -> set[str]:
    """Return the serial numbers and boots in a reading of the archive, also those of parts that
    are no longer in the node.
    """
    if isinstance(value, list):
        return {name for item in value for name in _find_remembered(item)}
    if not isinstance(value, dict):
        return set()
    return {str(value[name]).strip() for name in ("serial", "boot_id") if value.get(name)}


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


def _secret(recording: Recording) -> bytes:
    machine = recording.get("file:/etc/machine-id")
    if is_unread(machine) or not str(machine).strip():
        return os.urandom(16)
    return str(machine).strip().encode()
