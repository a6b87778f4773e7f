"""Which parts a swap is expected to change: the syntax of `--expect` and `--part`."""

from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

from gpuscan.errors import UsageError, near_misses
from gpuscan.swap.parts import Pair, SwapPart
from gpuscan.swap.remembered import find_gap

PARTS = ("gpu", "nic", "cable", "disk")
ASSEMBLIES = ("baseboard", "tray")
REPLACED, RESEATED = "replaced", "reseated"
NONE = "none"

Key = tuple[str, str]  # kind and label


class Flag(NamedTuple):
    """The option that names parts: whether it accepts `none`, and which input it searches."""

    name: str
    accepts_none: bool
    searched: str

    @property
    def syntax(self) -> str:
        """Return what the option accepts, for error messages."""
        parts = "gpu:SLOT, nic:NAME, cable:PORT, disk:NAME, baseboard"
        return f"{parts}, tray or none" if self.accepts_none else f"{parts} or tray"


class Gaps(NamedTuple):
    """Where a part may be missing: the profile's *slots* for GPUs, the kinds of which the node has
    fewer than the profile expects (*short*), and those that could not be listed, of which every
    name is taken as given.
    """

    slots: Sequence[str] = ()
    short: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()


EXPECT = Flag("--expect", accepts_none=True, searched="either recording")
PART = Flag("--part", accepts_none=False, searched="this node")


class Expectation(NamedTuple):
    """One part or assembly that the swap replaces: `gpu`, `SXM6`, and the text that named it.

    *name* is empty for an assembly and for `none`. *reseated*: it comes back, the same part in the
    same slot.
    """

    kind: str
    name: str
    text: str
    reseated: bool = False


def parse_expectations(texts: Sequence[str], flag: Flag = EXPECT) -> tuple[Expectation, ...]:
    """Parse `gpu:SXM6`, `cable:mlx5_3/1=reseated`, `baseboard=replaced` or `none`; raises
    UsageError for anything else.
    """
    expectations = tuple(_parse(text, flag) for text in texts)
    if len(expectations) > 1 and any(each.kind == NONE for each in expectations):
        raise UsageError(
            f"{flag.name} none: means that nothing was changed: do not combine it with another"
            f" {flag.name}"
        )
    return expectations


def _parse(text: str, flag: Flag) -> Expectation:
    subject, sign, state = text.strip().partition("=")
    if sign and state not in (REPLACED, RESEATED):
        raise UsageError(
            f"{flag.name} {text}: a part is expected to be replaced, or to be reseated (the same"
            f" one, back in its slot): write {subject}={REPLACED} or {subject}={RESEATED}"
        )
    reseated = state == RESEATED
    kind, colon, name = subject.partition(":")
    if colon and kind in PARTS and name.strip():
        return Expectation(kind, name.strip(), text, reseated)
    if not colon and kind in ASSEMBLIES:
        return Expectation(kind, "", text, reseated)
    if not colon and kind == NONE and not sign:
        if not flag.accepts_none:
            raise UsageError(f"{flag.name} none: a swap changes something: name the part")
        return Expectation(kind, "", text)
    known = [*PARTS, *ASSEMBLIES, *([NONE] if flag.accepts_none else [])]
    raise UsageError(
        f"{flag.name} {text}: write {flag.syntax}; {near_misses(kind, known, 'kinds')}"
    )


def key_of(pair: Pair) -> Key:
    """Return kind and label of a pair.

    A slot's own name takes precedence over the address that stands for a silent GPU.
    """
    before, after = pair
    parts = [part for part in (after, before) if part is not None]
    named = [part for part in parts if _has_own_name(part)]
    best = (named or parts)[0]
    return best.kind, best.label


def _has_own_name(part: SwapPart) -> bool:
    return part.label != part.address and not part.label.startswith("slot")


def find_part(
    expectation: Expectation, pairs: Sequence[Pair], gaps: Gaps, flag: Flag = EXPECT
) -> Key:
    """Return the one part that an expectation names, or the slot that its siblings leave.

    Raises UsageError where no part fits, or several do.
    """
    name = expectation.name.lower()
    candidates = [
        (key_of(pair), [part for part in pair if part])
        for pair in pairs
        if key_of(pair)[0] == expectation.kind
    ]
    keys = _by_label_or_address(name, candidates) or _by_other_name(name, candidates)
    if not keys and expectation.kind == "gpu":
        keys = [("gpu", slot) for slot in gaps.slots if slot.lower() == name]
    if not keys:
        present = [part for _, parts in candidates for part in parts]
        gap = find_gap(name, expectation.kind, present, short=expectation.kind in gaps.short)
        keys = [(gap.kind, gap.label)] if gap else []
    if not keys and expectation.kind in gaps.unlisted:
        keys = [(expectation.kind, expectation.name)]
    if not keys:
        raise UsageError(
            f"{flag.name} {expectation.text}: no such {expectation.kind} in {flag.searched};"
            f" {_suggest(expectation.name, candidates)}"
        )
    if len(set(keys)) > 1 and not _share_a_board(keys, candidates):
        labels = " and ".join(sorted({label for _, label in keys}))
        raise UsageError(
            f"{flag.name} {expectation.text}: matches {labels}: give a slot or a PCI address"
        )
    return keys[0]


def is_called(part: SwapPart, expectation: Expectation) -> bool:
    """Return whether an expectation names this part: by label, address, serial or another name."""
    name = expectation.name.lower()
    names = {part.label.lower(), part.address.lower(), *part.names}
    return part.kind == expectation.kind and name in names


Candidates = Sequence[tuple[Key, Sequence[SwapPart]]]


def _by_label_or_address(name: str, candidates: Candidates) -> list[Key]:
    keys = [
        key
        for key, parts in candidates
        if any(name in (part.label.lower(), part.address.lower()) for part in parts)
    ]
    return [key for key in keys if key[1].lower() == name] or keys


def _by_other_name(name: str, candidates: Candidates) -> list[Key]:
    return [key for key, parts in candidates if any(name in part.names for part in parts)]


def _suggest(name: str, candidates: Candidates) -> str:
    labels = [label for (_, label), _ in candidates]
    addresses = [part.address for _, parts in candidates for part in parts]
    return near_misses(name, list(dict.fromkeys([*labels, *addresses])), "parts")


def _share_a_board(keys: Sequence[Key], candidates: Candidates) -> bool:
    """Return whether these are functions of one adapter, which share its serial number."""
    serials = {
        part.ids.get("serial") for key, parts in candidates if key in keys for part in parts[:1]
    }
    return keys[0][0] == "nic" and len(serials) == 1 and None not in serials


def with_sibling_functions(chosen: set[Key], pairs: Sequence[Pair]) -> set[Key]:
    """Add the other functions of chosen adapters: Linux lists a two-port adapter as two."""
    serials = {
        before.ids["serial"]
        for before, after in pairs
        if _is_adapter(before) and key_of((before, after)) in chosen
    }
    siblings = {
        key_of((before, after))
        for before, after in pairs
        if _is_adapter(before) and before.ids["serial"] in serials
    }
    return chosen | siblings


def _is_adapter(part: SwapPart | None) -> TypeGuard[SwapPart]:
    return part is not None and part.kind == "nic" and "serial" in part.ids
