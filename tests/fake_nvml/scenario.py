"""From a recording, and what a test wants changed in it, to the scenario file that nvml.c reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from . import calls
from .encode import encode, encode_field

SUCCESS, NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND, UNKNOWN = 0, 3, 6, 13, 999
HANG, CRASH, SCRIBBLE = -1, -2, -3  # as delays

# NVML's code for each kind of unread reading, where the recording does not carry the code itself.
_CODES = {
    "not-supported": NOT_SUPPORTED,
    "no-permission": 4,
    "lost": 15,
    "reset-required": 16,
    "too-old-driver": FUNCTION_NOT_FOUND,
    "garbled": UNKNOWN,
}
_HANGING = frozenset({"timed-out", "blocked-behind"})
_HANDLES = calls.WITHOUT_RESULTS - {calls.INIT}
_ADDRESS = re.compile(r"([0-9a-fA-F]+):([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?")

OFFSETS = {calls.TEMPERATURE_V: 8}  # of a call's number in its structure: after version and sensor
_SHORT_DOMAINS = 0xFFFF  # PCI domains up to here are written with four digits

_UNCHANGED: Any = object()


class Growth(NamedTuple):
    """A number that grows by *step* for each byte in *file*, by at most *most*: what a worker of
    the fake CUDA does can show in NVML. *result* is the number's place among the call's results.
    """

    file: Path
    step: int = 1
    most: int = 1 << 30
    result: int = 0


@dataclass(frozen=True)
class Change:
    """What a test makes different from the recording, for one key or one whole GPU.

    A whole GPU is the key ``nvml:*(0000:1b:00.0)``: there ``handle=True`` includes opening the
    GPU, and ``absent=True`` takes the GPU out of the node altogether. ``then`` is the value from
    the second time on that one process asks; ``crash=True`` ends that process as a bad pointer
    does, ``scribble=True`` writes nonsense into all that the process has open. ``grows`` lets a
    number of it grow with a file.
    """

    value: Any = _UNCHANGED
    code: int | None = None
    delay_ms: int = 0
    hang: bool = False
    absent: bool = False
    handle: bool = False
    crash: bool = False
    scribble: bool = False
    then: Any = _UNCHANGED
    grows: Growth | None = None


class Call(NamedTuple):
    """What one line of the scenario answers: ``-`` where there is no address or no arguments."""

    symbol: str
    address: str = "-"
    args: str = "-"


@dataclass(frozen=True)
class Outcome:
    """What a call comes to: a return code, the value if that is success, and a delay."""

    value: Any = None
    code: int = SUCCESS
    delay_ms: int = 0
    value_type: int | None = None  # of a field value, as NVML numbers them
    grows: Growth | None = None

    def changed(self, change: Change) -> Outcome:
        """This outcome with the change on top; a new value makes a failing call succeed."""
        outcome = self
        if change.value is not _UNCHANGED:
            outcome = replace(outcome, value=change.value, code=SUCCESS)
        if change.code is not None:
            outcome = replace(outcome, code=change.code)
        if change.grows is not None:
            outcome = replace(outcome, grows=change.grows)
        if change.hang:
            return replace(outcome, delay_ms=HANG)
        if change.crash or change.scribble:
            return replace(outcome, delay_ms=CRASH if change.crash else SCRIBBLE)
        return replace(outcome, delay_ms=change.delay_ms or outcome.delay_ms)


def canonical_address(text: str) -> str | None:
    """The PCI address as gpuscan writes it, or None if the text is not one."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    domain, bus, device = (int(part, 16) for part in match.group(1, 2, 3))
    digits = 4 if domain <= _SHORT_DOMAINS else 8
    return f"{domain:0{digits}x}:{bus:02x}:{device:02x}.{match.group(4) or 0}"


def parse_key(key: str) -> Call | None:
    """The call that an ``nvml:`` key is about, by the C symbol that pynvml uses for it."""
    match = re.fullmatch(r"nvml:(\w+|\*)\((.*)\)", key)
    if match is None:
        return None
    name, words = match.group(1), [word for word in match.group(2).split(",") if word]
    words = [canonical_address(word) or word for word in words]
    address = words.pop(0) if words and canonical_address(words[0]) else "-"
    symbol = calls.ALIASES.get(name, name)
    if symbol == calls.MEMORY and words:  # pynvml: the version argument selects the newer symbol
        symbol = calls.MEMORY_V2
    if symbol in calls.NEWER_FORMS.values():
        words = []  # what pynvml takes as an argument, the structure holds
    if symbol == calls.FIELD_VALUES and len(words) == 1:
        words.append("0")
    return Call(symbol, address, ",".join(words) or "-")


def write_scenario(
    recording: Mapping[str, Any],
    path: Path,
    *,
    changes: Mapping[str, Change] | None = None,
    ignore_sigterm: bool = False,
) -> None:
    """Write the scenario in which each NVML call answers as the recording says.

    Of several readings of one key the first counts: it is the scan's, later ones are of a burn-in.
    """
    wanted = _parse_changes(changes or {})
    outcomes, texts = _recorded(recording)
    known = _gpus(outcomes)
    strangers = {call.address for call in wanted} - known - {"-"}
    if strangers:
        raise ValueError(f"the recording has no GPU {', '.join(sorted(strangers))}")
    gone = {call.address for call, change in wanted.items() if change.absent}
    outcomes = {call: outcome for call, outcome in outcomes.items() if call.address not in gone}
    addresses = known - gone
    indexes = _enumerate(outcomes, addresses, gone)
    _apply_changes(outcomes, wanted, indexes)
    for call, outcome in list(outcomes.items()):
        newer = calls.NEWER_FORMS.get((call.symbol, call.args))
        if newer is not None:
            outcomes.setdefault(Call(newer, call.address), outcome)
    lines = ["ignore-sigterm"] if ignore_sigterm else []
    lines += [f"device {indexes.get(address, -1)} {address}" for address in sorted(addresses)]
    lines += [_line(call, outcome) for call, outcome in outcomes.items()]
    lines += [
        f"call nvmlErrorString - {code} 0 0 {text.encode().hex()}" for code, text in texts.items()
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _parse_changes(changes: Mapping[str, Change]) -> dict[Call, Change]:
    """Parse the keys of the changes; raises ValueError for a key that is no NVML call."""
    parsed: dict[Call, Change] = {}
    for key, change in changes.items():
        call = parse_key(key)
        if call is None:
            raise ValueError(f"not an nvml key: {key}")
        parsed[call] = change
    return parsed


def _recorded(recording: Mapping[str, Any]) -> tuple[dict[Call, Outcome], dict[int, str]]:
    """Return each call's first outcome in the recording, and the error texts by code."""
    outcomes: dict[Call, Outcome] = {}
    texts: dict[int, str] = {}
    for reading in recording["readings"]:
        call = parse_key(reading["key"])
        if call is not None and call not in outcomes:
            outcomes[call] = _outcome(call, reading)
            error = reading.get("error") or {}
            if "code" in error and error.get("text"):
                texts.setdefault(error["code"], error["text"])
    return outcomes, texts


def _apply_changes(
    outcomes: dict[Call, Outcome], wanted: Mapping[Call, Change], indexes: Mapping[str, int]
) -> None:
    """Change *outcomes* in place: whole GPUs first, then single calls, which win."""
    for call, change in wanted.items():
        if call.symbol == "*" and not change.absent:
            _change_gpu(outcomes, call.address, change, indexes, explicit=wanted)
    for call, change in wanted.items():
        if call.symbol != "*":
            outcomes[call] = outcomes.get(call, _unrecorded(call)).changed(change)
            if change.then is not _UNCHANGED:
                outcomes[call._replace(symbol=f"{call.symbol}+")] = Outcome(value=change.then)


def _gpus(outcomes: Mapping[Call, Outcome]) -> set[str]:
    """The addresses of all GPUs that the recording speaks of."""
    opened = (call for call in outcomes if call.symbol == calls.HANDLE_BY_INDEX)
    by_index = {canonical_address(str(outcomes[call].value)) or "-" for call in opened}
    return ({call.address for call in outcomes} | by_index) - {"-"}


def _unrecorded(call: Call) -> Outcome:
    """What a call answers that neither the recording nor a change describes."""
    takes_part = call.symbol in calls.WITHOUT_RESULTS
    batch = call.symbol == calls.FIELD_VALUES and call.args == "-"
    return Outcome() if takes_part or batch else Outcome(code=NOT_SUPPORTED)


def _outcome(call: Call, reading: Mapping[str, Any]) -> Outcome:
    error = reading.get("error")
    if error is None:
        return Outcome(value=reading["value"], value_type=reading.get("type"))
    kind = error.get("kind", "garbled")
    if kind in _HANGING:
        return Outcome(code=error.get("code", UNKNOWN), delay_ms=HANG)
    if kind == "not-found" and "code" not in error:
        return Outcome(code=NOT_FOUND if call.symbol in _HANDLES else FUNCTION_NOT_FOUND)
    return Outcome(code=error.get("code", _CODES.get(kind, UNKNOWN)))


def _enumerate(
    outcomes: dict[Call, Outcome], addresses: Iterable[str], gone: set[str]
) -> dict[str, int]:
    """The index of each GPU; count, indexes and handles are put into ``outcomes`` to match.

    Handles recorded by index decide; else the recorded indexes; GPUs without either follow by
    address, unless NVML did not find them. Taking a GPU away moves the later ones up, as NVML
    does.
    """
    by_index: dict[int, str | Outcome] = {}
    for call in [call for call in outcomes if call.symbol == calls.HANDLE_BY_INDEX]:
        outcome = outcomes.pop(call)
        opened = outcome.code == SUCCESS and outcome.delay_ms == 0
        by_index[int(call.args)] = canonical_address(outcome.value) or "-" if opened else outcome
    if not by_index:
        for call, outcome in outcomes.items():
            if call.symbol == calls.INDEX and outcome.code == SUCCESS and outcome.delay_ms == 0:
                by_index[int(outcome.value)] = call.address
        for address in sorted({*addresses, *gone} - set(by_index.values())):
            handle = outcomes.get(Call(calls.HANDLE_BY_ADDRESS, address), Outcome())
            if handle.code != NOT_FOUND:
                by_index[next(i for i in range(len(by_index) + 1) if i not in by_index)] = address
    count = outcomes.pop(Call(calls.COUNT), Outcome(value=len(by_index)))
    if count.code == SUCCESS and count.delay_ms == 0:
        taken = sum(1 for entry in by_index.values() if entry in gone)
        count = replace(count, value=int(count.value) - taken)
    outcomes[Call(calls.COUNT)] = count
    left = [by_index[index] for index in sorted(by_index) if by_index[index] not in gone]
    indexes: dict[str, int] = {}
    for index, entry in enumerate(left) if gone else sorted(by_index.items()):
        if isinstance(entry, Outcome):
            outcomes[Call(calls.HANDLE_BY_INDEX, "-", str(index))] = entry
            continue
        indexes[entry] = index
        call = Call(calls.INDEX, entry)
        if call not in outcomes or (gone and outcomes[call].code == SUCCESS):
            outcomes[call] = Outcome(value=index)
    return indexes


def _change_gpu(
    outcomes: dict[Call, Outcome],
    address: str,
    change: Change,
    indexes: Mapping[str, int],
    *,
    explicit: Mapping[Call, Change],
) -> None:
    """Apply a change to every call of a GPU, recorded or not, that has no change of its own.

    Field values are changed as a batch only: a delay for each field would multiply.
    """
    for call in [call for call in outcomes if call.address == address and call not in explicit]:
        if call.symbol not in _HANDLES and call.symbol != calls.FIELD_VALUES:
            outcomes[call] = outcomes[call].changed(change)
    general = [Call("*", address), Call(calls.FIELD_VALUES, address)]
    if change.handle:
        general.append(Call(calls.HANDLE_BY_ADDRESS, address))
        if address in indexes:
            general.append(Call(calls.HANDLE_BY_INDEX, "-", str(indexes[address])))
    for call in general:
        if call not in explicit or call.symbol == "*":
            outcomes[call] = outcomes.get(call, _unrecorded(call)).changed(change)


def _line(call: Call, outcome: Outcome) -> str:
    words = ["call", *call, str(outcome.code), str(outcome.delay_ms)]
    for number, buffer in enumerate(_buffers(call, outcome)):
        words.append(buffer.hex() or "-")
        if outcome.grows is not None and number == outcome.grows.result:
            offset = OFFSETS.get(call.symbol, 0)
            words.append(
                f"+{offset},{outcome.grows.step},{outcome.grows.most},{outcome.grows.file}"
            )
    return " ".join(words)


def _buffers(call: Call, outcome: Outcome) -> list[bytes]:
    """The results to copy out; none for a failure, a hang, or a call that gives only a handle."""
    call = call._replace(symbol=call.symbol.rstrip("+"))
    batch = call.symbol == calls.FIELD_VALUES and call.args == "-"
    if outcome.code != SUCCESS or outcome.delay_ms < 0 or batch:
        return []
    if call.symbol in calls.WITHOUT_RESULTS:
        return []
    if call.symbol == calls.FIELD_VALUES:
        return encode_field(outcome.value, outcome.value_type)
    if not calls.encodable(call.symbol):
        raise ValueError(f"{call.symbol}: no signature in calls.py, so its value has no bytes")
    try:
        return encode(call.symbol, outcome.value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{call.symbol}({call.address},{call.args}): {error}") from error
