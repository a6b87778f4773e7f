"""What `--expect` may say, and which part of two nodes it names."""

from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

from gpuscan.errors import UsageError, near_misses
from gpuscan.swap.parts import Pair, Part

PARTS = ("gpu", "nic", "cable", "disk")
WHOLES = ("baseboard", "tray", "none")
WAYS = "gpu:SLOT, nic:NAME, cable:PORT, disk:NAME, baseboard, tray or none"


class Expected(NamedTuple):
    """One part, or whole, that is to be another: `gpu`, `SXM6`, and the words that said so."""

    kind: str
    name: str
    word: str


Key = tuple[str, str]


def expectations(words: Sequence[str]) -> tuple[Expected, ...]:
    """Parse what `--expect` was given: `gpu:SXM6=replaced`, `baseboard`, `none`; raises UsageError
    for all else.
    """
    found = tuple(_expectation(word) for word in words)
    if len(found) > 1 and any(one.kind == "none" for one in found):
        raise UsageError(
            "--expect none: says that nothing was changed, and goes with no other --expect"
        )
    return found


def _expectation(word: str) -> Expected:
    subject, sign, state = word.strip().partition("=")
    if sign and state != "replaced":
        raise UsageError(
            f"--expect {word}: a part can be expected to be replaced: write {subject}=replaced"
        )
    kind, colon, name = subject.partition(":")
    if colon and kind in PARTS and name.strip():
        return Expected(kind, name.strip(), word)
    if not colon and (kind in WHOLES[:2] or (kind == "none" and not sign)):
        return Expected(kind, "", word)
    raise UsageError(
        f"--expect {word}: write {WAYS}; {near_misses(kind, [*PARTS, *WHOLES], 'words')}"
    )


def key_of(pair: Pair) -> Key:
    """Return kind and label of a pair: a slot's own name goes before the address that a silent
    GPU is called by.
    """
    before, after = pair
    parts = [part for part in (after, before) if part is not None]
    best = next(
        (
            part
            for part in parts
            if part.label != part.address and not part.label.startswith("slot")
        ),
        parts[0],
    )
    return best.kind, best.label


def named(one: Expected, pairs: Sequence[Pair], slots: Sequence[str]) -> Key:
    """Return the one part that an expectation names; *slots* are the profile's, for a GPU that
    both recordings lack.

    Raises UsageError where there is none, or several.
    """
    word, known = one.name.lower(), [pair for pair in pairs if key_of(pair)[0] == one.kind]
    both = [(key_of(pair), [part for part in pair if part]) for pair in known]
    hits = [
        key
        for key, parts in both
        if any(word in (part.label.lower(), part.address.lower()) for part in parts)
    ]
    hits = [key for key in hits if key[1].lower() == word] or hits
    hits = hits or [key for key, parts in both if any(word in part.names for part in parts)]
    if not hits and one.kind == "gpu":
        hits = [("gpu", slot) for slot in slots if slot.lower() == word]
    if not hits:
        words = [key[1] for key, _ in both] + [part.address for _, parts in both for part in parts]
        hint = near_misses(one.name, list(dict.fromkeys(words)), "parts")
        raise UsageError(f"--expect {one.word}: no such {one.kind} in either recording; {hint}")
    if len(set(hits)) > 1 and not _of_one_gpu(hits, both):
        told = " and ".join(sorted({key[1] for key in hits}))
        raise UsageError(f"--expect {one.word}: names {told}: give a slot or an address")
    return hits[0]


def _of_one_gpu(hits: Sequence[Key], both: Sequence[tuple[Key, Sequence[Part]]]) -> bool:
    """Tell whether these are the functions of one adapter, which share its serial number."""
    serials = {part.ids.get("serial") for key, parts in both if key in hits for part in parts[:1]}
    return hits[0][0] == "nic" and len(serials) == 1 and None not in serials


def with_functions(chosen: set[Key], pairs: Sequence[Pair]) -> set[Key]:
    """Add to chosen adapters their further functions: a GPU with two ports is two adapters to the
    system.
    """
    serials = {
        before.ids["serial"]
        for before, after in pairs
        if _is_adapter(before) and key_of((before, after)) in chosen
    }
    more = {
        key_of((before, after))
        for before, after in pairs
        if _is_adapter(before) and before.ids["serial"] in serials
    }
    return chosen | more


def _is_adapter(part: Part | None) -> TypeGuard[Part]:
    return part is not None and part.kind == "nic" and "serial" in part.ids
