"""Finds what the words of `gpuscan explain` mean: every id and code that gpuscan prints."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from gpuscan import catalogue
from gpuscan.cli import codes, reference
from gpuscan.engine.judging import all_checks
from gpuscan.engine.suite import Check
from gpuscan.errors import UsageError, near_misses
from gpuscan.model.outcome import Action

KINDS = ("xid", "sxid", "dcgm", "exit", "check", "action", "hold")
CODE = re.compile(r"(xid|sxid|dcgm|exit)[-_: ]?([0-9]+)", re.IGNORECASE)


class Asked(NamedTuple):
    """One thing to explain: its kind, and its code, name or id (empty: all of the kind)."""

    kind: str
    name: str = ""


def explanations(words: Sequence[str], format_: str, state_dir: str) -> str:
    """Return the explanations one below the other, or as JSON: an array where there are several.

    Raises UsageError for what gpuscan knows nothing of, with what may have been meant.
    """
    asked = list(_asked([part for word in words for part in word.split(",") if part]))
    texts = [_explain(one, format_, state_dir) for one in asked]
    if format_ == "json" and len(texts) > 1:
        return json.dumps([json.loads(text) for text in texts], indent=1, ensure_ascii=False) + "\n"
    return "\n".join(texts)


@cache
def _checks() -> tuple[Check, ...]:
    return all_checks()


def _asked(words: Sequence[str]) -> Iterator[Asked]:
    if not words:
        raise UsageError("explain: nothing named; write gpuscan explain xid 79")
    kind, *names = words
    if kind.lower() in KINDS:
        yield from [Asked(kind.lower(), name) for name in names] or [Asked(kind.lower())]
        return
    for word in words:
        yield from _meant(word)


def _explain(one: Asked, format_: str, state_dir: str) -> str:
    return TABLE[one.kind](one.name, format_, state_dir)


def _explain_hold(_: str, format_: str, state_dir: str) -> str:
    from gpuscan.state.release import render_hold

    return render_hold(state_dir, format_)


def _explain_check(name: str, format_: str, _: str) -> str:
    known = _checks()
    area = [one for one in known if name in ("", one.area)]
    if area:
        return reference.render_checks(area, format_)
    if name in reference.OTHERS or name in reference.OTHER_ALIASES:
        return reference.render_other(name, format_)
    return reference.render_check(reference.find_check(known, name), format_)


TABLE: dict[str, Callable[[str, str, str], str]] = {
    "xid": lambda name, format_, _: codes.render("xid", name, format_),
    "sxid": lambda name, format_, _: codes.render("sxid", name, format_),
    "dcgm": lambda name, format_, _: codes.render("dcgm", name, format_),
    "line": lambda name, format_, _: codes.render_entry(catalogue.entry(name), format_),
    "exit": lambda name, format_, _: reference.render_exit_codes(name, format_),
    "action": lambda name, format_, _: reference.render_actions(name, format_),
    "check": _explain_check,
    "hold": _explain_hold,
}


def _meant(word: str) -> list[Asked]:
    """Return what a word alone may mean; raises UsageError if it is nothing that is printed."""
    code = CODE.fullmatch(word)
    if code:
        return [Asked(code[1].lower(), code[2])]
    if word.isascii() and word.isdigit():
        return _of_number(word)
    ids = [one.id for one in _checks()]
    aliases = [alias for one in _checks() for alias in one.mark.aliases]
    areas = sorted({id_.partition(".")[0] for id_ in ids})
    checks = [*ids, *aliases, *areas, *reference.OTHERS, *reference.OTHER_ALIASES]
    if word.lower() in checks:
        return [Asked("check", word.lower())]
    if word.lower() in list(Action):
        return [Asked("action", word.lower())]
    exits = reference.exits_of(word.lower())
    if exits:
        return [Asked("exit", str(code)) for code in exits]
    if codes.is_line(word):
        return [Asked("line", word)]
    named = [Asked(kind, word) for kind in catalogue.WITH_CODE if codes.has_name(kind, word)]
    if named:
        return named
    known = [*KINDS, *(action.value for action in Action), *checks]
    hint = near_misses(word, known, "checks", "gpuscan checks list")
    raise UsageError(f"explain {word}: gpuscan prints no such code, check or action; {hint}")


def _of_number(word: str) -> list[Asked]:
    """Return what a bare number may be: an exit code, an Xid, an SXid; else a DCGM code."""
    kinds = [kind for kind in ("xid", "sxid") if codes.is_listed(kind, word)]
    if reference.is_exit_code(word):
        kinds.insert(0, "exit")
    if not kinds and codes.is_listed("dcgm", word):
        kinds = ["dcgm"]
    if not kinds:
        raise UsageError(
            f"explain {word}: neither an Xid nor an SXid that NVIDIA documents, no DCGM code and no"
            f" exit code; gpuscan explain xid lists the Xids"
        )
    return [Asked(kind, word) for kind in kinds]
