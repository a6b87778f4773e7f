"""What became of each part between two recordings of a node, and which changes were expected."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuscan.errors import UsageError
from gpuscan.model import Amount, Change, Node, Unread, is_unread
from gpuscan.model.outcome import HARMLESS
from gpuscan.swap import fit
from gpuscan.swap.expect import (
    ASSEMBLIES,
    PARTS,
    Expectation,
    Gaps,
    Key,
    find_part,
    is_called,
    key_of,
    with_sibling_functions,
)
from gpuscan.swap.fit import NOTHING, ExpectedPart
from gpuscan.swap.parts import (
    Pair,
    SwapPart,
    describe_identity,
    is_same_part,
    list_parts,
    pair_parts,
)
from gpuscan.swap.remembered import identify, list_gone
from gpuscan.swap.whole import compare_firmware, compare_node, unread_change

LISTS = {  # the node's list of each kind of part, and what people call its entries
    "gpu": ("gpus", "GPUs"),
    "nic": ("ports", "adapters"),
    "cable": ("ports", "cables"),
    "disk": ("disks", "disks"),
}


class SwapContext(NamedTuple):
    """What is known besides the two nodes.

    *known_bad* holds serials in lower case, *expected_parts* rows by slot, *faults* and
    *faults_left* the failures before and after by address of the part. *gaps* say where a part may
    be missing; *name_of* maps a slot to its silkscreen.
    """

    expectations: Sequence[Expectation] = ()
    known_bad: frozenset[str] = frozenset()
    expected_parts: Mapping[str, ExpectedPart] = MappingProxyType({})
    faults: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    faults_left: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    gaps: Gaps = Gaps()
    name_of: Callable[[str], str] = lambda label: ""

    def expects(self, *kinds: str, reseated: bool = False) -> bool:
        """Return whether one of these assemblies (baseboard, tray) is expected to be replaced, or
        to be *reseated*.
        """
        return any(
            expectation.kind in kinds and expectation.reseated is reseated
            for expectation in self.expectations
        )


class _Comparison(NamedTuple):
    """Both lists of parts; *compared* is false where only a list says what should be there.

    *named* are the parts that are expected to be replaced, *reseated* those that come back.
    """

    compared: bool
    befores: Sequence[SwapPart]
    afters: Sequence[SwapPart]
    named: set[Key]
    reseated: set[Key]
    context: SwapContext


def find_changes(before: Node | None, after: Node, context: SwapContext) -> tuple[Change, ...]:
    """Return what became of each GPU, adapter, cable and disk, and of the node itself.

    Without *before*, the list of expected parts says which parts to look at. Raises UsageError for
    an expected part that is in neither node.
    """
    afters = list_parts(after, context.name_of)
    befores = _list_former(before, context)
    unlisted = _unlisted_kinds(before, after, befores, context)
    pairs: list[Pair] = []
    for kind in PARTS:
        if kind not in unlisted:
            pairs += pair_parts(_of_kind(befores, kind), _of_kind(afters, kind))
    named, reseated = (
        with_sibling_functions(
            {
                find_part(expectation, pairs, context.gaps)
                for expectation in context.expectations
                if expectation.name and expectation.reseated is back
            },
            pairs,
        )
        for back in (False, True)
    )
    comparison = _Comparison(before is not None, befores, afters, named, reseated, context)
    if before is None:
        return (*_compare_with_list(comparison), *compare_firmware(after))
    changes = [_change(pair, comparison) for pair in pairs]
    keys = {key_of(pair) for pair in pairs}
    absent = [key for key in named | reseated if key not in keys]
    changes += [_change((None, None), comparison, key) for key in absent]
    return (
        *_mark_everywhere(changes),
        *unlisted.values(),
        compare_node(before, after, allowed=context.expects("tray")),
        *compare_firmware(after),
    )


def _list_former(before: Node | None, context: SwapContext) -> list[SwapPart]:
    """Return the parts before: those listed, each silent one with the serial that earlier runs saw
    in its slot, and those of the expected that were gone already, as they were seen last.
    """
    if before is None:
        return []
    listed = identify(list_parts(before, context.name_of), before.past)
    wanted = [each for each in context.expectations if each.name]
    return listed + [
        part for part in list_gone(before, listed) if any(is_called(part, each) for each in wanted)
    ]


def _unlisted_kinds(
    before: Node | None, after: Node, befores: Sequence[SwapPart], context: SwapContext
) -> dict[str, Change]:
    """Return one unread change for each kind of part that one side could not list.

    An unread list is not an empty one. Where all that is expected is known from earlier runs, what
    was not listed *before* is compared with those.
    """
    nodes = [(node, when) for node, when in ((before, "before"), (after, "now")) if node]
    changes: dict[str, Change] = {}
    for kind, (fact, label) in LISTS.items():
        for node, when in nodes:
            parts = getattr(node, fact)
            if is_unread(parts) and not (node is before and _of_kind(befores, kind)):
                text = f"the {label} were not listed {when}: {parts.text}"
                _refuse_expected(kind, text, context)
                changes[kind] = unread_change(kind, label, parts._replace(text=text))
    return changes


def unlisted(node: Node) -> frozenset[str]:
    """Return the kinds of parts that a node could not list."""
    return frozenset(kind for kind, (fact, _) in LISTS.items() if is_unread(getattr(node, fact)))


def _refuse_expected(kind: str, text: str, context: SwapContext) -> None:
    expected = [each.text for each in context.expectations if each.kind == kind]
    if expected:
        raise UsageError(f"--expect {expected[0]}: {text}")


def _of_kind(parts: Sequence[SwapPart], kind: str) -> list[SwapPart]:
    return [part for part in parts if part.kind == kind]


def _change(pair: Pair, comparison: _Comparison, key: Key | None = None) -> Change:
    before, after = pair
    context = comparison.context
    kind, label = key or key_of(pair)
    gpu = kind == "gpu"
    replaced = (kind, label) in comparison.named or (gpu and context.expects(*ASSEMBLIES))
    reseated = not replaced and (
        (kind, label) in comparison.reseated
        or (gpu and context.expects(*ASSEMBLIES, reseated=True))
    )
    expected = replaced or reseated
    what = _what_happened(pair, comparison, strict=gpu or (expected and kind != "cable"))
    faults, left = _faults(pair, comparison, judged=kind != "cable" or expected)
    part = after or before
    change = Change(
        label=label,
        address=part.address if part else label,
        kind=kind,
        what=what,
        expected=expected,
        allowed=context.expects("tray"),
        new=_is_new(what, comparison, expected=expected),
        everywhere=False,
        moved_from=_find_elsewhere(after, comparison.befores, pair),
        moved_to=_find_elsewhere(before, comparison.afters, pair),
        identity_before=describe_identity(before),
        identity=describe_identity(after),
        known_bad=_is_known_bad(after, context.known_bad),
        versions=(),
        marks=(),
        settings=(),
        wear=(),
        counters=(),
        rate=(),
        faults=faults,
        faults_left=left,
        before=before.record if before else NOTHING,
        after=after.record if after else NOTHING,
        reseated=reseated,
    )
    return _with_values(change, before, after, comparison) if after else change


def _is_new(what: Any, comparison: _Comparison, *, expected: bool) -> Any:
    """Return whether another part sits here than before; Unread where that is not known."""
    if is_unread(what):
        return what
    return what in ("replaced", "moved", "added") and (comparison.compared or expected)


def _faults(
    pair: Pair, comparison: _Comparison, *, judged: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the faults before, and those of them that are still there.

    An adapter's faults count for its cable only if the cable is expected to be replaced.
    """
    before, after = pair
    context = comparison.context
    faults = context.faults.get(before.address, ()) if before and judged else ()
    faults = tuple(dict.fromkeys(faults))
    now = context.faults_left.get(after.address, ()) if after and judged else ()
    return faults, tuple(fault for fault in faults if fault in now)


def _what_happened(pair: Pair, comparison: _Comparison, *, strict: bool) -> Any:
    """Return what became of a slot; Unread where its two parts cannot be told apart.

    *strict*: an unread identity makes the judgement incomplete, whatever its kind.
    """
    before, after = pair
    if after is None:
        return "missing"
    same = is_same_part(before, after) if before is not None else False
    if before is not None and same is None:
        return _unknown_identity(before, after, strict=strict)
    if same:
        return "same"
    if _find_elsewhere(after, comparison.befores, pair):
        return "moved"
    return "replaced" if before is not None else "added"


def _unknown_identity(before: SwapPart, after: SwapPart, *, strict: bool) -> Unread:
    for part, when in ((before, "before"), (after, "now")):
        if not part.ids:
            lack: Unread = part.lack
            kind = "not-found" if strict and lack.kind in HARMLESS else lack.kind
            text = f"{part.kind} {part.label} had no readable identity {when}: {lack.text}"
            return lack._replace(kind=kind, text=text)
    old, new = next(iter(before.ids)), next(iter(after.ids))
    text = f"{before.kind} {before.label} was identified by its {old}, now by its {new}"
    return Unread("", "not-found", text)


def _find_elsewhere(part: SwapPart | None, others: Sequence[SwapPart], pair: Pair) -> str:
    """Return the slot where the same part was, or is now; "" where it was not seen."""
    if part is None or _stayed(pair):
        return ""
    for other in others:
        if other.kind == part.kind and other not in pair and is_same_part(part, other):
            return other.label
    return ""


def _stayed(pair: Pair) -> bool:
    before, after = pair
    return before is not None and after is not None and is_same_part(before, after) is True


def _is_known_bad(part: SwapPart | None, known_bad: frozenset[str]) -> Any:
    if part is None or not known_bad or part.kind == "cable":
        return False
    if any(value.lower() in known_bad for value in part.ids.values()):
        return True
    return False if part.ids else part.lack._replace(kind="not-found")


def _with_values(
    change: Change, before: SwapPart | None, after: SwapPart, comparison: _Comparison
) -> Change:
    """Add the values to compare: with the siblings', or with those of the former part."""
    siblings = [
        part for part in comparison.afters if part.kind == after.kind and part.label != after.label
    ]
    maybe_new = change.new is True or is_unread(change.new)
    marks = fit.compare_marks(before, after, siblings) if maybe_new else ()
    with_settings = maybe_new or after.kind == "cable"
    same = before if change.what == "same" else None
    return change._replace(
        versions=fit.compare_versions(before, after, siblings) if maybe_new else (),
        marks=(*marks, *fit.compare_with_list(after, comparison.context.expected_parts)),
        settings=fit.compare_settings(before, after, siblings) if with_settings else (),
        wear=tuple(Amount(*count) for count in after.wear.items()) if maybe_new else (),
        counters=fit.compare_with(after.wear, same.wear, "before it was") if same else (),
        rate=fit.compare_with(after.rate, before.rate, "before it was") if before else (),
    )


def _compare_with_list(comparison: _Comparison) -> list[Change]:
    """Return, without a recording from before, what became of the parts that the list names."""
    changes = []
    for slot, row in comparison.context.expected_parts.items():
        part = next((each for each in comparison.afters if fit.find_row(each, {slot: row})), None)
        change = _change((None, part), comparison, None if part else _key_of_slot(slot))
        words = f"serial {row.serial}" if row.serial else f"part number {row.part_number}"
        changes.append(
            change._replace(
                what=_what_the_list_says(part, row),
                expected=False,
                allowed=True,
                identity_before=words,
            )
        )
    return changes


def _key_of_slot(slot: str) -> Key:
    kind, _, name = slot.partition(":")
    return (kind, name) if kind in PARTS and name else ("gpu", slot)


def _what_the_list_says(part: SwapPart | None, row: ExpectedPart) -> Any:
    if part is None:
        return "missing"
    if not row.serial:
        return "same"
    serial = part.ids.get("serial")
    if not serial:
        return part.lack._replace(kind="not-found")
    return "same" if serial.lower() == row.serial.lower() else "replaced"


def _mark_everywhere(changes: Sequence[Change]) -> list[Change]:
    """Mark the GPUs where every one of several was replaced."""
    gpus = [change for change in changes if change.kind == "gpu"]
    everywhere = len(gpus) > 1 and all(change.what == "replaced" for change in gpus)
    return [change._replace(everywhere=everywhere and change.kind == "gpu") for change in changes]
