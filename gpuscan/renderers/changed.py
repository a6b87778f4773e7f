"""What a comparison found to be changed, in lines for people: a line a part, or one for many that
changed alike.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

FEWEST_TO_FOLD = 3
Row = Mapping[str, Any]


def lines(rows: Sequence[Row], fold: Callable[[Sequence[str]], str], *, whole: bool) -> list[str]:
    """Return what changed, each as one line; *fold* joins the names of parts that changed alike,
    unless *whole* is wanted.
    """
    changed = [row for row in rows if _tells(row)]
    alike: dict[tuple[Any, ...], list[Row]] = {}
    for row in changed:
        alike.setdefault((row["kind"], row["what"], row["expected"]), []).append(row)
    told = []
    for (kind, what, expected), group in alike.items():
        if len(group) < FEWEST_TO_FOLD or whole or kind == "node":
            told += [f"{_name(row)}: {_what(row)}" for row in group]
        else:
            names = fold([f"{kind}:{row['slot']}" for row in group])
            told.append(f"{names}: {_alike(kind, what)} ({_word(expected)}; -v shows each)")
    return told or ["nothing"]


def _tells(row: Row) -> bool:
    if row["kind"] == "node":
        return bool(_differences(row))
    if (
        row["what"] == "unknown"
    ):  # of others than GPUs much is seldom recorded, and the check says so
        return bool(row["kind"] == "gpu")
    return bool(row["what"] != "same")


def _word(expected: bool) -> str:
    return "expected" if expected else "not expected"


def _name(row: Row) -> str:
    return "node" if row["kind"] == "node" else f"{row['kind']} {row['slot']}"


def _alike(kind: str, what: str) -> str:
    if what == "unknown":
        return "what tells them from others was not read"
    return "each leads elsewhere" if kind == "cable" else what


def _what(row: Row) -> str:
    if row["kind"] == "node":
        return ", ".join(_differences(row))
    if row["what"] == "unknown":
        return "what tells it from others was not read"
    before, after = (row[when].get("identity") or "?" for when in ("before", "after"))
    after = after if row["what"] != "missing" else "missing"
    noun, _, value = after.rpartition(" ")
    after = value if noun and before.startswith(f"{noun} ") else after
    return f"{before} -> {after} ({_word(row['expected'])}{', moved' if row['what'] == 'moved' else ''})"


def _differences(row: Row) -> list[str]:
    """Return what of the node itself is another: its name, its serial number, its BIOS."""
    before, after = row["before"], row["after"]
    words = {"hostname": "host name", "serial": "serial", "bios_version": "BIOS"}
    both = [(word, before.get(key), after.get(key)) for key, word in words.items()]
    return [f"{word} {old} -> {new}" for word, old, new in both if old and new and old != new]
