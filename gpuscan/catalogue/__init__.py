"""The catalogue: what Xids, SXids, DCGM codes and kernel messages mean, and what they ask for.

It is data in JSON, loaded only when there is an event.
"""

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from gpuscan.model.outcome import Action

PROPER = ("Fabric Manager",)
WITH_CODE = ("xid", "sxid", "dcgm")  # each has its own file; messages without a code: lines.json


class Condition(NamedTuple):
    """Another action of an entry, if all predicates of *when* hold (see incidents.conditions)."""

    when: Mapping[str, Any]
    action: Action
    because: str
    urgency: str = ""


class Disagreement(NamedTuple):
    """A source that disagrees with the entry's action, and what it says."""

    who: str
    says: str


class Entry(NamedTuple):
    """One code or message.

    *action* is the default action; the first of *conditions* that holds replaces it. *bucket* is
    NVIDIA's own classification (immediate, investigatory). *application* is set if the usual cause
    is a program. *state* is `mapped` if the driver maps it to its recovery action, `unmapped` if
    not (then it is active until a reset or boot), and `none` if it needs no cure. *decode* names
    the decoder of its text. *ladder* is the actions for a fault that returns within *window_days*,
    if the entry has its own; an empty one asks for nothing more. *ages* is set if one burst of it
    is history after an hour without return, *returns* if the GPU does no work after it until it is
    cured, so that another one much later is a new fault.
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
    ages: bool = False
    returns: bool = False

    @property
    def summary(self) -> str:
        """The first clause of the meaning, to stand within a sentence."""
        clause = re.split(r"[.;](?: |$)", self.meaning, maxsplit=1)[0]
        if clause[:1].isupper() and clause[1:2].islower() and not clause.startswith(PROPER):
            return clause[:1].lower() + clause[1:]
        return f"a{clause[1:]}" if clause.startswith(("A ", "An ")) else clause


# An SXid that no catalogue has is as serious as its line says.
PRINTED = (
    Condition({"severity": ["Fatal"]}, Action.RESET_GPU, "the driver logs it as fatal"),
    Condition(
        {"severity": ["Non-fatal", "Correctable"]},
        Action.MONITOR,
        "the driver logs it as non-fatal",
        "next-idle",
    ),
)


@cache
def document(name: str) -> dict[str, Any]:
    """Return a file of the catalogue by its name without .json."""
    # importlib.resources would take longer to import than this takes to read
    directory = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(directory, f"{name}.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def _file(kind: str) -> str:
    return kind if kind in WITH_CODE else "lines"


@cache
def _rows(name: str) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in document(name)["entries"]}


@cache
def entry(id_: str) -> Entry:
    """Return the entry of an id (`xid:79`).

    An Xid or SXid that NVIDIA has not published gets an entry whose action is investigate. Raises
    KeyError for any other unknown id.
    """
    kind, _, code = id_.partition(":")
    row = _rows(_file(kind)).get(id_)
    if row is None and kind in ("xid", "sxid") and code.isdigit():
        return _unlisted(id_, int(code) if len(code) < 10 else 0)
    return _entry(row if row is not None else _rows(_file(kind))[id_])


def entries(kind: str) -> tuple[Entry, ...]:
    """Return all entries of a kind in the order of the file."""
    rows = _rows(_file(kind)).items()
    return tuple(_entry(row) for id_, row in rows if id_.startswith(f"{kind}:"))


def sources(kind: str) -> Mapping[str, str]:
    """Return the names of a kind's sources by their keys."""
    return dict(document(_file(kind))["source_keys"])


def _unlisted(id_: str, code: int) -> Entry:
    conditions = PRINTED if id_.startswith("sxid:") else ()
    return Entry(
        id=id_,
        code=code,
        name="not in NVIDIA's catalogue",
        meaning="NVIDIA has published nothing about this number, or this gpuscan is older than it.",
        bucket={"immediate": "", "investigatory": ""},
        action=Action.INVESTIGATE,
        conditions=conditions,
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
    fields: dict[str, Any] = {name: row[name] for name in Entry._fields if name in row}
    for name in ("companions", "sources", "notes"):
        fields[name] = tuple(row[name])
    fields["action"] = Action(row["action"])
    fields["conditions"] = tuple(
        Condition(one["if"], Action(one["action"]), one["because"], one.get("urgency", ""))
        for one in row["conditions"]
    )
    fields["disagreements"] = tuple(
        Disagreement(one["who"], one["says"]) for one in row["disagreements"]
    )
    if "ladder" in row:
        fields["ladder"] = tuple(map(Action, row["ladder"]))
    return Entry(**{"code": 0, **fields})
