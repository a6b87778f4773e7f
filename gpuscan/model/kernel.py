"""Records of the driver and of what the kernel logged."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuscan.model.unread import Fact


class Driver(NamedTuple):
    """The NVIDIA driver: whether NVML answers (*access*), and the versions of module and library.

    *flavour* is `open` or `proprietary`; *nvml_count* is how many GPUs NVML lists;
    *confidential_compute* is that mode.
    """

    access: Fact[str]
    module_version: Fact[str]
    flavour: Fact[str]
    library_version: Fact[str]
    nvml_version: Fact[str]
    cuda_version: Fact[str]
    nvml_count: Fact[int]
    confidential_compute: Fact[bool]


class KernelLog(NamedTuple):
    """How much of this boot's kernel log was read: from *covered_from_s* seconds after boot,
    *whole* if from its start.
    """

    covered_from_s: Fact[float]
    whole: Fact[bool]
    lines: Fact[int]


class Echo(NamedTuple):
    """What an incident left behind elsewhere or later: so many lines of another code, on the same
    part or another.
    """

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
    *name* its symbol. *action* is what code, text, company and state ask for together, and
    *because* why where that is not the code alone. *state* tells what the GPU's state says of it:
    mapped (the driver sets a recovery action for it), unmapped, or none; *ended* names what has
    ended it since (a reset, a boot); *clean* is yes, no or unknown: whether the GPU shows no fault
    now. *events* counts lines and *times* bursts of them; *when* is told in words, *first_s* and
    *last_s* are seconds since boot. *processes* are the programs that the lines name, who need not
    be the culprits; *echoes* what it left behind elsewhere; *values* what was parsed of the last
    line; *recovery_action* is what the GPU's driver wants now. *listed* is False for a code that
    no catalogue has.
    """

    label: str
    address: str
    part: str
    kind: str
    code: int
    entry: str
    name: str
    action: str
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
    text: str
    processes: tuple[str, ...]
    echoes: tuple[Echo, ...]
    values: Mapping[str, Any]
    recovery_action: Fact[int]
