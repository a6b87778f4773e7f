"""Prefixes of log lines: timestamps, levels, hosts and programs, in every format of kernel logs."""

import json
import re
from itertools import pairwise
from typing import Any, NamedTuple

from gpuscan.kernellog import stamps
from gpuscan.text import is_one_edit_away


class ParsedLine(NamedTuple):
    """A line without its prefix, and what the prefix says.

    *at_s* is seconds since boot, *wall_s* Unix time. *kernel* is False if a user program wrote the
    line. *transport* names the format of the line.
    """

    message: str
    at_s: float | None = None
    wall_s: float | None = None
    kernel: bool = True
    transport: str = "bare"
    host: str = ""


DATED = "dated"  # the transport of a text behind nothing but a date
UNKNOWN = "unknown"  # the transport of JSON that no journal writes
FOREIGN_STAMP = "foreign"  # of a line whose stamp is in another language or behind a name
KERNELS = ("kernel", "vmkernel")
GARBLED = "garbled"  # of a line whose writer is misspelt, so that it may be the kernel's
ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|(?: UTC)|[+-]\d\d:?\d\d)?"
LEVELS = "emerg|alert|crit|err|error|warn|warning|notice|info|debug"
FACILITIES = "kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]"
COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
KMSG = re.compile(r"(\d{1,9}),\d+,(\d{1,18}),[^;]{0,200};(.*)", re.DOTALL)
ESCAPE = re.compile(r"\\x([0-9a-f]{2})")
TAG = re.compile(r"<(\d{1,3})>(?:1 (?=\d{4}-))?")
DECODED = re.compile(rf"({FACILITIES}) *:(?:{LEVELS}) *: *")
TALOS = re.compile(rf"(?:\S+: )?({FACILITIES}): +(?:{LEVELS}): \[({ISO})\]: ?")
CALLER = r"(?:\[ *[TC] *\d+\] ?)?"
BRACKET = re.compile(
    r"\[ *(?:(?P<uptime>\d{1,12}\.\d{1,9})|(?P<delta>[+<] *\d+\.\d+>?)"
    r"|(?P<date>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? \d{4})"
    rf"|(?P<iso>{ISO})|(?P<human>[A-Z][a-z]{{2}}[ \d]\d \d\d:\d\d))"
    rf"(?: *< *\+?\d+\.\d+>)?\]:? ?{CALLER}"
)
UPTIME = re.compile(rf"\[ *(\d{{1,12}}\.\d{{1,9}})\] ?{CALLER}")
FABRIC = re.compile(r"\[([A-Z][a-z]{2}) (\d\d) (\d{4}) (\d\d:\d\d:\d\d)\] \[\w+\] \[tid \d+\] ?")
DATE = re.compile(
    rf"(?:(?P<iso>{ISO})|[A-Z][a-z]{{2}} (?P<full>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)"
    r"(?: [A-Z]{2,5}| [+-]\d\d)?"
    r"|(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2})(?: (?P<year>\d{4}))?(?: |, )"
    r"(?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)"
    r"|(?P<time>\d\d:\d\d:\d\d(?:[.,]\d+)?))(?::? )+"
)
CONTAINER = re.compile(r"(?:stdout|stderr) [FP] ")
OF_KERNEL = re.compile(r"(?:(\S*[^\s:]) )?kernel(?:\[\d+\])?:(?: |(?=\[)|$)")
VMKERNEL = re.compile(  # ESXi: `In(182) vmkernel: cpu12:2098765)NVRM: …`
    r"(?:\w+\(\d+\) )?(?:vmk\w+: )?cpu\d+:\d+(?: opID=\w+)?\)(?:(?:WARNING|ALERT): )?"
)
CPU = re.compile(r"[cpu]{2,4}\d+")
SPLIT_SWITCH = re.compile(r"\bn? ?vidia-nvswitch\d*: |\bnvidia-nvs?w?i?t?c?h? \w*: ")
LONGEST_PREFIX = 80  # of a host and a program
# ESXi's prefix, not understood
GLUED = re.compile(r"[^\s\d]*+\d\S*?(?:NVRM|nvidia-nvswitch)|.{0,60}\d\)(?:NVRM|nvidia-nvswitch)")
KERNEL_ITSELF = re.compile(r"(?:(\S*[^\s:\]]) )?(?=NVRM: |nvidia-nvswitch\d*: )")
RFC5424 = re.compile(r"(\S+) (\S+) (?:\d+|-) \S+ (?:-|\[.*?\]) ?")
OF_PROGRAM = re.compile(
    r"(?:(\S*[^\s:\]]) )?(?P<who>\([^)]*\)|[^\s\[\]:(]+)(?:\[(?P<pid>\d+)\])?: ?"
)
WITH_PID = re.compile(r"(?:(\S*[^\s:\]]) )?(?P<who>\([^)]*\)|[^\s\[\]:(]+)\[\d+\]: ")
# A stamp in the words of another locale, a file's name, a number: whatever stands before `kernel:`,
# unless an opening quote or a program's name does.
FOREIGN = re.compile(
    r"(?P<before>[^=\"'`\u201c\u2018\u00ab]{1,160}?[\s:])(?:kernel(?:\[\d+\])?:(?: |(?=\[)|$)"
    r"|(?P<who>[\w.@-]+\[\d+\]: ))"
)
CLOCK = re.compile(r"\d\d:\d\d:\d\d")
# what the kernel itself says about a program
FAULTS = ("segfault at ", "unhandled ", "bad frame", "general protection")
AUDIT = re.compile(r"audit(?:\(|:|\[)|type=\w+ (?:msg=)?audit\(|type=\w+ msg=audit")
BOOT = re.compile(r"-- (?:Boot [0-9a-f]+|Reboot) --")
WALL = re.compile(r"Message from syslogd@(\S+) at ")
NUMBERED = re.compile(r"\{\d+\}\[Hardware Error\]")  # a firmware's report, which is no JSON
MESSAGE = re.compile(r'"MESSAGE" ?: ?("(?:[^"\\]|\\.)*")')
JOURNAL_FIELDS = ('"__CURSOR"', '"__REALTIME', '"__MONOTONIC', '"_TRANSPORT"', '"_BOOT_ID"')
TRANSPORTS = ("kernel", "audit", "driver", "syslog", "journal", "stdout", "")  # journald's
FABRIC_MANAGERS = (
    "nv-fabricmanager",
    "nvidia-fabricmanager",
    "fabricmanager",
    "nv-fabricmanager-start.sh",
)


def parse_line(text: str, until_s: float) -> ParsedLine | None:
    """Split a line into prefix and message; None if it has no prefix.

    >>> parse_line("Feb 23 16:24:18 node1 kernel: [ 3600.25] NVRM: loading", 1.75e9)
    ParsedLine(message='NVRM: loading', at_s=3600.25, wall_s=1740327858.0, kernel=True,
               transport='syslog-uptime', host='node1')
    """
    if text[:1] == "{" and not NUMBERED.match(text):
        return _parse_json(text) or _unknown_json(text)
    hit = KMSG.match(text)
    if hit:
        return _without_audit(_kmsg(hit))
    kernel, start = True, 0
    hit = TAG.match(text) or DECODED.match(text)
    if hit:
        kernel, start = (int(hit[1]) < 8 if hit[1].isdigit() else hit[1] == "kern"), hit.end()
        text = text[start:]
    parsed = _parse_stamped(text, until_s)
    if parsed is None and any(field in text[:64] for field in JOURNAL_FIELDS):
        return ParsedLine(text, kernel=False, transport=GARBLED)
    if parsed is None:
        return ParsedLine(text, kernel=kernel, transport="tag") if start else None
    return parsed if kernel else parsed._replace(kernel=False)


def _kmsg(hit: re.Match[str]) -> ParsedLine:
    stamp_us = stamps.parse_number(hit[2])
    at_s = None if stamp_us is None else stamp_us / 1e6
    return ParsedLine(_unescape(hit[3]), at_s, None, int(hit[1]) < 8, "kmsg")


def _parse_stamped(text: str, until_s: float) -> ParsedLine | None:
    for parse in (_parse_bracket, _parse_talos, _parse_dated, _parse_named, _parse_foreign):
        parsed = parse(text, until_s)
        if parsed is not None:
            return _without_audit(parsed)
    return None


def _parse_bracket(text: str, until_s: float) -> ParsedLine | None:
    hit = BRACKET.match(text)
    if hit is None:
        return _parse_fabric_manager(text)
    rest = text[hit.end() :]
    if hit["uptime"]:
        at_s = stamps.parse_number(hit["uptime"])
        return _strip_monotonic(ParsedLine(rest, at_s, transport="uptime"))
    if hit["delta"]:
        return _strip_program(ParsedLine(rest, transport="delta"))
    if hit["human"]:
        stamp = hit["human"]
        wall_s = stamps.parse_yearless_date(stamp[:3], stamp[3:5], stamp[6:], until_s)
        return _strip_program(ParsedLine(rest, None, wall_s, transport="human"))
    if hit["date"]:
        _, month, day, clock, year = hit["date"].split()
        wall_s = stamps.parse_date(month, day, clock, int(year))
    else:
        wall_s = stamps.parse_iso(hit["iso"])
    return _strip_program(ParsedLine(rest, None, wall_s, transport="date"))


def _parse_fabric_manager(text: str) -> ParsedLine | None:
    hit = FABRIC.match(text)
    if hit is None:
        return None
    wall_s = stamps.parse_date(hit[1], hit[2], hit[4], int(hit[3]))
    return ParsedLine(text[hit.end() :], None, wall_s, kernel=False, transport="fm")


def _strip_monotonic(line: ParsedLine) -> ParsedLine:
    """Strip what `journalctl -o short-monotonic` writes after the timestamp: host and program."""
    hit = OF_KERNEL.match(line.message)
    if hit and hit[1]:
        return line._replace(message=line.message[hit.end() :], host=hit[1])
    return _strip_program(line)


def _strip_program(line: ParsedLine) -> ParsedLine:
    """Mark what a program wrote into the kernel's log; `python[12]: segfault` is the kernel's."""
    hit = WITH_PID.match(line.message)
    if hit is None or line.message.startswith(FAULTS, hit.end()):
        return line
    return line._replace(kernel=False, host=hit[1] or "")


def _parse_talos(text: str, until_s: float) -> ParsedLine | None:
    hit = TALOS.match(text)
    if hit is None:
        return None
    wall_s = stamps.parse_iso(hit[2])
    return ParsedLine(text[hit.end() :], None, wall_s, hit[1] == "kern", "talos")


def _parse_dated(text: str, until_s: float) -> ParsedLine | None:
    hit = DATE.match(text)
    if hit is None:
        return None
    wall_s, rest, transport = None, text[hit.end() :], "syslog"
    if hit["iso"] or hit["full"]:
        transport = "syslog-iso"
        wall_s = stamps.parse_iso(hit["iso"] or hit["full"])
        if "," in (hit["iso"] or ""):  # only `dmesg --time-format=iso` writes a comma
            return _strip_program(ParsedLine(rest, None, wall_s, transport="date"))
        if CONTAINER.match(rest):
            return ParsedLine(rest, None, wall_s, kernel=False, transport="container")
    elif hit["month"] and hit["year"]:
        wall_s = stamps.parse_date(hit["month"], hit["day"], hit["clock"], int(hit["year"]))
    elif hit["month"]:
        wall_s = stamps.parse_yearless_date(hit["month"], hit["day"], hit["clock"], until_s)
    return _parse_syslog(rest, wall_s, transport)


def _parse_syslog(rest: str, wall_s: float | None, transport: str) -> ParsedLine:
    """Strip the host, `kernel:` or the program, and the kernel's own timestamp after them."""
    hit = OF_KERNEL.match(rest) or KERNEL_ITSELF.match(rest)
    if hit:
        message, at_s = rest[hit.end() :], None
        stamp = UPTIME.match(message)
        if stamp:  # a transport of its own: copies of one line are recognised by their transports
            transport = f"{transport}-uptime"
            message, at_s = message[stamp.end() :], stamps.parse_number(stamp[1])
        return ParsedLine(message, at_s, wall_s, transport=transport, host=hit[1] or "")
    hit = VMKERNEL.match(rest)
    if hit:
        return ParsedLine(rest[hit.end() :], None, wall_s, transport="vmkernel")
    hit = RFC5424.match(rest)
    if hit:
        way = GARBLED if _is_misspelt(hit[2]) else transport
        return ParsedLine(rest[hit.end() :], None, wall_s, hit[2] == "kernel", way, hit[1])
    hit = OF_PROGRAM.match(rest)
    if hit is None:
        return ParsedLine(rest, None, wall_s, transport=DATED)
    if _is_misspelt(hit["who"]) or _is_split(rest) or GLUED.match(rest):
        return ParsedLine(rest, None, wall_s, kernel=False, transport=GARBLED)
    message, fabric_manager = rest[hit.end() :], hit["who"] in FABRIC_MANAGERS
    if fabric_manager and (own := FABRIC.match(message)):
        message = message[own.end() :]
    return ParsedLine(
        message,
        None,
        wall_s,
        kernel=False,
        transport="fm" if fabric_manager else transport,
        host=hit[1] or "",
    )


def _is_split(rest: str) -> bool:
    """Return whether a damaged character splits what would be `host kernel: ` or a driver's name.

    >>> [_is_split(rest) for rest in ("n k:ernel: NVRM: x", "kernel:n vidia-nvswitch2: x", "b: x")]
    [True, True, False]
    """
    words = rest[:LONGEST_PREFIX].split(" ")[:3]
    glued = any(word.startswith("kernel:") and word != "kernel:" for word in words[:2])
    pairs = [f"{one} {two}" for one, two in pairwise(words)]
    names = [word.removesuffix(":") for word in (*words[:2], *pairs) if word.endswith(":")]
    return (
        glued
        or SPLIT_SWITCH.search(rest[:LONGEST_PREFIX]) is not None
        or any(is_one_edit_away(name, kernel) for name in names for kernel in KERNELS)
    )


def _is_misspelt(who: str) -> bool:
    """Return whether a program's name is one character off the kernel's or a Fabric Manager's,
    glued to what stands before it, or is the kernel's where no kernel writes it so.
    """
    names = (*KERNELS, *FABRIC_MANAGERS)
    glued = who.endswith(KERNELS) or (who.endswith(FABRIC_MANAGERS) and who not in names)
    spelt = any(is_one_edit_away(who, name) for name in names)
    return glued or spelt or who.startswith("(kernel") or CPU.fullmatch(who) is not None


def _parse_named(text: str, until_s: float) -> ParsedLine | None:
    """Parse a line without a timestamp: `kernel: `, a program with a pid, a mark of a logger."""
    hit = OF_KERNEL.match(text)
    if hit:
        return _parse_syslog(text, None, "named")
    if BOOT.match(text):
        return ParsedLine(text, transport="mark")
    hit = WALL.match(text)
    if hit:
        return ParsedLine(text, kernel=False, transport="wall", host=hit[1])
    if AUDIT.match(text):
        return ParsedLine(text, kernel=False, transport="audit")
    hit = WITH_PID.match(text)
    if hit and not text.startswith(FAULTS, hit.end()):
        return ParsedLine(text, kernel=False, transport="program", host=hit[1] or "")
    return None


def _parse_foreign(text: str, until_s: float) -> ParsedLine | None:
    """Parse a line whose stamp is in another language, or stands behind a file's name or a number.

    >>> _parse_foreign("11\u6708 15 14:15:47 node1 kernel: NVRM: loading", 1.75e9)
    ParsedLine(message='NVRM: loading', at_s=None, wall_s=None, kernel=True, transport='foreign',
               host='node1')
    """
    hit = FOREIGN.match(text)
    if hit is None or ": " in hit["before"] or not CLOCK.search(hit["before"]):
        return None
    if hit["who"]:
        way = "fm" if hit["who"].startswith(FABRIC_MANAGERS) else "program"
        return ParsedLine(text[hit.end() :], kernel=False, transport=way)
    date = DATE.search(hit["before"])
    dated = _parse_dated(text[date.start() :], until_s) if date else None
    if dated is not None and dated.kernel and (date is None or date["month"] or date["iso"]):
        return dated
    line = _parse_syslog(f"kernel: {text[hit.end() :]}", None, FOREIGN_STAMP)
    return line._replace(host=hit["before"].split()[-1].rpartition(":")[2])


def _without_audit(line: ParsedLine) -> ParsedLine:
    """Mark an audit record as written by a program: it quotes what programs do."""
    return line._replace(kernel=False) if AUDIT.match(line.message) else line


def _unescape(text: str) -> str:
    r"""Undo escapes of /dev/kmsg such as \x0a."""
    if "\\x" not in text:
        return text
    data = text.encode("utf-8", "surrogateescape")
    data = re.sub(rb"\\x([0-9a-f]{2})", lambda hit: bytes([int(hit[1], 16)]), data)
    return data.decode("utf-8", "surrogateescape")


def _parse_json(text: str) -> ParsedLine | None:
    """Parse a line of `journalctl -o json`, even if it is cut off; None for any other JSON."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return _parse_cut_json(text)
    if not isinstance(entry, dict) or "MESSAGE" not in entry:
        return None
    own_us = entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get("__MONOTONIC_TIMESTAMP")
    at_us = stamps.parse_number(own_us)
    wall_us = stamps.parse_number(entry.get("__REALTIME_TIMESTAMP"))
    manager = entry.get("SYSLOG_IDENTIFIER") in FABRIC_MANAGERS
    by_program = any(name in entry for name in ("_PID", "_COMM", "_EXE"))
    transport = str(entry.get("_TRANSPORT", "" if by_program else "kernel"))
    message = _message_text(entry["MESSAGE"])
    if transport not in TRANSPORTS or message is None:
        return ParsedLine(text, kernel=False, transport=GARBLED)
    line = ParsedLine(
        message,
        None if at_us is None else at_us / 1e6,
        None if wall_us is None else wall_us / 1e6,
        transport == "kernel",
        "fm" if manager else "json",
        str(entry.get("_HOSTNAME") or ""),
    )
    return _without_audit(line)


def _unknown_json(text: str) -> ParsedLine:
    """Return what is no record of a journal; damaged, if it has fields that only these have."""
    journal = any(field in text for field in JOURNAL_FIELDS)
    return ParsedLine(text, kernel=False, transport=GARBLED if journal else UNKNOWN)


def _parse_cut_json(text: str) -> ParsedLine | None:
    hit = MESSAGE.search(text)
    if hit is None or not any(field in text for field in JOURNAL_FIELDS):
        return None
    named = re.search(r'"_TRANSPORT" ?: ?"(\w+)"', text)
    if named and named[1] not in TRANSPORTS:
        return ParsedLine(text, kernel=False, transport=GARBLED)
    kernel = named[1] == "kernel" if named else '"_PID"' not in text and '"_COMM"' not in text
    if not text[hit.end() :].lstrip().startswith((",", "}")) and text[hit.end() :].strip():
        return ParsedLine(text, kernel=False, transport=GARBLED)  # the message goes on
    try:
        message = str(json.loads(hit[1]))
    except ValueError:
        return None
    return _without_audit(ParsedLine(message, kernel=kernel, transport="json"))


def _message_text(message: Any) -> str | None:
    """Return a MESSAGE as text, None for one that no journal writes.

    journald writes one that is not UTF-8 as a list of bytes, a repeated field as a list, and an
    empty or a very long one as null.
    """
    if message is None or isinstance(message, str):
        return message or ""
    if not isinstance(message, list):
        return None
    if all(type(byte) is int and 0 <= byte < 256 for byte in message):
        return bytes(message).decode("utf-8", "surrogateescape")
    parts = [_message_text(part) for part in message if isinstance(part, (str, list))]
    told = [part for part in parts if part is not None]
    return "\n".join(told) if len(told) == len(message) else None
