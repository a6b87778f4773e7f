"""What the codes and lines of NVIDIA's drivers mean and ask for: data, read only when there is an
event.
"""

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from gpuscan.model.outcome import Action

WITH_CODE = (
    "xid",
    "sxid",
    "dcgm",
)  # each in a file of its own; every other kind of line is in lines.json


class Condition(NamedTuple):
    """Where an entry asks for something else: *when* holds predicates of conditions.py, all of
    which must hold.
    """

    when: Mapping[str, Any]
    action: Action
    because: str
    urgency: str = ""


class Disagreement(NamedTuple):
    """What another source says against the entry's action."""

    who: str
    says: str


class Entry(NamedTuple):
    """One code or line. *action* is what it asks for first and alone; the first of *conditions*
    that holds overrules it.

    *bucket* is NVIDIA's own word (immediate, investigatory). *application*: a program's fault is
    the usual cause. *state* tells whether the driver maps it to its recovery action (`mapped`),
    does not (`unmapped`: it is active until a reset or boot) or it says nothing by itself (`none`).
    *decode* names the decoder of its text. *ladder* and *window_days*, where it has its own: what
    is asked for when it is back (nothing more, if empty), and within which time.
    """

    id: str
    code: int
    name: str
    meaning: str
    bucket: Mapping[str, str]
    action: Action
    conditions: tuple[Condition, ...]
    companions: tuple[str, ...]
    application: bool
    state: str
    impact: str
    urgency: str
    confidence: str
    sources: tuple[str, ...]
    disagreements: tuple[Disagreement, ...]
    notes: tuple[str, ...]
    decode: str = ""
    ladder: tuple[Action, ...] | None = None
    window_days: float = 0.0


@cache
def document(name: str) -> dict[str, Any]:
    """Return a file of the catalogue, by its name without .json."""
    here = os.path.dirname(
        os.path.abspath(__file__)
    )  # importlib.resources would take longer to import than this to read
    with open(os.path.join(here, f"{name}.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def _file(kind: str) -> str:
    return kind if kind in WITH_CODE else "lines"


@cache
def _rows(name: str) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in document(name)["entries"]}


@cache
def entry(id_: str) -> Entry:
    """Return the entry of an id (`xid:79`); an Xid or SXid that NVIDIA has not published is one to
    be investigated.

    Raises KeyError for any other id that the catalogue lacks.
    """
    kind, _, code = id_.partition(":")
    row = _rows(_file(kind)).get(id_)
    if row is None and kind in ("xid", "sxid") and code.isdigit():
        return _unlisted(id_, int(code) if len(code) < 10 else 0)
    return _entry(row if row is not None else _rows(_file(kind))[id_])


def entries(kind: str) -> tuple[Entry, ...]:
    """Return all entries of a kind, in the order of the file."""
    return tuple(
        _entry(row) for id_, row in _rows(_file(kind)).items() if id_.startswith(f"{kind}:")
    )


def sources(kind: str) -> Mapping[str, str]:
    """Return the long names of the sources that a kind's entries name by key."""
    return dict(document(_file(kind))["source_keys"])


def _unlisted(id_: str, code: int) -> Entry:
    return Entry(
        id=id_,
        code=code,
        name="not in NVIDIA's catalogue",
        meaning="NVIDIA has published nothing about this number, or this gpuscan is older than it.",
        bucket={"immediate": "", "investigatory": ""},
        action=Action.INVESTIGATE,
        conditions=(),
        companions=(),
        application=False,
        state="mapped" if id_.startswith("xid:") else "unmapped",
        impact="availability",
        urgency="now",
        confidence="low",
        sources=(),
        disagreements=(),
        notes=(),
    )


def _entry(row: Mapping[str, Any]) -> Entry:
    made: dict[str, Any] = {name: row[name] for name in Entry._fields if name in row}
    for name in ("companions", "sources", "notes"):
        made[name] = tuple(row[name])
    made["action"] = Action(row["action"])
    made["conditions"] = tuple(
        Condition(one["if"], Action(one["action"]), one["because"], one.get("urgency", ""))
        for one in row["conditions"]
    )
    made["disagreements"] = tuple(
        Disagreement(one["who"], one["says"]) for one in row["disagreements"]
    )
    if "ladder" in row:
        made["ladder"] = tuple(Action(word) for word in row["ladder"])
    return Entry(**{"code": 0, **made})
