"""Records of a comparison with an earlier recording: what became of each slot and part."""

from typing import Any, NamedTuple

from gpuscan.model.unread import Fact


class Compared(NamedTuple):
    """One value beside the one that it should have: *usual* is what *whose* says (`the other GPUs
    have`, `before it was`).
    """

    label: str
    value: Fact[Any]
    usual: Fact[Any]
    whose: str


class Amount(NamedTuple):
    """A lifetime count of a part."""

    label: str
    value: int


class Change(NamedTuple):
    """What became of one slot, part or cable; *kind* is gpu, nic, cable, disk, firmware or node.

    *what* is same, replaced, moved (a part of this node sits here that sat in *moved_from*),
    missing (the part that was here is now in *moved_to*, if it was seen again), or added; it is not
    read where the parts cannot be told apart. A cable is told by its far end. *expected* tells that
    it was named to be replaced, *allowed* that it may be another without that; *new* that another
    part than before sits here, *everywhere* that all GPUs of the node are others. *identity* reads
    `serial 1654000000107`. *versions* are what siblings should share (VBIOS, firmware), *marks*
    what tells their kind (part number, PSID, model), *settings* what lives in the part or its port,
    *wear* its lifetime counts of errors, *counters* those beside what they were on the same part.
    *faults* are the failures that the part here had before, *faults_left* those of them that are
    there again. *before* and *after* are the records that were compared.
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
    before: Fact[Any]
    after: Fact[Any]
