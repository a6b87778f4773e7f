"""Save and load recordings: gzip or plain JSON, as `gpuscan schema recording` describes it."""

import gzip
import json
from typing import Any

from gpuscan.errors import RecordingError
from gpuscan.files import open_input, read_input, write_atomically
from gpuscan.model import Unread
from gpuscan.recording import packed
from gpuscan.recording.meta import dump_meta, parse_meta
from gpuscan.recording.readings import Reading, Recording
from gpuscan.text import as_json

FORMAT = "gpuscan-recording"
SCHEMA_VERSION = "1.0"
LARGEST_BYTES = 16 << 20  # unpacked; the recording of a real eight-GPU node is about 1 MiB
HEAD_BYTES = 1 << 16
HEAD = ("format", "schema_version", "scope", "readings")
# `journalctl -o json` is JSON too
JOURNAL_FIELDS = (b'"MESSAGE"', b'"__CURSOR"', b'"_TRANSPORT"', b'"__REALTIME_TIMESTAMP"')
# and so is what these tools print
TOOL_FIELDS = (b'"DCGM Diagnostic"', b'"DCGM GPU Diagnostic"', b'"nvbandwidth"')
# the kernel numbers the lines of a firmware's report: {1}[Hardware Error]: …
HARDWARE_ERROR = b"}[Hardware Error]"


def dump(recording: Recording) -> dict[str, Any]:
    """Return the recording as JSON (`gpuscan schema recording`)."""
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        **dump_meta(recording.meta),
        "scope": list(recording.scope),
        "readings": [_dump_reading(reading) for reading in recording],
    }


def _dump_reading(reading: Reading) -> dict[str, Any]:
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


REPORT_KEYS = ({"summary", "findings"}, {"verdict", "exit_code", "results"})


def restore(document: Any, name: str) -> Recording:
    """Build a recording from its JSON; *name* is the file that errors name.

    Raises RecordingError if the JSON is not a recording, or is damaged.
    """
    if isinstance(document, dict) and any(keys <= set(document) for keys in REPORT_KEYS):
        raise RecordingError(
            f"{name}: is a report, not a recording: give the recording that was judged"
        )
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RecordingError(
            f'{name}: not a gpuscan recording (its JSON has no "format": "{FORMAT}")'
        )
    version = str(document.get("schema_version", ""))
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise RecordingError(
            f"{name}: recording format {version or 'unknown'}, but this gpuscan reads "
            f"{SCHEMA_VERSION}: update gpuscan"
        )
    try:
        for part in ("readings", "scope"):
            if not isinstance(document[part], list):
                raise TypeError(f"its {part} is not a list")
        meta = parse_meta({key: value for key, value in document.items() if key not in HEAD})
        readings = [_parse_reading(row) for row in document["readings"]]
        return Recording(meta, [str(pattern) for pattern in document["scope"]], readings)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise RecordingError(
            f"{name}: damaged recording ({type(error).__name__}: {error}); "
            "collect it again with gpuscan collect"
        ) from None


def _parse_reading(row: dict[str, Any]) -> Reading:
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
    value, error = _parse_answer(key, row)
    phase = str(row.get("phase", "scan"))
    return Reading(key, value, error, float(row["at"]), float(row["ms"]), phase)


def _parse_answer(key: str, row: dict[str, Any]) -> tuple[Any, Unread | None]:
    error = row.get("error")
    if error is None:
        return row["value"], None
    if row.get("value") is not None:
        raise ValueError(f"{key}: has a value and an error")
    code = error.get("code")
    if code is not None and type(code) is not int:
        raise ValueError(f"{key}: a return code is {code!r}")
    return None, Unread(key, str(error["kind"]), str(error["text"]), code)


def load(path: str) -> Recording:
    """Load a recording, gzip or plain JSON; raises RecordingError that says what is wrong."""
    try:
        data = read_input(path, LARGEST_BYTES)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    if data.startswith(packed.GZIP):
        try:
            data = packed.unpack(data, path, LARGEST_BYTES)
        except packed.DamagedArchive as error:
            raise RecordingError(
                f"{path}: damaged or cut off ({error}); copy or record it again"
            ) from None
    return parse(data, path)


def parse(data: bytes, name: str) -> Recording:
    """Return the recording in a file's bytes, unpacked; raises RecordingError."""
    if len(data) > LARGEST_BYTES:
        raise RecordingError(
            f"{name}: larger than {LARGEST_BYTES >> 20} MiB unpacked, too large for a recording"
        )
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise RecordingError(
            f"{name}: not a gpuscan recording, or cut off (no valid JSON); "
            "record the node again with gpuscan collect"
        ) from None
    return restore(document, name)


def is_json(path: str) -> bool:
    """Return whether a file is JSON, so a recording or a mistake, and not to be imported.

    A file that cannot be read counts as JSON: `load` says what is wrong with it.
    """
    try:
        with open_input(path) as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return True
    if head.startswith(packed.GZIP):
        head = _unzip_head(head)
    head = head.lstrip()
    other = HARDWARE_ERROR in head[:32] or any(
        field in head for field in (*JOURNAL_FIELDS, *TOOL_FIELDS)
    )
    return head.startswith(b"{") and not other


def _unzip_head(packed: bytes) -> bytes:
    import zlib

    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed, HEAD_BYTES)
    except zlib.error:
        return b"{"  # damaged: `load` says how


def save(recording: Recording, path: str) -> None:
    """Write a recording atomically; gzip unless the name ends in .json.

    Raises UsageError if it cannot be written.
    """
    # Bytes that are not UTF-8 are lone surrogates here: as \\udcff they survive, as raw bytes the
    # file would not be JSON.
    data = as_json(dump(recording), separators=(",", ":")).encode("ascii")
    if not path.endswith(".json"):
        data = gzip.compress(data, compresslevel=6, mtime=0)
    write_atomically(path, data)
