"""NVIDIA's return policy: what it asks for before it takes a part back, each entry with its source.

Entries are for a check, an area of checks, or an Xid or SXid.
"""

from functools import cache
from typing import NamedTuple

from gpuscan import catalogue


class Policy(NamedTuple):
    """One entry of policy.json: its key (`memory.row_remap`, `nvlink`, `xid:79`), text, source."""

    key: str
    text: str
    source: str


def general_policy() -> Policy:
    """Return what applies to every fault."""
    row = catalogue.document("policy")["general"]
    return Policy("general", str(row["text"]), str(row["source"]))


@cache
def policies() -> dict[str, Policy]:
    """Return all other entries by key."""
    entries = catalogue.document("policy")["entries"]
    return {key: Policy(key, row["text"], row["source"]) for key, row in entries.items()}


def find_policy(check: str, entry: str = "") -> Policy | None:
    """Return the closest policy for a finding, None if there is none.

    That of the incident's catalogue *entry* (`xid:79`) comes first, then that of the check, then
    that of the check's area.
    """
    keys = (entry, check, check.partition(".")[0])
    return next((policies()[key] for key in keys if key in policies()), None)
