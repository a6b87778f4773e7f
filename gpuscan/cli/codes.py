"""`gpuscan explain xid|sxid|dcgm`: a code of the catalogue, with reasons, sources and
disagreements.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpuscan import catalogue
from gpuscan.catalogue import Entry
from gpuscan.errors import UsageError
from gpuscan.incidents import nvlink
from gpuscan.model.outcome import ACTIONS, TO_REPLACE
from gpuscan.spelling import closest
from gpuscan.text import counted, printable

KINDS = {"xid": "Xid", "sxid": "SXid", "dcgm": "DCGM code"}
PREFIXES = ("ROBUST_CHANNEL_", "NVSWITCH_ERR_", "DCGM_FR_")
WIDTH, MARGIN = 80, 12
STATES = {
    "mapped": "history once the driver asks for no recovery of the GPU",
    "unmapped": "the driver sets no recovery action for it, so only a reset or a boot ends it",
    "none": "says nothing about the GPU's state by itself",
}
FLAGS = {
    "remap_failed": "the GPU's row remap failure flag is {}set",
    "remap_pending": "a row remap is {}pending",
    "sram_threshold": "the GPU's SRAM threshold flag is {}set",
    "lost": "the GPU is {}lost",
    "needs_reset": "the GPU does {}need a reset",
}


def render(kind: str, name: str, format_: str) -> str:
    """Return everything known about a code, given by number or name; without a name, one line for
    each code of the kind.
    """
    if not name:
        return _listed(catalogue.entries(kind), format_)
    return render_entry(find(kind, name), format_)


def render_entry(entry: Entry, format_: str) -> str:
    """Return everything known about an entry of the catalogue."""
    return (
        json.dumps(_document(entry), indent=1, ensure_ascii=False) + "\n"
        if format_ == "json"
        else _text(entry)
    )


def find(kind: str, name: str) -> Entry:
    """Return the entry of a number or name; raises UsageError with near misses."""
    known, word = catalogue.entries(kind), printable(name[:60])
    if re.fullmatch("[0-9]{1,9}", name):
        hits = [one for one in known if one.code == int(name)]
    else:
        exact = [one for one in known if _short(one.name) == _short(name)]
        hits = exact or [
            one for one in known if len(_short(name)) > 2 and _short(name) in _short(one.name)
        ]
    if len(hits) == 1:
        return hits[0]
    if hits:
        listed = " or ".join(f"{one.code} ({one.name})" for one in hits[:4])
        raise UsageError(f"{len(hits)} names contain '{word}': did you mean {listed}?")
    lines = f"no {KINDS[kind]} '{word}' is in the catalogue{_hint(kind, known, name)}"
    raise UsageError(*lines.split("\n"))


def _hint(kind: str, known: tuple[Entry, ...], name: str) -> str:
    """Return what a name may have meant; a number is never a slip for another one."""
    lists = f"; gpuscan explain {kind} lists all {len(known)}"
    if re.fullmatch("[0-9]+", name):
        if kind == "dcgm":
            return lists
        default = catalogue.entry(f"{kind}:0").action.value
        return f'{lists}\nundocumented codes default to action "{default}"'
    names = {_short(one.name): one for one in known}
    close = [names[word] for word in closest(_short(name), names)]
    listed = " or ".join(f"{one.code} ({one.name})" for one in close)
    return f": did you mean {listed}?" if close else lists


def is_listed(kind: str, number: str) -> bool:
    """Return whether the catalogue has a code of this number."""
    return any(str(one.code) == number for one in catalogue.entries(kind))


def has_name(kind: str, name: str) -> bool:
    """Return whether a name, or a part of at least three letters, is that of one code."""
    try:
        find(kind, name)
    except UsageError:
        return False
    return True


def is_line(id_: str) -> bool:
    """Return whether an id is that of a message without a code (`nvrm:fallen-off`)."""
    try:
        return ":" in id_ and bool(catalogue.entry(id_))
    except KeyError:
        return False


def _short(name: str) -> str:
    plain = re.sub("[^A-Z0-9]+", "_", name.upper()).strip("_")
    for prefix in PREFIXES:
        plain = plain.removeprefix(prefix)
    return plain


def _listed(known: tuple[Entry, ...], format_: str) -> str:
    if format_ == "json":
        rows = [
            {"code": one.code, "name": one.name, "action": one.action.value, "meaning": one.meaning}
            for one in known
        ]
        return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    return "".join(f"{one.code:<6}{one.action.value:<13}{one.name}\n" for one in known)


def _kind(entry: Entry) -> str:
    return entry.id.partition(":")[0]


def _document(entry: Entry) -> dict[str, Any]:
    row = ACTIONS[entry.action]
    names = catalogue.sources(_kind(entry))
    return {
        **entry._asdict(),
        "action": entry.action.value,
        "todo": row.todo,
        "proof": row.proof,
        "conditions": [
            {
                "if": dict(one.when),
                "words": words_of(one.when),
                "action": one.action.value,
                "because": one.because,
                "urgency": one.urgency or entry.urgency,
            }
            for one in entry.conditions
        ],
        "decoded": [{"line": line, "says": says} for line, says in _decoded(entry)],
        "ladder": None if entry.ladder is None else [step.value for step in entry.ladder],
        "sources": [{"key": key, "name": names[key]} for key in entry.sources],
        "disagreements": [one._asdict() for one in entry.disagreements],
    }


def _decoded(entry: Entry) -> list[tuple[str, str]]:
    if entry.decode == "nvlink5":
        return nvlink.describe_rows(entry.code)
    if entry.decode == "nvlink":
        return [
            (
                ", ".join(
                    f"word {word} bit {'/'.join(map(str, bits))}"
                    for word, bits in nvlink.BITS[kind].items()
                ),
                _said(kind),
            )
            for kind in nvlink.BITS
        ]
    return []


def _said(kind: str) -> str:
    action, because = nvlink.MEANINGS[kind]
    return f"{action.value}: {because}"


def _text(entry: Entry) -> str:
    head = f"{_called(entry.id)}  {entry.name}"
    lines = [head, "", *textwrap.wrap(entry.meaning, WIDTH), ""]
    for word, text in _fields(entry):
        lines += (
            textwrap.wrap(
                text, WIDTH, initial_indent=f"{word:<{MARGIN}}", subsequent_indent=" " * MARGIN
            )
            if text
            else []
        )
    return "\n".join(lines) + "\n"


def _fields(entry: Entry) -> Iterator[tuple[str, str]]:
    row = ACTIONS[entry.action]
    names = catalogue.sources(_kind(entry))
    yield "action", f"{entry.action.value}: {row.todo}"
    yield "then", row.proof
    for one in entry.conditions:
        soon = f" ({one.urgency})" if one.urgency else ""
        yield "but", f"{one.action.value}{soon} if {_reason(words_of(one.when), one.because)}"
    for line, says in _decoded(entry):
        yield "decoded", f"{line}: {says}"
    yield "again", _again(entry)
    yield _bucket(entry)
    yield "comes with", ", ".join(map(_called, entry.companions))
    yield "program", "a program's fault is the usual cause" if entry.application else ""
    yield "state", STATES[entry.state] if _kind(entry) != "dcgm" else ""
    yield "impact", entry.impact
    yield "urgency", entry.urgency
    yield "confidence", entry.confidence
    for other in entry.disagreements:
        yield "disagrees", f"{other.who}: {other.says}"
    for note in entry.notes:
        yield "note", note
    for key in entry.sources:
        yield "source", names[key]


def _reason(condition: str, because: str) -> str:
    """Return a condition with the reason for its action, once where both say the same."""
    return because if because.startswith(condition) else f"{condition}: {because}"


def _bucket(entry: Entry) -> tuple[str, str]:
    now, later = entry.bucket["immediate"], entry.bucket["investigatory"]
    if _kind(entry) == "dcgm":
        return "DCGM", f"severity {now}, category {later}"
    if _kind(entry) == "sxid":
        return "NVIDIA", f"{now} in Fabric Manager's guide"
    return "NVIDIA", ", then ".join(word for word in (now, later) if word)


def _again(entry: Entry) -> str:
    if _kind(entry) == "dcgm":
        return ""
    ladder = TO_REPLACE[TO_REPLACE.index(entry.action) :] if entry.action in TO_REPLACE else ()
    steps = ladder if entry.ladder is None else entry.ladder
    if not steps:
        return "nothing more if it comes again" if entry.ladder == () else ""
    back = (
        f"if it comes again within {counted(entry.window_days, 'day')}"
        if entry.window_days
        else "each if the one before did not help"
    )
    return f"{', '.join(step.value for step in steps)}, {back}"


def _called(id_: str) -> str:
    kind, _, code = id_.partition(":")
    return (
        f"{KINDS[kind]} {code}" if kind in KINDS else f"{kind.upper()} {code.replace('-', ' ')}"
    )  # a line without a number


def words_of(when: Mapping[str, Any]) -> str:
    """Return a condition in words."""
    return " and ".join(SAID[name](wanted) for name, wanted in when.items())


def _or(values: Any) -> str:
    *most, last = [str(value) for value in ([values] if isinstance(values, str) else values)]
    return f"{', '.join(most)} or {last}" if most else last


def _yes(flag: bool) -> str:
    return "Yes" if flag else "No"


def _span(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return counted(seconds / length, unit)
    return counted(float(seconds), "second")


def _companion(wanted: Mapping[str, Any]) -> str:
    names = _or([_called(id_) for id_ in wanted["entries"]])
    when = {"before": "before it", "after": "after it", "any": "before or after it"}[wanted["when"]]
    to = f" with value {_or(wanted['to'])}" if "to" in wanted else ""
    part = {True: " on the same GPU", "path": " on its PCIe path"}.get(wanted.get("same_part"), "")
    return f"{names}{to} came{part} within {_span(wanted['within_s'])} {when}"


def _state(wanted: Mapping[str, Any]) -> str:
    said = []
    for name, value in wanted.items():
        flag = FLAGS.get(name, "")
        said.append(
            flag.format("" if value else "not ")
            if flag
            else f"the driver's recovery action is {_or(value)}"
        )
    return " and ".join(said)


def _recurred(wanted: Mapping[str, Any]) -> str:
    across = f", with a {wanted['across']} between" if "across" in wanted else ""
    return f"it came {counted(wanted['times'], 'time')} within {_span(wanted['within_s'])}{across}"


SAID: dict[str, Callable[[Any], str]] = {
    "text_contains": lambda wanted: (
        f"the line says {_or(map(repr, [wanted] if isinstance(wanted, str) else wanted))}"
    ),
    "text_matches": lambda wanted: f"the line matches {wanted}",
    "rst": lambda wanted: f"the line says RST: {_yes(wanted)}",
    "d_rst": lambda wanted: f"the line says D-RST: {_yes(wanted)}",
    "to": lambda wanted: f"the new value is {_or(wanted)}",
    "severity": lambda wanted: f"the line says {_or(wanted)}",
    "branch_at_least": lambda wanted: f"the driver is {wanted} or newer",
    "branch_below": lambda wanted: f"the driver is older than {wanted}",
    "architecture": lambda wanted: f"the GPU is of {_or([word.capitalize() for word in wanted])}",
    "companion": _companion,
    "state": _state,
    "recurred": _recurred,
    "followed_by": lambda wanted: f"a {wanted} came after it",
    "value": lambda wanted: " and ".join(
        f"{name} is {_or(values)}" for name, values in wanted.items()
    ),
}
