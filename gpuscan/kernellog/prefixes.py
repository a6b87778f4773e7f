"""What stands before a message: stamps, levels, hosts and programs, of every way that a kernel log
is written.
"""

import json
import re
from typing import Any, NamedTuple

from gpuscan.kernellog import stamps


class Head(NamedTuple):
    """A line taken apart: its message, its times, and who wrote it by which way."""

    message: str
    at_s: float | None = None
    wall_s: float | None = None
    kernel: bool = True
    transport: str = "bare"
    host: str = ""


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
    rf"|(?P<iso>{ISO})|(?P<human>[A-Z][a-z]{{2}}[ \d]\d \d\d:\d\d))(?: *< *\+?\d+\.\d+>)?\]:? ?{CALLER}"
)
UPTIME = re.compile(rf"\[ *(\d{{1,12}}\.\d{{1,9}})\] ?{CALLER}")
FABRIC = re.compile(r"\[([A-Z][a-z]{2}) (\d\d) (\d{4}) (\d\d:\d\d:\d\d)\] \[\w+\] \[tid \d+\] ?")
DATE = re.compile(
    rf"(?:(?P<iso>{ISO})|[A-Z][a-z]{{2}} (?P<full>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)(?: [A-Z]{{2,5}}| [+-]\d\d)?"
    r"|(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2})(?: (?P<year>\d{4}))?(?: |, )(?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)"
    r"|(?P<time>\d\d:\d\d:\d\d(?:[.,]\d+)?))(?::? )+"
)
CONTAINER = re.compile(r"(?:stdout|stderr) [FP] ")
OF_KERNEL = re.compile(r"(?:(\S*[^\s:]) )?kernel(?:\[\d+\])?:(?: |(?=\[)|$)")
KERNEL_ITSELF = re.compile(r"(?:(\S*[^\s:\]]) )?(?=NVRM: |nvidia-nvswitch\d*: )")
RFC5424 = re.compile(r"(\S+) (\S+) (?:\d+|-) \S+ (?:-|\[.*?\]) ?")
OF_PROGRAM = re.compile(
    r"(?:(\S*[^\s:\]]) )?(?P<who>\([^)]*\)|[^\s\[\]:(]+)(?:\[(?P<pid>\d+)\])?: ?"
)
WITH_PID = re.compile(r"(?:(\S*[^\s:\]]) )?(?P<who>\([^)]*\)|[^\s\[\]:(]+)\[\d+\]: ")
FAULTS = (
    "segfault at ",
    "unhandled ",
    "bad frame",
    "general protection",
)  # the kernel's words on a program
AUDIT = re.compile(r"audit(?:\(|:|\[)|type=\w+ (?:msg=)?audit\(|type=\w+ msg=audit")
BOOT = re.compile(r"-- (?:Boot [0-9a-f]+|Reboot) --")
WALL = re.compile(r"Message from syslogd@(\S+) at ")
SAID = re.compile(r'"MESSAGE" ?: ?("(?:[^"\\]|\\.)*")')
FABRIC_MANAGERS = (
    "nv-fabricmanager",
    "nvidia-fabricmanager",
    "fabricmanager",
    "nv-fabricmanager-start.sh",
)


def head(text: str, until_s: float) -> Head | None:
    """Take a line's prefix off; None for a line that bears none."""
    if text[:1] == "{":
        return _json(text) or Head(text, kernel=False, transport="json")
    hit = KMSG.match(text)
    if hit:
        stamp = stamps.number(hit[2])
        return _audited(
            Head(
                _unescaped(hit[3]),
                None if stamp is None else stamp / 1e6,
                None,
                int(hit[1]) < 8,
                "kmsg",
            )
        )
    kernel, start = True, 0
    hit = TAG.match(text) or DECODED.match(text)
    if hit:
        kernel, start = (int(hit[1]) < 8 if hit[1].isdigit() else hit[1] == "kern"), hit.end()
        text = text[start:]
    found = _stamped(text, until_s)
    if found is None:
        return Head(text, kernel=kernel, transport="tag") if start else None
    return found if kernel else found._replace(kernel=False)


def _stamped(text: str, until_s: float) -> Head | None:
    for way in (_bracketed, _talos, _dated, _named):
        found = way(text, until_s)
        if found is not None:
            return _audited(found)
    return None


def _bracketed(text: str, until_s: float) -> Head | None:
    hit = BRACKET.match(text)
    if hit is None:
        fabric = FABRIC.match(text)
        if fabric:
            wall_s = stamps.dated(fabric[1], fabric[2], fabric[4], int(fabric[3]))
            return Head(text[fabric.end() :], None, wall_s, kernel=False, transport="fm")
        return None
    rest = text[hit.end() :]
    if hit["uptime"]:
        return _monotonic(Head(rest, stamps.number(hit["uptime"]), transport="uptime"))
    if hit["date"]:
        _, month, day, clock, year = hit["date"].split()
        return _by_program(
            Head(rest, None, stamps.dated(month, day, clock, int(year)), transport="date")
        )
    if hit["iso"]:
        return _by_program(Head(rest, None, stamps.iso(hit["iso"]), transport="date"))
    if hit["human"]:
        stamp = hit["human"]
        return _by_program(
            Head(
                rest,
                None,
                stamps.newest(stamp[:3], stamp[3:5], stamp[6:], until_s),
                transport="human",
            )
        )
    return _by_program(Head(rest, transport="delta"))


def _monotonic(found: Head) -> Head:
    """Take off what `journalctl -o short-monotonic` has behind the stamp: host, and kernel or
    program.
    """
    hit = OF_KERNEL.match(found.message)
    if hit and hit[1]:
        return found._replace(message=found.message[hit.end() :], host=hit[1])
    return _by_program(found)


def _by_program(found: Head) -> Head:
    """Tell what a program wrote into the kernel's log; `python[12]: segfault` is the kernel's own."""
    hit = WITH_PID.match(found.message)
    if hit is None or found.message.startswith(FAULTS, hit.end()):
        return found
    return found._replace(kernel=False, host=hit[1] or "")


def _talos(text: str, until_s: float) -> Head | None:
    hit = TALOS.match(text)
    return (
        Head(text[hit.end() :], None, stamps.iso(hit[2]), hit[1] == "kern", "talos")
        if hit
        else None
    )


def _dated(text: str, until_s: float) -> Head | None:
    hit = DATE.match(text)
    if hit is None:
        return None
    wall_s, rest, way = None, text[hit.end() :], "syslog"
    if hit["iso"] or hit["full"]:
        way = "syslog-iso"
        wall_s = stamps.iso(hit["iso"] or hit["full"])
        if "," in (hit["iso"] or ""):  # `dmesg --time-format=iso` alone writes a comma
            return _by_program(Head(rest, None, wall_s, transport="date"))
        if CONTAINER.match(rest):
            return Head(rest, None, wall_s, kernel=False, transport="container")
    elif hit["month"] and hit["year"]:
        wall_s = stamps.dated(hit["month"], hit["day"], hit["clock"], int(hit["year"]))
    elif hit["month"]:
        wall_s = stamps.newest(hit["month"], hit["day"], hit["clock"], until_s)
    return _written(rest, wall_s, way)


def _written(rest: str, wall_s: float | None, transport: str) -> Head:
    """Take off host, and kernel or program, and the kernel's own stamp behind them."""
    hit = OF_KERNEL.match(rest) or KERNEL_ITSELF.match(rest)
    if hit:
        message, at_s = rest[hit.end() :], None
        stamp = UPTIME.match(message)
        if stamp:
            message, at_s = message[stamp.end() :], stamps.number(stamp[1])
        shape = (
            f"{transport}-uptime" if stamp else transport
        )  # copies of one line are told by the ways that they came
        return Head(message, at_s, wall_s, transport=shape, host=hit[1] or "")
    hit = RFC5424.match(rest)
    if hit:
        return Head(rest[hit.end() :], None, wall_s, hit[2] == "kernel", transport, hit[1])
    hit = OF_PROGRAM.match(rest)
    if hit is None:
        return Head(rest, None, wall_s, transport=transport)
    manager = hit["who"] in FABRIC_MANAGERS
    return Head(
        rest[hit.end() :],
        None,
        wall_s,
        kernel=False,
        transport="fm" if manager else transport,
        host=hit[1] or "",
    )


def _named(text: str, until_s: float) -> Head | None:
    """Take off what stands alone: `kernel: `, a program with its number, a mark of journalctl or
    of syslogd.
    """
    hit = OF_KERNEL.match(text)
    if hit:
        return _written(text, None, "named")
    if BOOT.match(text):
        return Head(text, transport="mark")
    hit = WALL.match(text)
    if hit:
        return Head(text, kernel=False, transport="wall", host=hit[1])
    if AUDIT.match(text):
        return Head(text, kernel=False, transport="audit")
    hit = WITH_PID.match(text)
    if hit and not text.startswith(FAULTS, hit.end()):
        return Head(text, kernel=False, transport="program", host=hit[1] or "")
    return None


def bare(text: str) -> Head:
    """Return the head of a line without any prefix."""
    return Head(text)


def _audited(found: Head) -> Head:
    return found._replace(kernel=False) if AUDIT.match(found.message) else found


def _unescaped(text: str) -> str:
    r"""Undo the \x0a of /dev/kmsg."""
    if "\\x" not in text:
        return text
    data = text.encode("utf-8", "surrogateescape")
    return re.sub(rb"\\x([0-9a-f]{2})", lambda hit: bytes([int(hit[1], 16)]), data).decode(
        "utf-8", "surrogateescape"
    )


def _json(text: str) -> Head | None:
    """Read a line of `journalctl -o json`, and of a half-written one what is whole; None for any
    other JSON.
    """
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return _half(text)
    if not isinstance(entry, dict) or "MESSAGE" not in entry:
        return None
    own = entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get("__MONOTONIC_TIMESTAMP")
    at_s, wall_s = stamps.number(own), stamps.number(entry.get("__REALTIME_TIMESTAMP"))
    manager = entry.get("SYSLOG_IDENTIFIER") in FABRIC_MANAGERS
    by_program = any(name in entry for name in ("_PID", "_COMM", "_EXE"))
    kernel = entry.get("_TRANSPORT", "" if by_program else "kernel") == "kernel"
    found = Head(
        _said(entry["MESSAGE"]),
        None if at_s is None else at_s / 1e6,
        None if wall_s is None else wall_s / 1e6,
        kernel,
        "fm" if manager else "json",
        str(entry.get("_HOSTNAME") or ""),
    )
    return _audited(found)


def _half(text: str) -> Head | None:
    hit = SAID.search(text)
    if hit is None or not any(
        word in text
        for word in ('"__CURSOR"', '"__REALTIME', '"__MONOTONIC', '"_TRANSPORT"', '"_BOOT_ID"')
    ):
        return None
    named = re.search(r'"_TRANSPORT" ?: ?"(\w+)"', text)
    kernel = named[1] == "kernel" if named else '"_PID"' not in text and '"_COMM"' not in text
    try:
        return _audited(Head(str(json.loads(hit[1])), kernel=kernel, transport="json"))
    except ValueError:
        return None


def _said(message: Any) -> str:
    """Return a MESSAGE as text: journald gives what is no UTF-8 as a list of bytes, and a field
    that is there twice as a list.
    """
    if isinstance(message, list) and all(
        isinstance(byte, int) and 0 <= byte < 256 for byte in message
    ):
        return bytes(message).decode("utf-8", "surrogateescape")
    if isinstance(message, list):
        return "\n".join(_said(part) for part in message if isinstance(part, (str, list)))
    return message if isinstance(message, str) else ""
