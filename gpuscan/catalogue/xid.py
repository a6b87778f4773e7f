"""The catalogue of Xids and SXids: a code's name and the action on its first, isolated occurrence."""

import json
from functools import cache
from typing import Any, NamedTuple

from gpuscan.outcome import CATALOGUE_WORDS, Action


class Entry(NamedTuple):
    """One code. *action* is a word of `Action`; an unlisted code is to be investigated.

    *ladder* and *window_days*, where the code has its own: what is asked for when it is back (nothing more, if empty),
    and within which time.
    """

    code: int
    name: str
    action: str
    sources: tuple[str, ...]
    ladder: tuple[Action, ...] | None = None
    window_days: float = 0.0


# Lines of the driver that bear no code: NVIDIA's own words in them say what they want.
WITHOUT_CODE = {"reset": Entry(0, "the driver refuses a card until it is reset", Action.RESET_GPU.value, ("OGKM",))}


@cache
def _table(kind: str) -> dict[int, Entry]:
    from importlib.resources import files

    rows = json.loads(files(__package__).joinpath(f"{kind}.json").read_text("utf-8"))[f"{kind}s"]
    return {row["code"]: _entry(row) for row in rows}


def _entry(row: dict[str, Any]) -> Entry:
    ladder = tuple(Action(_action(word)) for word in row["ladder"]) if "ladder" in row else None
    return Entry(row["code"], row["name"], _action(row["class"]), tuple(row["sources"]), ladder, row.get("window_days", 0.0))


def _action(word: str) -> str:
    return CATALOGUE_WORDS[word].value if word in CATALOGUE_WORDS else Action(word).value


def entry(kind: str, code: int) -> Entry:
    """Return what is known of a code (*kind* xid or sxid); one that NVIDIA has not published is `investigate`."""
    if kind in WITHOUT_CODE:
        return WITHOUT_CODE[kind]
    return _table(kind).get(code) or Entry(code, "not in NVIDIA's catalogue", Action.INVESTIGATE.value, ())
