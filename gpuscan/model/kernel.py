"""Records of the driver and of the kernel log."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuscan.model.unread import Fact


class Driver(NamedTuple):
    """The NVIDIA driver: whether NVML answers (*access*), and the versions of module and library.

    *flavour* is `open` or `proprietary`; *nvml_count* is how many GPUs NVML lists;
    *confidential_compute* is that mode. *nvml_process* is True where the process that reads NVML
    survived every call, Unread where it died or hung in one.
    """

    access: Fact[str]
    module_version: Fact[str]
    flavour: Fact[str]
    library_version: Fact[str]
    nvml_version: Fact[str]
    cuda_version: Fact[str]
    nvml_count: Fact[int]
    confidential_compute: Fact[bool]
    nvml_process: Fact[bool] = True


class KernelLog(NamedTuple):
    """How much of this boot's kernel log was read: from *covered_from_s* seconds after boot on,
    *whole* if nothing before that is missing.

    *instead* is what else tells of a missing beginning, Unread if nothing does; "" if none is
    missing, or if the input is a fragment.
    """

    covered_from_s: Fact[float]
    whole: Fact[bool]
    lines: Fact[int]
    instead: Fact[str]


class Echo(NamedTuple):
    """Lines that follow from an incident: *events* of another code, on the same part or another."""

    label: str
    kind: str
    code: int
    entry: str
    address: str
    part: str
    events: int


class Incident(NamedTuple):
    """One fault in the kernel log: all events of one code on one part, with the echoes of it.

    *kind* is xid, sxid, nvrm (a driver's line without a code) or host; *entry* the catalogue's id,
    *name* its symbol. *action* follows from code, text, other events and state together, and
    *because* says why, unless it is the code's own; *asks* is what it asks for now, after all that
    has ended it: of history, no more than to watch it. *state* is what the GPU's state can say of
    it: mapped (the driver sets a recovery action for it), unmapped or none; *ended* names what has
    ended it since (a reset, a boot, declared work, a clear recovery action); *clean* says whether
    the GPU shows no fault now: yes, no or unknown. *events* counts lines and *times* bursts of
    them; *when* is the time as text, *first_s* and *last_s* are seconds since boot. *meaning* is
    the catalogue's, in one clause, and *text* the first line's own words. *programs* says in words
    which programs the lines name, not necessarily the culprits, and *processes* lists the first of
    them; *echoes* are its consequences in the log; *values* was parsed from the last line;
    *recovery_action* is the GPU's now. *listed* is False for a code that no catalogue has.
    """

    label: str
    address: str
    part: str
    kind: str
    code: int
    entry: str
    name: str
    action: str
    asks: str
    because: str
    impact: str
    urgency: str
    state: str
    ended: str
    clean: str
    listed: bool
    events: int
    times: int
    when: str
    first_s: float
    last_s: float
    meaning: str
    text: str
    programs: str
    processes: tuple[str, ...]
    echoes: tuple[Echo, ...]
    values: Mapping[str, Any]
    recovery_action: Fact[int]
