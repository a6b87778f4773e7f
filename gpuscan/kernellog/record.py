"""One message of a kernel log. Every scan imports this module, so it imports nothing itself."""

from typing import NamedTuple


class Record(NamedTuple):
    """One message and where it stands in the input.

    *at_s* is seconds since boot and *wall_s* Unix time; each is None if the line has no such
    timestamp. *zone_s* is how far the clock of *wall_s* is ahead of UTC, None if the line does not
    say so. *kernel* is False if the transport shows that a user program wrote the message.
    *line* and *end* are its first and last line in the input, counted from 1. *transport* says how
    the line was written: kmsg, json, uptime, date, syslog, fm (Fabric Manager), bare, …. *host* is
    the node that it names, "" if it names none.
    """

    message: str
    at_s: float | None
    wall_s: float | None
    kernel: bool
    line: int
    transport: str = "bare"
    end: int = 0
    zone_s: float | None = None
    host: str = ""
