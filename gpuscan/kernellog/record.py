"""One message of a kernel log, whatever wrote it down; light, as every scan imports it."""

from typing import NamedTuple


class Record(NamedTuple):
    """One message; *at_s* is seconds since boot, *wall_s* Unix time, each None where no stamp tells
    it.

    *kernel* is False where the transport says that a user program wrote it. *line* and *end* are
    its first and last line in the input, from 1. *transport* is the way it came: kmsg, json,
    uptime, date, syslog, fm, bare.
    """

    message: str
    at_s: float | None
    wall_s: float | None
    kernel: bool
    line: int
    transport: str = "bare"
    end: int = 0
