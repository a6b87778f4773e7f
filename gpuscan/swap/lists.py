"""The files that describe a swap: known bad serials, and the parts that a node should hold."""

from collections.abc import Mapping

from gpuscan.errors import ProfileError, UsageError
from gpuscan.files import read_input
from gpuscan.profile import yamlfile
from gpuscan.swap.fit import ExpectedPart

LARGEST_BYTES = 1 << 20
EXPECTED_PARTS = {  # JSON Schema: a serial for each slot, or more about it
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "anyOf": [
            {"type": ["string", "integer"]},
            {
                "type": "object",
                "additionalProperties": False,
                "minProperties": 1,
                "properties": {
                    "serial": {"type": ["string", "integer"]},
                    "part_number": {"type": "string"},
                },
            },
        ]
    },
}


def load_known_bad(file: str) -> frozenset[str]:
    """Return the serials in *file*, one a line, in lower case; `#` begins a comment.

    No file gives an empty set; raises UsageError for one that holds no serials.
    """
    if not file:
        return frozenset()
    lines = _read(file, "list of known bad parts").splitlines()
    serials = frozenset(line.partition("#")[0].strip().lower() for line in lines) - {""}
    if not serials:
        raise UsageError(f"{file}: contains no serial number: write one a line")
    invalid = next((serial for serial in serials if len(serial.split()) > 1), "")
    if invalid:
        raise UsageError(f"{file}: {invalid!r} is not a serial number: write one a line")
    return serials


def load_expected_parts(file: str) -> Mapping[str, ExpectedPart]:
    """Return the expected parts by slot; no file gives none.

    Raises UsageError with file, line and column where the file is not such a list.
    """
    if not file:
        return {}
    try:
        data, positions = yamlfile.load(_read(file, "list of expected parts"), file)
        yamlfile.validate(data, positions, file, EXPECTED_PARTS)
    except ProfileError as error:
        *others, last = error.args
        raise UsageError(*others, f"{last}; write SLOT: SERIAL, one a line") from None
    return {str(slot): _expected_part(entry) for slot, entry in data.items()}


def _expected_part(entry: object) -> ExpectedPart:
    if not isinstance(entry, dict):
        return ExpectedPart(str(entry), "")
    return ExpectedPart(str(entry.get("serial", "")), str(entry.get("part_number", "")))


def _read(file: str, what: str) -> str:
    try:
        text = read_input(file, LARGEST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{file}: cannot read the {what}: {reason}") from None
    if len(text) > LARGEST_BYTES:
        raise UsageError(f"{file}: larger than {LARGEST_BYTES >> 10} KiB: not a {what}")
    return text
