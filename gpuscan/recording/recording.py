"""A recording: every raw answer of one node, value or error, with its time; saved, loaded,
redacted, patched.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase, translate
from typing import Any, NamedTuple

from gpuscan.errors import RecordingError
from gpuscan.files import write_atomically
from gpuscan.model import READING_KINDS, Unread

FORMAT = "gpuscan-recording"
SCHEMA_VERSION = "1.0"
FIRMWARE = "redfish:FirmwareInventory"  # a reading that is imported: a list of {id, name, version}
# stands in a list or record of values for one that an imported text does not tell
UNTOLD = "not recorded"
HEAD_BYTES = 1 << 16
JOURNAL_FIELDS = (
    b'"MESSAGE"',
    b'"__CURSOR"',
    b'"_TRANSPORT"',
    b'"__REALTIME_TIMESTAMP"',
)  # journalctl -o json is JSON, too
LARGEST_BYTES = 256 * 1024 * 1024  # unpacked; a real eight-GPU node needs about one


class Reading(NamedTuple):
    """One answer: *value*, or *error* where there was none; *at_s* is Unix time, *ms* how long it
    took.
    """

    key: str
    value: Any
    error: Unread | None = None
    at_s: float = 0.0
    ms: float = 0.0
    phase: str = "scan"


class Recording:
    """Readings by key, in the order in which they came; only ever added to."""

    def __init__(
        self, meta: Mapping[str, Any], scope: Iterable[str], readings: Iterable[Reading] = ()
    ) -> None:
        self.meta = dict(meta)
        self.scope = tuple(scope)
        self._covered: re.Pattern[str] | None = None
        self._by_key: dict[str, list[Reading]] = {}
        for reading in readings:
            self.add(reading)

    def add(self, reading: Reading) -> None:
        """Append one reading."""
        self._by_key.setdefault(reading.key, []).append(reading)

    def widen(self, patterns: Iterable[str]) -> None:
        """Set out to read more: keys that match *patterns*, too."""
        self.scope = (*self.scope, *patterns)
        self._covered = None

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Reading]:
        return (reading for readings in self._by_key.values() for reading in readings)

    def keys(self) -> Iterable[str]:
        """Return every key that was asked, answered or not."""
        return self._by_key.keys()

    def all(self, key: str) -> list[Reading]:
        """Return every reading of *key* in time order, an empty list when it was never asked."""
        return self._by_key.get(key, [])

    def get(self, key: str) -> Any:
        """Return the newest value of *key*, or `Unread` with the reason why there is none."""
        readings = self._by_key.get(key)
        if readings:
            newest = readings[-1]
            if newest.error is None:
                return newest.value
            strange = newest.error.kind not in READING_KINDS
            return newest.error._replace(kind="garbled") if strange else newest.error
        if not self.covers(key):
            return Unread(key, "not-recorded", "outside the scope of this recording")
        return Unread(key, "blocked-behind", "not asked: the scan ended before")

    def covers(self, key: str) -> bool:
        """Return whether *key* lies within what this recording set out to read."""
        if self._covered is None:
            self._covered = re.compile("|".join(map(translate, self.scope)) or "(?!)")
        return self._covered.match(key) is not None


def _row(reading: Reading) -> dict[str, Any]:
    row: dict[str, Any] = {"key": reading.key}
    if reading.error is None:
        row["value"] = reading.value
    else:
        row["error"] = {"kind": reading.error.kind, "text": reading.error.text}
        if reading.error.code is not None:
            row["error"]["code"] = reading.error.code
    row["at"] = round(reading.at_s, 3)
    row["ms"] = round(reading.ms, 3)
    if reading.phase != "scan":
        row["phase"] = reading.phase
    return row


def dump(recording: Recording) -> dict[str, Any]:
    """Return the recording as the JSON object that `gpuscan schema recording` describes."""
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        **recording.meta,
        "scope": list(recording.scope),
        "readings": [_row(reading) for reading in recording],
    }


def restore(document: Any, name: str) -> Recording:
    """Build a recording from its JSON object; *name* is the file that messages speak of."""
    if isinstance(document, dict) and {"verdict", "exit_code", "results"} <= set(document):
        raise RecordingError(
            f"{name}: is a report, the outcome of a judgement: give the recording that it was made of"
        )
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RecordingError(
            f'{name}: not a gpuscan recording (its JSON lacks "format": "{FORMAT}")'
        )
    version = str(document.get("schema_version", ""))
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise RecordingError(
            f"{name}: recording format {version or 'unknown'}, this gpuscan reads {SCHEMA_VERSION}: update gpuscan"
        )
    head = ("format", "schema_version", "scope", "readings")
    try:
        meta = {key: value for key, value in document.items() if key not in head}
        for part in ("readings", "scope"):
            if not isinstance(document[part], list):
                raise TypeError(f"its {part} is no list")
        for part in ("made_at", "duration_s", "ended_by_signal"):
            if not moderate(meta.get(part, 0)):
                raise ValueError(f"its {part} is {meta[part]!r}")
        readings = [_reading(row) for row in document["readings"]]
        return Recording(meta, [str(pattern) for pattern in document["scope"]], readings)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordingError(
            f"{name}: damaged recording ({type(error).__name__}: {error}); collect it again with gpuscan collect"
        ) from None


def moderate(number: Any) -> bool:
    """Tell whether a number can be a time: JSON knows no bounds, and Python's JSON not even that
    NaN is none.
    """
    return number is None or (type(number) in (int, float) and 0 <= number < 1e13)


def _reading(row: dict[str, Any]) -> Reading:
    if (
        len(row) == 4
        and type(row["at"]) is type(row["ms"]) is float
        and type(row["key"]) is str
        and "error" not in row
    ):
        return Reading(row["key"], row["value"], None, row["at"], row["ms"])  # nearly all of them
    key = row["key"]
    if not isinstance(key, str):
        raise ValueError(f"a key is {key!r}")
    error = row.get("error")
    if error is not None and row.get("value") is not None:
        raise ValueError(f"{key}: has a value and an error")
    if error is not None:
        code = error.get("code")
        if code is not None and type(code) is not int:
            raise ValueError(f"{key}: a return code is {code!r}")
        unread = Unread(key, str(error["kind"]), str(error["text"]), code)
        return Reading(
            key, None, unread, float(row["at"]), float(row["ms"]), str(row.get("phase", "scan"))
        )
    return Reading(
        key, row["value"], None, float(row["at"]), float(row["ms"]), str(row.get("phase", "scan"))
    )


def load(path: str) -> Recording:
    """Read a recording, gzip or plain JSON; raises RecordingError that says what is wrong with the
    file.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    if data[:2] == b"\x1f\x8b":
        data = _unzip(data, path)
    if len(data) > LARGEST_BYTES:
        raise RecordingError(
            f"{path}: larger than {LARGEST_BYTES >> 20} MiB unpacked, which no recording is"
        )
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise RecordingError(
            f"{path}: not a gpuscan recording, or one that was cut off (no valid JSON); record the node again with gpuscan collect"
        ) from None
    return restore(document, path)


def looks_like(path: str) -> str:
    """Return `json` for what can only be a recording or a mistake, `other` for what may be
    imported; an error is left to `load`.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return "json"
    if head[:2] == b"\x1f\x8b":
        head = _beginning(head)
    text = head.lstrip()
    return (
        "json" if text[:1] == b"{" and not any(word in head for word in JOURNAL_FIELDS) else "other"
    )


def _beginning(packed: bytes) -> bytes:
    import zlib

    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed, HEAD_BYTES)
    except zlib.error:
        return b"{"  # damaged: `load` says how


def _unzip(data: bytes, path: str) -> bytes:
    import io
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return file.read(LARGEST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordingError(
            f"{path}: damaged or cut off ({error}); copy or record it again"
        ) from None


def save(recording: Recording, path: str) -> None:
    """Write the recording beside *path* and rename it there; gzip unless the name ends in .json."""
    # bytes that were no UTF-8 are lone surrogates here; as \\udcff they come back, as raw bytes
    # they would be no JSON
    data = json.dumps(dump(recording), separators=(",", ":")).encode("ascii")
    if not path.endswith(".json"):
        data = gzip.compress(data, compresslevel=6, mtime=0)
    write_atomically(path, data)


def patch(recording: Recording, changes: Mapping[str, Any], log: Iterable[str] = ()) -> Recording:
    """Return a copy in which each key or glob of *changes* reads otherwise, and the kernel logged
    *log* too.

    A change is a value, `{"error": [kind, text]}` (a return code may follow), or None to remove the
    reading from the recording; it holds for every reading of its key. `{"samples": [a, b]}` gives
    the key as many readings as there are changes in the list, and `{"growth": n}` two: its first
    value, and that value grown by n; `{"with": {…}}` changes only these keys of an object.
    `{"phase": p, …}` with "value", "growth" or "error" adds one reading more, in that phase. A glob
    changes every key that matches; a key without a wildcard that was never asked is added.
    """
    kept = [
        reading for key in recording.keys() for reading in _changed(recording.all(key), changes)
    ]
    for key, change in changes.items():
        if "*" not in key and key not in recording and change is not None:
            kept += _sampled([Reading(key, None)], change)
    lines = list(log)
    if lines:
        kept = [_with_log(reading, lines) for reading in kept]
    return Recording(recording.meta, recording.scope, kept)


def _changed(readings: list[Reading], changes: Mapping[str, Any]) -> list[Reading]:
    """Return the readings of one key as the first change that names it leaves them."""
    for key, change in changes.items():
        if readings[0].key == key or ("*" in key and fnmatchcase(readings[0].key, key)):
            return [] if change is None else _sampled(readings, change)
    return readings


def _sampled(readings: list[Reading], change: Any) -> list[Reading]:
    first, last = readings[0], readings[-1]
    if isinstance(change, dict) and set(change) == {"growth"}:
        change = {"samples": [first.value, _grown(first.value, change["growth"])]}
    if isinstance(change, dict) and "phase" in change and len(change) == 2:
        kept = readings if last.value is not None or last.error is not None else []
        phase, rest = (
            change["phase"],
            {name: value for name, value in change.items() if name != "phase"},
        )
        value = _grown(last.value, rest["growth"]) if "growth" in rest else rest.get("value", rest)
        return [*kept, _as_changed(last, value)._replace(phase=phase)]
    if isinstance(change, dict) and set(change) == {"with"}:
        change = _with(last.value, change["with"])
    if isinstance(change, dict) and set(change) == {"samples"}:
        places = [first, *(last for _ in change["samples"][1:])]
        return [
            _as_changed(reading, sample)
            for reading, sample in zip(places, change["samples"], strict=True)
        ]
    return [_as_changed(reading, change) for reading in readings]


def _with(value: Any, changes: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(changes, dict):
        return changes
    return value | {name: _with(value.get(name), change) for name, change in changes.items()}


def _grown(value: Any, by: int) -> Any:
    """Return a counter's value grown: a number, or a file whose last word is one."""
    if isinstance(value, str):
        head, number, tail = re.fullmatch(r"(.*?)(\d+)(\s*)", value, re.DOTALL).groups()  # type: ignore[union-attr]
        return f"{head}{int(number) + by}{tail}"
    return value + by


def _as_changed(reading: Reading, change: Any) -> Reading:
    if isinstance(change, dict) and set(change) == {"error"}:
        kind, text, *code = change["error"]
        return reading._replace(value=None, error=Unread(reading.key, kind, text, *code))
    return reading._replace(value=change, error=None)


def _with_log(reading: Reading, lines: list[str]) -> Reading:
    """Append kernel records to the ring buffer's reading, one second apart from its last."""
    if not reading.key.startswith("kmsg:") or reading.error is not None:
        return reading
    last = reading.value[-1].split(";")[0].split(",") if reading.value else ["4", "0", "0", "-"]
    sequence, stamp_us = int(last[1]), int(last[2])
    new = [
        f"4,{sequence + n},{stamp_us + n * 1_000_000},-;{line}" for n, line in enumerate(lines, 1)
    ]
    return reading._replace(value=[*reading.value, *new])
