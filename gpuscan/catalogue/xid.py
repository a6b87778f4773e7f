"""The Xid catalogue: a code's name and the action on its first, isolated occurrence."""

import json
from functools import cache
from typing import NamedTuple

from gpuscan.outcome import CATALOGUE_WORDS, Action


class XidEntry(NamedTuple):
    """One code. *action* is a word of `Action`; an unlisted code is to be investigated."""

    code: int
    name: str
    action: str
    sources: tuple[str, ...]


@cache
def _table() -> dict[int, XidEntry]:
    from importlib.resources import files

    rows = json.loads(files(__package__).joinpath("xid.json").read_text("utf-8"))["xids"]
    return {row["code"]: XidEntry(row["code"], row["name"], _action(row["class"]), tuple(row["sources"])) for row in rows}


def _action(word: str) -> str:
    return CATALOGUE_WORDS[word].value if word in CATALOGUE_WORDS else Action(word).value


def entry(code: int) -> XidEntry:
    """Return what is known of an Xid; a code that NVIDIA has not published is `investigate`."""
    return _table().get(code) or XidEntry(code, "not in NVIDIA's catalogue", Action.INVESTIGATE.value, ())
