"""What the state takes, where it is and who may write it: for `doctor` and `history`."""

import os
from typing import NamedTuple

from gpuscan.profile.site import load_site_config
from gpuscan.state.archive import FILE, MOST_BYTES, Archive
from gpuscan.state.place import StateError, node_state, refuse_shared, state_dir
from gpuscan.text import counted

MIB = 1 << 20


class Footprint(NamedTuple):
    """The state folder and its archive: runs, bytes and the most bytes that it may take.

    *written_by* names who may write the folder, *trouble* why nothing can be stored there, *node*
    where root keeps the node's hold besides; "" where there is no such thing.
    """

    folder: str
    runs: int
    archive_bytes: int
    most_bytes: int
    written_by: str
    trouble: str
    node: str


def measure(named: str, root: str = "/") -> Footprint:
    """Return what is stored in the state folder, *named* or this user's."""
    folder = state_dir(named)
    runs = taken = 0
    trouble = _trouble(folder)
    if os.path.lexists(os.path.join(folder, FILE)):
        try:
            archive = Archive(folder, write=False)
            rows = archive.footprint()
            archive.close()
            runs, taken = rows["runs"], rows["bytes"]
        except StateError as error:
            trouble = trouble or str(error)
    node = node_state(named, root)
    return Footprint(folder, runs, taken, most_bytes(), _owner(folder), trouble, node)


def most_bytes() -> int:
    """Return what the archive may take: the site configuration's `archive_mib`, else MOST_BYTES."""
    return int(load_site_config().archive_mib * MIB) or MOST_BYTES


def told(found: Footprint) -> str:
    """Return how much is stored, as words.

    >>> told(Footprint("/s", 1, 1 << 20, 256 << 20, "", "", ""))
    '1 run stored, 1.0 of at most 256 MiB'
    """
    runs = counted(found.runs, "run")
    return (
        f"{runs} stored, {found.archive_bytes / MIB:.1f} of at most {found.most_bytes / MIB:g} MiB"
    )


def _trouble(folder: str) -> str:
    try:
        refuse_shared(folder)
    except StateError as error:
        return str(error)
    there = folder
    while not os.path.lexists(there) and there != os.path.dirname(there):
        there = os.path.dirname(there)
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there}: this user may not write it"


def _owner(folder: str) -> str:
    try:
        found = os.stat(folder)
    except OSError:
        return "nobody yet: the first run creates it"
    return "root" if found.st_uid == 0 else f"user {found.st_uid}"
