"""Lines that name an Xid or SXid: whether one is the kernel's own, a quotation, or damaged.

A line that names a code and is no event is not understood: a serial console drops characters, and
drivers add fields. It hides a fault, so that no verdict without it is a pass.
"""

import re
from collections.abc import Iterable, Iterator
from string import ascii_letters

from gpuscan.kernellog import prefixes
from gpuscan.kernellog.events import parse_events
from gpuscan.kernellog.prefixes import DATED, FOREIGN_STAMP, GARBLED, UNKNOWN
from gpuscan.kernellog.record import Record

# Any of these is left of a line of the driver, a switch or the Fabric Manager of which one
# character is lost, changed, added or swapped with the next.
NAMES_CODE = re.compile(
    r"Xid.{0,3}PCI|Xid.{0,14}?\d[0-9a-fA-F]{1,7}:|Xid.{0,2}[(\[](?:PC?)?$"
    r"|Xid.{0,2}[(\[].{0,60}\d|NVRM: Xid.{0,24}\d"  # in a shape that no driver has had yet
    r"|(?:NVRM|nvidia-nvswitch)(?s:.){1,10}\(PCI:[0-9a-fA-F]{4}"
    r"|detected NVSwitch.{0,24}\d|NVSwitch (?:non-)?fatal e|error \d+ on .{0,24}NVSwitch pci"
)
TAGGED = re.compile(r"[\w.)-]\[\d+\]: .*S?Xid ?\(")  # said by a program that gives its name
RUNTIMES = ("container", UNKNOWN)  # CRI, and JSON such as docker's
# A program's tag, or an opening quote: none stands within a word, and one that begins the line may
# be of a list of JSON strings.
OF_PROGRAM = r"[\w.)-]\[\d+\]: "
SAID = re.compile(
    rf"^[^\S\n]*+(?:{OF_PROGRAM}|\S.*(?<![^\s=(\[{{:,\\])(?P<quote>[\"'`\\\u201c\u2018]))|{OF_PROGRAM}",
    re.MULTILINE,
)
# what a damaged stamp leaves of the kernel's own prefix: a word of it, the host, "kernel"
OF_STAMP = re.compile(r"\s*[A-Z]{1,4} [\w.-]+ kernel: (?:NVRM|nvidia)")
BYTES = re.compile(r"(?<!\d)\d++, ?\d++, ?\d++, ?\d")  # a message that journald wrote as bytes


def names_code(record: Record) -> bool:
    """Return whether a record names a code, or may: what a damaged one holds cannot be told."""
    if NAMES_CODE.search(record.message):
        return True
    return record.transport == GARBLED and BYTES.search(record.message) is not None


def is_quotation(record: Record) -> bool:
    """Return whether a program says what a record says: its prefix, its tag or a quote shows it."""
    if not record.kernel:
        return record.transport not in (GARBLED, "fm") and not OF_STAMP.match(record.message)
    hit = NAMES_CODE.search(record.message)
    before = record.message[: hit.start()] if hit else record.message
    said = SAID.search(before)
    if said is None:
        return False
    return not (said["quote"] and _is_in_stamp(record.message, said.end() - 1))


def _is_in_stamp(line: str, place: int) -> bool:
    """Return whether a quote stands within the kernel's own prefix: a damaged character."""
    for char in ("", "0", " ", *ascii_letters):  # that was lost there, or became the quote
        parsed = prefixes.parse_line(line[:place] + char + line[place + 1 :], 0.0)
        if parsed and parsed.kernel and parsed.transport not in (DATED, FOREIGN_STAMP):
            return True
    return False


def find_unread(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records that name a code and were not understood."""
    for record in records:
        if names_code(record) and not is_quotation(record) and not parse_events(record):
            yield record


def is_by_program(record: Record) -> bool:
    """Return whether a program that gives its name wrote a record, so that it is understood.

    What a container printed, or a tool put into quotes, may be the kernel's log itself.
    """
    by_program = not record.kernel and record.transport not in RUNTIMES
    return by_program or TAGGED.search(record.message) is not None
