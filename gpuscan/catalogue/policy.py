"""What NVIDIA asks for before it takes a part back: by check, area or Xid, each with its source."""

import re
from functools import cache
from typing import NamedTuple

INCIDENT = re.compile(r"incident:(Xid|SXid) (\d+)\b")


class Policy(NamedTuple):
    """One entry of policy.json: what it is for (`memory.row_remap`, `nvlink`, `xid:79`),
    its text, its source.
    """

    key: str
    text: str
    source: str


@cache
def _document() -> "dict[str, dict[str, dict[str, str]]]":
    from gpuscan.catalogue import document

    return document("policy")


def general() -> Policy:
    """Return what holds for every fault."""
    row = _document()["general"]
    return Policy("general", str(row["text"]), str(row["source"]))


def entries() -> tuple[Policy, ...]:
    """Return all entries."""
    return tuple(
        Policy(key, row["text"], row["source"]) for key, row in _document()["entries"].items()
    )


def policy(check: str, subject: str) -> Policy | None:
    """Return the entry for a finding: that of its Xid, else of its check, else of its area; None
    where there is none.
    """
    hit = INCIDENT.match(subject)
    code = f"{hit[1].lower()}:{hit[2]}" if hit else ""
    known = {one.key: one for one in entries()}
    return next(
        (known[key] for key in (code, check, check.partition(".")[0]) if key in known), None
    )
