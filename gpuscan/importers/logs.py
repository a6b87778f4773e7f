"""Kernel and Fabric Manager logs: their relevant lines under `log:<name>`, as `gpuscan log` does.

A log is judged by its last boot.
"""

import os
import re

from gpuscan.errors import RecordingError
from gpuscan.importers import daemon_logs, journal
from gpuscan.importers.part import NOT_A_QUERY, Importer, Part, answer, begins_with
from gpuscan.kernellog import wrapping
from gpuscan.kernellog.keeping import reading_value, select_lines
from gpuscan.kernellog.needles import NEEDLE
from gpuscan.recording import Reading
from gpuscan.recording.keys import log

ENDS = 1000  # lines of the beginning and of the end that show the kind of log and its times
LONGEST_NAME = 120
STAMPED = re.compile(  # a line of a log, whatever its message
    r"^\[ *\d+\.\d{6}\]|^\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\]|^<\d+>"
    r"|^\d+,\d+,\d+,[-\w,=]*;|^(?:kern|user|daemon) *: *\w+ *: |^kern: +\w+: \["
    r"|^[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ \S+?(?:\[\d+\])?: "
    r"|^\d{4}-\d\d-\d\dT[\d:.,+-]\S* \S+ \S+?(?:\[\d+\])?: |^-- (?:Boot|Logs begin|Journal begins)"
    r"|\"_TRANSPORT\"|\"MESSAGE\" ?:"
)
OF_FABRIC_MANAGER = (
    r"^\[[A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d\] \[\w+\]|NV_WARN_NOTHING_TO_DO"
    r"|detected NVSwitch (?:non-)?fatal error|NVSwitch device information"
)
OF_KERNEL = re.compile(
    r"NVRM:|nvidia-nvswitch\d*:|nvidia-peermem|nvidia-modeset:|nvidia-uvm:|nvidia-nvlink:"
    r"|\bkernel: ?[\[\w{]|\bXid\b|\bmlx5_(?:core|cmd|ib)\w*|\bEDAC\b|\[Hardware Error\]"
    r"|\bpcieport \S+:|PCIe Bus Error|\bmce:|oom-kill|Out of memory: Kill|soft lockup"
    r"|Linux version \d"
)
PROGRAM = re.compile(r"^[\w.@-]+\[\d+\]: ")  # `systemd[1]: …`, a log without its timestamps
XML = re.compile(r"<[?!]|</?\w+(?: [^<>]*)?>\s*$")
LOG_COMMAND = re.compile(
    r"\bdmesg\b|\bjournalctl\b|/var/log/(?:kern|messages|syslog)|kern\.log|/dev/kmsg"
    r"|Scanning kernel log"
)


def readings(part: Part) -> list[Reading]:
    """Return one reading, of the log's last boot, and those of the services that it names.

    No line of it can be later than the file, if that still exists. A journal of services alone is
    no kernel log.
    """
    data = part.text.encode("utf-8", "surrogateescape")
    lines = data.removesuffix(b"\n").split(b"\n")
    until_s = os.stat(part.origin).st_mtime if os.path.isfile(part.origin) else None
    selected = select_lines(enumerate(lines, 1), until_s=until_s)
    hosts = wrapping.hosts_apart(selected.hosts)
    if len(hosts) > 1:
        raise RecordingError(f"{part.origin or part.kind}: {wrapping.several_nodes(hosts)}")
    value = reading_value(selected, len(lines), lines[:ENDS], lines[-ENDS:], until_s=until_s)
    units = journal.readings(part)
    if units and not (value["kernel"] or value["lines"] or value.get("unread")):
        return units
    return [answer(log(log_name(part)), value), *units]


def manager_readings(part: Part) -> list[Reading]:
    """Return the readings of a Fabric Manager's log: those of a log, and its other errors."""
    return [*readings(part), *daemon_logs.manager_readings(part)]


def log_name(part: Part) -> str:
    """Return the name of a log: its file, and the command that printed it if that is known.

    >>> log_name(Part("kernel log", "", "/tmp/node.txt", "dmesg -T"))
    'node.txt (dmesg -T)'
    """
    file = os.path.basename(part.origin)
    return f"{file} ({part.command})"[:LONGEST_NAME] if part.command else file or part.kind


def _begins_kernel_log(line: str, kind: str) -> bool:
    """An indented line within other output is part of that, even if it mentions the driver."""
    within = kind not in ("", KERNEL.name) and line[:1] in (" ", "\t")
    return not within and OF_KERNEL.search(line) is not None


def _is_bare_log(line: str, kind: str) -> bool:
    if kind or XML.search(line):
        return False
    return PROGRAM.match(line) is not None or NEEDLE.search(line) is not None


FABRIC_MANAGER = Importer(
    name="Fabric Manager log",
    reads="Fabric Manager logs",
    readings=manager_readings,
    commands=r"/var/log/\S+|fabricmanager\.log",
    begins=begins_with(OF_FABRIC_MANAGER),
)
KERNEL = Importer(
    name="kernel log",
    reads="kernel logs",
    readings=readings,
    commands=r"\bdmesg\b|\bjournalctl\b|/dev/kmsg|kern\.log",
    owns=rf"{NOT_A_QUERY}.*?(?:{LOG_COMMAND.pattern})",
    claims=STAMPED,
    begins=_begins_kernel_log,
)
# log lines without a prefix, which only match what no other importer accepts
BARE = Importer("kernel log", "kernel logs", readings, fits=_is_bare_log)
