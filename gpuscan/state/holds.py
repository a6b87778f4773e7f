"""The stored hold: read from wherever a run may have left it, and joined with what a run found.

A run only adds: what it takes away is what it had read, proved to be mended, and what nobody has
found again meanwhile.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuscan.engine import hold
from gpuscan.model import Held
from gpuscan.model.outcome import ACTIONS, LEVELS, Action
from gpuscan.model.subject import NODE
from gpuscan.state import begun, last
from gpuscan.state.place import StateError

if TYPE_CHECKING:
    from gpuscan.state.archive import Archive  # SQLite costs start-up time where no run is stored

UNREADABLE = "what was held is not known"
START_OVER = "gpuscan clear --reason starts over"


class StoredHold(NamedTuple):
    """The hold as it is stored: the reasons that make sense, the entries that do not (they are
    kept), and sentences on what is not known.

    *damaged*: last.json is to be set aside.
    """

    held: tuple[Held, ...] = ()
    unread: tuple[Any, ...] = ()
    lacks: tuple[str, ...] = ()
    damaged: bool = False


def load(path: str, notes: Sequence[begun.Note], archive: "Archive | None", key: str) -> StoredHold:
    """Return the stored hold: all that last.json, the archive's last word and the notes of runs
    that could not store theirs have of it.
    """
    found, lacks, damaged = None, [], False
    try:
        found = last.read(path)
    except last.Damaged as error:
        damaged = True
        lacks.append(str(error))
    except StateError as error:
        lacks.append(f"{UNREADABLE} ({error})")
    noted, known = _noted(archive, key)
    if damaged and known:
        lacks = []
    elif damaged:
        lacks = [f"{UNREADABLE} ({lacks[0]})"]
    entries = [*(last.reasons_in(found) if found else ()), *noted]
    unread = list(found["unread"]) if found else []
    for note in notes:
        if note.code:
            entries += begun.read(note) or [_of_code(note)._asdict()]
    held, odd = sorted_out(entries)
    unread = _unique([*unread, *odd])
    if unread:
        lacks.append(f"{UNREADABLE}: {len(unread)} of its entries make no sense")
    if found and "others may have" in found["nonsense"]:
        lacks.append(f"{UNREADABLE}: {path}: {found['nonsense']}")
    told = tuple(f"{text}; {START_OVER}" for text in lacks)
    return StoredHold(held, tuple(unread), told, damaged)


def _noted(archive: "Archive | None", key: str) -> tuple[list[Any], bool]:
    """Return the archive's last word on the hold, and whether it has one."""
    try:
        events = archive.events(key, "hold") if archive else []
    except StateError:
        return [], False
    if not events:
        return [], False
    data = events[-1]["data"]
    return (data if isinstance(data, list) else [data]), True


def sorted_out(entries: Iterable[Any]) -> tuple[tuple[Held, ...], list[Any]]:
    """Return the entries that make sense as reasons, each once, and the others."""
    held: dict[hold.ReasonKey, Held] = {}
    odd = []
    for entry in entries:
        one = _reason(entry)
        if one is None:
            odd.append(entry)
        else:
            held.setdefault(hold.key_of(one), one)
    return tuple(held.values()), odd


def _reason(entry: Any) -> Held | None:
    known = last.is_reason(entry) and entry["level"] in LEVELS
    if not known or entry["action"] not in {action.value for action in Action}:
        return None
    return Held(**entry)


def _of_code(note: begun.Note) -> Held:
    """Return what is left of a hold of which only the exit code could be written: it is the
    node's, and only a person lifts it, as no check stands behind it.
    """
    code = note.code if note.code in last.VERDICTS else min(last.VERDICTS)
    action = next(action for action, row in ACTIONS.items() if row.exit_code == code)
    message = f"a run ended with {code} and could not store what it found"
    at_s = max(note.at_s, 0.0)
    node = str(NODE)
    return Held(
        code, action.value, hold.CHECK, node, node, "", "", message, LEVELS[0], "", "", at_s, at_s
    )


def _unique(entries: Iterable[Any]) -> list[Any]:
    return list({repr(entry): entry for entry in entries}.values())


def merge(now: StoredHold, before: Sequence[Held], after: Sequence[Held]) -> list[Held]:
    """Join a hold as it is now with what a run makes of the one that it had read: it may have
    changed meanwhile.

    What the run lifted goes, if nobody found it again; what it found comes, what others set stays,
    and what others cleared does not come back.
    """
    key_of = hold.key_of
    was = {key_of(one): one for one in before}
    becomes = {key_of(one): one for one in after if not one.of_root}
    held: dict[hold.ReasonKey, Held] = {}
    for one in now.held:
        key = key_of(one)
        if key in becomes and one == was.get(key):
            held[key] = becomes[key]
        elif key in becomes:
            (held[key],) = hold.join_holds([one], [becomes[key]])
        elif key not in was or one.seen_s != was[key].seen_s:
            held[key] = one
    for key, one in becomes.items():
        found = key not in was or one.seen_s != was[key].seen_s
        if key not in held and (found or now.lacks):
            held[key] = one
    return sorted(held.values(), key=lambda one: (-one.code, one.since_s))


def keys(held: Iterable[Held]) -> set[tuple[Any, ...]]:
    """Return what tells one hold from another."""
    return {(*hold.key_of(one), one.code, one.asleep) for one in held}


def stored(held: Iterable[Held]) -> list[dict[str, Any]]:
    """Return reasons as they are stored."""
    rows = [one._asdict() for one in held]
    return [{name: value for name, value in row.items() if name != "of_root"} for row in rows]


def of_root(folder: str, here: dict[str, str]) -> tuple[tuple[Held, ...], tuple[str, ...]]:
    """Return the hold that root keeps, as far as every user may know it, and what is not known."""
    try:
        found = last.read_public(folder, here)
    except StateError as error:
        return (), (str(error),)
    entries = found["hold"]["reasons"] if found and found["hold"] else []
    held, odd = sorted_out(entries)
    notes, _ = sorted_out(_of_code(note)._asdict() for note in begun.find(folder) if note.code)
    mine = found is None or _is_of(found, here)
    lacks = [f"{folder}: {UNREADABLE}"] if found and (odd or found["unread"]) and mine else []
    reasons = (*(held if mine else ()), *notes)
    return tuple(one._replace(of_root=True) for one in reasons), tuple(lacks)


def _is_of(found: dict[str, Any], here: dict[str, str]) -> bool:
    return found["boot_id"] == here["boot_id"] or last.same_machine(found["machine"], here)
