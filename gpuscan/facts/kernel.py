"""Records of the driver and of what the kernel logged."""

from typing import NamedTuple


class Driver(NamedTuple):
    """The NVIDIA driver: whether NVML answers (*access*), and the versions of module and library.

    *flavour* is `open` or `proprietary`; *nvml_count* is how many cards NVML lists; *confidential_compute* is that mode.
    """

    access: str
    module_version: str
    flavour: str
    library_version: str
    nvml_version: str
    cuda_version: str
    nvml_count: int
    confidential_compute: bool


class KernelLog(NamedTuple):
    """How much of this boot's kernel log was read: from *covered_from_s* seconds after boot, *whole* if from its start."""

    covered_from_s: float
    whole: bool
    lines: int


class Incident(NamedTuple):
    """One fault in the kernel log: all events of one code on one part in this boot; *kind* is xid, sxid or reset.

    *action* and *name* come from the catalogue; *first_s* and *last_s* are seconds since boot; *processes* are the
    programs that the lines name, who need not be the culprits; *recovery_action* is what the card's driver wants now.
    """

    label: str
    address: str
    kind: str
    code: int
    name: str
    action: str
    events: int
    first_s: float
    last_s: float
    text: str
    processes: tuple[str, ...]
    recovery_action: int
