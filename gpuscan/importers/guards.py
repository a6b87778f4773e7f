"""Lines that look like a fault and that no reader understood: a verdict without them is no pass."""

import re
from collections.abc import Callable, Iterator, Sequence

from gpuscan.errors import RecordingError
from gpuscan.importers.part import Part, refusal
from gpuscan.importers.smi_words import UNKNOWN_ERROR
from gpuscan.kernellog import prefixes
from gpuscan.recording import Reading
from gpuscan.recording.keys import INIT, gpu_of

# What tools print where something is wrong, and nowhere else.
FAULTS = re.compile(
    r"\(rev ff\)|<inactive>|\binActive\b|(?<![\w.])ERR!|\[?(?<!\w)Unknown Error\b\]?"
    r"|\[?\bGPU (?:is lost|requires reset)\b\]?"
    r"|\b(?:Failure Occurred|Remapping Failure|Failure|Threshold Exceeded|Pending)\s+: Yes\b"
    r"|_(?:failure|pending|exceeded)>Yes<|\|\s*Fail\b|\bFail - |\bFAULTY\b|!!! Unknown header type"
)
# What tells one node from another, and what changes by itself on one node.
IDENTITY = re.compile(r"nvml:nvmlDeviceGet(?:UUID|Serial)\(|file:\S+/node_guid$")
LASTING = re.compile(
    r"nvml:nvmlDeviceGet(?:EccMode|MigMode|SramEccErrorStatus|RemappedRows|RepairStatus"
    r"|UnrepairableMemoryFlag\w*|TotalEccErrors|RetiredPagesPendingStatus)\("
    r"|nvml:nvmlDeviceGetFieldValues\(\S+,(?:230|29|30),0\)$|nvml:\S+,165,\d+\)$"
    r"|file:/sys/class/infiniband/\S+/(?:state|phys_state)$"
)
SAID = "text:"  # lists of what programs said: the last holds those before it
HANDLE = "nvml:nvmlDeviceGetHandleBy"
MOST_PROBED = 40  # lines of one part: each costs a reading of the part
MOST_NAMED = 3
LONGEST = 100
Read = Callable[[Part], list[Reading]]


def unread_lines(part: Part, made: list[Reading], read: Read, *, is_log: bool) -> Iterator[str]:
    """Yield the lines of a part that look like a fault, and without which it reads the same."""
    lines = part.text.split("\n")
    suspect = [number for number, line in enumerate(lines) if FAULTS.search(line)]
    for number in suspect[:MOST_PROBED]:
        line = lines[number]
        if is_log:
            unread = _is_no_record(line)
        else:
            changed = [*lines[:number], FAULTS.sub("#", line), *lines[number + 1 :]]
            unread = read(part._replace(text="\n".join(changed))) == made
        if unread:
            yield line.strip()


def settle(name: str, parts: Sequence[tuple[str, list[Reading]]]) -> list[Reading]:
    """Return the readings of all parts of a text, each by its kind.

    Two documents of one kind may be of two nodes, or of one before and after a repair: where they
    tell GPUs or HCAs apart, the text is refused with a RecordingError; where a lasting fact
    differs, it is unread. What programs said adds up, and two logs get two names.
    """
    made: list[Reading] = []
    before: dict[tuple[str, str], Reading] = {}
    for kind, readings in parts:
        for reading in readings:
            settled = _settle(name, before.get((kind, reading.key)), reading)
            before[kind, reading.key] = settled
            made.append(settled)
    return _number_logs(made)


def _settle(name: str, earlier: Reading | None, reading: Reading) -> Reading:
    if earlier is None or reading.error is not None or earlier.value == reading.value:
        return reading
    if reading.key.startswith(SAID) and earlier.error is None:
        return reading._replace(value=[*earlier.value, *reading.value])
    if earlier.error is not None:
        return earlier if LASTING.match(reading.key) else reading
    if IDENTITY.match(reading.key):
        raise RecordingError(
            f"{name}: it holds the output of two nodes ({reading.key}: {earlier.value}, then "
            f"{reading.value}): give that of one at a time"
        )
    if not LASTING.match(reading.key):
        return reading
    text = f"the text shows {earlier.value!r}, and further on {reading.value!r}"
    return refusal(reading.key, "garbled", f"{text}: give one state of one node")


def _number_logs(readings: list[Reading]) -> list[Reading]:
    """Return the readings with a name of its own for each log."""
    numbers: dict[str, int] = {}
    numbered = []
    for reading in readings:
        if reading.key.startswith("log:"):
            number = numbers[reading.key] = numbers.get(reading.key, 0) + 1
            key = reading.key if number == 1 else f"{reading.key} ({number})"
            numbered.append(reading._replace(key=key))
        else:
            numbered.append(reading)
    return numbered


def unknown_errors(made: list[Reading]) -> Iterator[str]:
    """Yield the values in place of which nvidia-smi prints an unknown error, of GPUs that it could
    open: no check may ask for them.
    """
    errors = [(one.key, one.error) for one in made if one.error is not None]
    closed = {gpu_of(key) for key, _ in errors if key.startswith(HANDLE)}
    for key, error in errors:
        if error.code == UNKNOWN_ERROR and gpu_of(key) not in closed and key != INIT:
            yield f"Unknown Error in place of {key.removeprefix('nvml:')}"


def _is_no_record(line: str) -> bool:
    """Return whether a line of a log has no prefix: neither the kernel nor a program wrote it."""
    return prefixes.parse_line(line.strip(), 0.0) is None


def describe(lines: list[str]) -> str:
    """Return the note on lines that were not understood.

    >>> describe(["| ERR!   34C    P0 |"])
    "not understood, so no pass: 1 line that looks like a fault: '| ERR!   34C    P0 |'"
    """
    what = "1 line that looks" if len(lines) == 1 else f"{len(lines)} lines that look"
    named = ", ".join(repr(line[:LONGEST]) for line in lines[:MOST_NAMED])
    more = ", \u2026" if len(lines) > MOST_NAMED else ""
    return f"not understood, so no pass: {what} like a fault: {named}{more}"
