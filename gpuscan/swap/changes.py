"""What became of each part between two recordings of a node, and which of it was expected: pure
functions of two nodes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuscan.errors import UsageError
from gpuscan.model import Amount, Change, Compared, Node, Unread, is_unread
from gpuscan.model.outcome import HARMLESS
from gpuscan.swap import fit as fitting
from gpuscan.swap.expect import PARTS, Expected, Key, key_of, named, with_functions
from gpuscan.swap.fit import NOTHING, Listed
from gpuscan.swap.parts import Pair, Part, alike, listed, paired, said

NUMBER = re.compile(r"\d+")
TABLES = ("versions", "marks", "settings", "wear", "counters", "rate", "faults", "faults_left")


class Given(NamedTuple):
    """What is known beside the two nodes; faults by the address of the part, of both recordings.

    *known_bad* are serials in lower case; *slots* the slots that the profile names, *name_of* gives
    a slot's silkscreen.
    """

    expected: Sequence[Expected] = ()
    known_bad: frozenset[str] = frozenset()
    wanted: Mapping[str, Listed] = MappingProxyType({})
    faults: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    faults_left: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    slots: Sequence[str] = ()
    name_of: Callable[[str], str] = lambda label: ""


def changes(before: Node | None, after: Node, given: Given) -> tuple[Change, ...]:
    """Return what became of each GPU, adapter, cable, disk and of the node itself.

    Without *before* the parts are those that the list of expected parts names. Raises UsageError
    for an expected part that is in neither node.
    """
    afters = listed(after, given.name_of)
    befores = listed(before, given.name_of) if before is not None else []
    unlisted = _unlisted(before, after, given)
    kinds = [kind for kind in PARTS if kind not in unlisted]
    pairs = [
        pair for kind in kinds for pair in paired(_of_kind(befores, kind), _of_kind(afters, kind))
    ]
    chosen = {key for one in given.expected if one.name for key in [named(one, pairs, given.slots)]}
    chosen = with_functions(chosen, pairs)
    absent = [
        key for key in chosen if key[0] == "gpu" and not any(key_of(pair) == key for pair in pairs)
    ]
    look = _Look(before is not None, pairs, befores, afters, chosen, given)
    if before is None:
        return (*_by_list(look), *_firmware(after))
    made = [_change(pair, look) for pair in pairs]
    made += [_change((None, None), look, key) for key in absent]
    return (
        *_with_everywhere(made),
        *unlisted.values(),
        _node(before, after, given),
        *_firmware(after),
    )


LISTS = {
    "gpu": ("gpus", "GPUs"),
    "nic": ("ports", "adapters"),
    "cable": ("ports", "cables"),
    "disk": ("disks", "disks"),
}


def _unlisted(before: Node | None, after: Node, given: Given) -> dict[str, Change]:
    """Return, for each kind of which one side has no list, one change that cannot be told: a list
    unread is no empty one.
    """
    found: dict[str, Change] = {}
    for kind, (fact, label) in LISTS.items():
        lacks = [
            (getattr(node, fact), when)
            for node, when in ((before, "before"), (after, "now"))
            if node is not None
        ]
        for lack, when in (pair for pair in lacks if is_unread(pair[0])):
            words = [one.word for one in given.expected if one.kind == kind]
            if words:
                raise UsageError(
                    f"--expect {words[0]}: the {label} were not listed {when}: {lack.text}"
                )
            unread = lack._replace(text=f"the {label} were not listed {when}: {lack.text}")
            unread = fitting.strict(unread) if kind == "gpu" else unread
            nothing: Any = dict.fromkeys(
                (*TABLES, "what", "new", "known_bad", "identity", "identity_before"), unread
            )
            found[kind] = _blank(kind, label, **nothing)
    return found


class _Look(NamedTuple):
    compared: bool
    pairs: Sequence[Pair]
    befores: Sequence[Part]
    afters: Sequence[Part]
    named: set[Key]
    given: Given

    def whole(self, *words: str) -> bool:
        return any(one.kind in words for one in self.given.expected)


def _of_kind(parts: Sequence[Part], kind: str) -> list[Part]:
    return [part for part in parts if part.kind == kind]


def _change(pair: Pair, look: _Look, key: Key | None = None) -> Change:
    before, after = pair
    kind, label = key or key_of(pair)
    expected = (kind, label) in look.named or (kind == "gpu" and look.whole("baseboard", "tray"))
    what = _what(pair, look, strict=kind == "gpu" or (expected and kind != "cable"))
    new: Any = (
        what
        if is_unread(what)
        else what in ("replaced", "moved", "added") and (look.compared or expected)
    )
    judged = (
        kind != "cable" or expected
    )  # an adapter's faults are its own, until its cable is said to be at fault
    old_faults = look.given.faults.get(before.address, ()) if before and judged else ()
    left = look.given.faults_left.get(after.address, ()) if after and judged else ()
    changed = Change(
        label=label,
        address=(after or before).address if after or before else label,  # type: ignore[union-attr]
        kind=kind,
        what=what,
        expected=expected,
        allowed=look.whole("tray"),
        new=new,
        everywhere=False,
        moved_from=_elsewhere(after, look.befores, pair),
        moved_to=_elsewhere(before, look.afters, pair),
        identity_before=said(before),
        identity=said(after),
        known_bad=_known_bad(after, look.given.known_bad),
        versions=(),
        marks=(),
        settings=(),
        wear=(),
        counters=(),
        rate=(),
        faults=tuple(dict.fromkeys(old_faults)),
        faults_left=tuple(fault for fault in dict.fromkeys(old_faults) if fault in left),
        before=before.record if before else NOTHING,
        after=after.record if after else NOTHING,
    )
    return _measured(changed, before, after, look) if after else changed


def _what(pair: Pair, look: _Look, *, strict: bool) -> Any:
    """Return what became of a slot; Unread where its parts cannot be told apart.

    A *strict* lack makes the judgement incomplete, whatever kind of lack it is.
    """
    before, after = pair
    if after is None:
        return "missing"
    if before is None:
        return "moved" if _elsewhere(after, look.befores, pair) else "added"
    same = alike(before, after)
    if same is None:
        return _told_apart(before, after, strict=strict)
    if same:
        return "same"
    return "moved" if _elsewhere(after, look.befores, pair) else "replaced"


def _told_apart(before: Part, after: Part, *, strict: bool) -> Unread:
    for part, when in ((before, "before"), (after, "now")):
        if not part.ids:
            lack: Unread = part.lack
            kind = "not-found" if strict and lack.kind in HARMLESS else lack.kind
            return lack._replace(
                kind=kind,
                text=f"nothing tells {part.kind} {part.label} from others {when}: {lack.text}",
            )
    told = f"{before.kind} {before.label} was known by its {next(iter(before.ids))}, now by its {next(iter(after.ids))}"
    return Unread("", "not-found", told)


def _elsewhere(part: Part | None, others: Sequence[Part], pair: Pair) -> str:
    """Return where else the same part was, or is now, and an empty text where it was not seen."""
    if part is None:
        return ""
    seen = [
        other
        for other in others
        if other.kind == part.kind and other not in pair and alike(part, other)
    ]
    return seen[0].label if seen and not _stayed(pair) else ""


def _stayed(pair: Pair) -> bool:
    before, after = pair
    return before is not None and after is not None and alike(before, after) is True


def _known_bad(part: Part | None, bad: frozenset[str]) -> Any:
    if part is None or not bad or part.kind == "cable":
        return False
    if any(value.lower() in bad for value in part.ids.values()):
        return True
    return False if part.ids else part.lack._replace(kind="not-found")


def _measured(change: Change, before: Part | None, after: Part, look: _Look) -> Change:
    """Add the values that are to be compared: with the siblings', or with those of the part
    before.
    """
    siblings = [
        part for part in look.afters if part.kind == after.kind and part.label != after.label
    ]
    new = change.new is True
    same = change.what == "same"
    fits = new or is_unread(change.new)
    return change._replace(
        versions=fitting.versions(before, after, siblings) if fits else (),
        marks=(
            *(fitting.marks(before, after, siblings) if fits else ()),
            *fitting.by_wanted(after, look.given.wanted),
        ),
        settings=fitting.former(before, after, siblings) if fits or after.kind == "cable" else (),
        wear=tuple(Amount(label, value) for label, value in after.wear.items()) if fits else (),
        counters=fitting.compared(after.wear, before.wear, "before it was")
        if same and before
        else (),
        rate=fitting.compared(after.rate, before.rate, "before it was") if before else (),
    )


def _by_list(look: _Look) -> list[Change]:
    """Without a recording from before: the parts that the list names are there, and are those that
    it names.
    """
    made = []
    for slot, row in look.given.wanted.items():
        part = next((one for one in look.afters if fitting.row_of(one, {slot: row})), None)
        kind, _, name = (
            slot.rpartition(":")
            if slot.startswith(tuple(f"{kind}:" for kind in PARTS))
            else ("gpu", "", slot)
        )
        change = _change((None, part), look, None if part else (kind, name))
        what: Any = "missing"
        if part is not None:
            serial = part.ids.get("serial")
            what = (
                "same"
                if not row.serial or (serial or "").lower() == row.serial.lower()
                else "replaced"
            )
            what = what if serial or not row.serial else part.lack._replace(kind="not-found")
        words = f"serial {row.serial}" if row.serial else f"part number {row.part_number}"
        made.append(change._replace(what=what, expected=False, allowed=True, identity_before=words))
    return made


def _with_everywhere(made: Sequence[Change]) -> list[Change]:
    gpus = [change for change in made if change.kind == "gpu"]
    all_others = len(gpus) > 1 and all(change.what == "replaced" for change in gpus)
    return [change._replace(everywhere=all_others and change.kind == "gpu") for change in made]


def _blank(kind: str, label: str, **facts: Any) -> Change:
    """Return a change of what is no exchangeable part by itself."""
    nothing: Any = dict.fromkeys(TABLES, ())
    flags: Any = dict.fromkeys(("expected", "allowed", "new", "everywhere", "known_bad"), False)
    words: Any = dict.fromkeys(("moved_from", "moved_to", "identity_before", "identity"), "")
    records: Any = {"before": NOTHING, "after": NOTHING}
    place = {"label": label, "address": label, "kind": kind, "what": "same"}
    return Change(**{**place, **nothing, **flags, **words, **records, **facts})


def _node(before: Node, after: Node, given: Given) -> Change:
    """Return what became of the node itself: its name and its BIOS, as far as they were read
    before.
    """
    first, last = before.host, after.host
    return _blank(
        "node",
        "node",
        allowed=any(one.kind == "tray" for one in given.expected),
        marks=fitting.compared(
            {"host name": last.hostname}, {"host name": first.hostname}, "before it was"
        ),
        versions=fitting.compared(
            {"BIOS": last.bios_version}, {"BIOS": first.bios_version}, "before it was"
        ),
        before=first,
        after=last,
    )


def _firmware(after: Node) -> list[Change]:
    """Return one record for each group of firmware whose ids are equal but for their numbers."""
    groups: dict[str, list[Any]] = {}
    for item in () if is_unread(after.firmware) else after.firmware:
        if item.version == "":  # the BMC does not tell
            continue
        groups.setdefault(NUMBER.sub("#", item.label), []).append(item)
    made = []
    for label, items in groups.items():
        read = [item.version for item in items if not is_unread(item.version)]
        if len(items) > 1 and read:
            usual = max(read, key=read.count)
            rows = tuple(
                Compared(item.label, item.version, usual, "most of its kind have") for item in items
            )
            made.append(_blank("firmware", f"firmware {label}", versions=rows))
    return made
