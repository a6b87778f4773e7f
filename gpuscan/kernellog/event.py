"""One event of a kernel log: a fault, a reset or a boot."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Event(NamedTuple):
    """One fault, reset or boot: its kind, its entry in the catalogue, the part and the details.

    *address* is a PCI address as sysfs writes it; *part* names a part in any other way. *at_s* is
    seconds since boot and *wall_s* Unix time, by a clock that is *zone_s* seconds ahead of UTC;
    where that is None, the line names no zone, and its clock was taken for UTC. *text* is the end
    of the line without the program, which *pid* and *process* name. *cause* is the Xid that the
    line itself names as its cause. *line* is the event's first line in the input.
    """

    kind: str
    code: int
    entry: str
    address: str = ""
    part: str = ""
    at_s: float | None = None
    wall_s: float | None = None
    text: str = ""
    pid: int = 0
    process: str = ""
    mig: str = ""
    cause: int = 0
    severity: str = ""
    values: Mapping[str, Any] = NOTHING
    line: int = 0
    zone_s: float | None = None

    @property
    def alike(self) -> str:
        """What repetitions of one event have in common: its entry and its part."""
        return f"{self.entry} {self.address} {self.part}"
