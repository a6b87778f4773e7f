"""Records of a comparison with an earlier recording: what became of each slot and part."""

from typing import Any, NamedTuple

from gpuscan.model.fabric import Port
from gpuscan.model.gpu import Gpu
from gpuscan.model.host import Host
from gpuscan.model.past import Seen
from gpuscan.model.storage import Disk, Firmware
from gpuscan.model.unread import Fact

# what a change compares
ComparedRecord = Gpu | Port | Disk | Firmware | Host | Seen


class Compared(NamedTuple):
    """A value and the one that it should have: *usual*, of which *whose* says the source (`the
    other GPUs have`, `before it was`); *listed* if that source is the list of expected parts.
    """

    label: str
    value: Fact[Any]
    usual: Fact[Any]
    whose: str
    listed: bool = False


class Amount(NamedTuple):
    """A lifetime count of a part."""

    label: str
    value: int


class Change(NamedTuple):
    """What became of one slot, part or cable; *kind* is gpu, nic, cable, disk, firmware or node.

    *what* is same, replaced, moved (the part here was in *moved_from* before), missing (the part
    that was here is now in *moved_to*, empty if it was not seen again) or added; unread if the
    parts cannot be distinguished. A cable is identified by its far end. *expected*: the user named
    it as replaced or, with *reseated*, as back in its slot; *allowed*: it may differ without that;
    *new*: another part than before is here; *everywhere*: all GPUs of the node are others.
    *identity* reads `serial 1654000000107`.
    *versions* are what siblings should share (VBIOS, firmware), *marks* identify the kind of part
    (part number, PSID, model), *settings* are stored in the part or its port, *wear* are its
    lifetime error counts, *counters* the same compared with before on the same part. *faults* are
    the failures that the part here had before, *faults_left* those that it still has. *before* and
    *after* are the records compared.
    """

    label: str
    address: str
    kind: str
    what: Fact[str]
    expected: bool
    allowed: bool
    new: bool
    everywhere: bool
    moved_from: str
    moved_to: str
    identity_before: str
    identity: str
    known_bad: bool
    versions: tuple[Compared, ...]
    marks: tuple[Compared, ...]
    settings: tuple[Compared, ...]
    wear: tuple[Amount, ...]
    counters: tuple[Compared, ...]
    rate: tuple[Compared, ...]
    faults: tuple[str, ...]
    faults_left: tuple[str, ...]
    before: Fact[ComparedRecord]
    after: Fact[ComparedRecord]
    reseated: bool = False
