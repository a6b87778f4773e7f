"""What `nvbandwidth` prints without `-j`, as the testcases of its JSON."""

import re
from collections.abc import Iterator
from typing import Any

RUNNING = re.compile(r"^Running (?P<name>\w+?)\.\s*$")
HEADING = re.compile(r"^(?P<text>(?>.*?\b(?:bandwidth|latency)\b)(?>.*\((?:GB/s|ns)\)).*)$")
COLUMNS = re.compile(r"^\s+0(?:\s+\d+)*\s*$")
CELL = r"(?:N/A|\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
ROW = re.compile(rf"^\s*\d+((?:\s+{CELL})+)\s*$")
SUM = re.compile(r"^SUM (?P<name>\w+) ")
WAIVED = re.compile(r"^(?:Waived|WAIVED)\b|^Test (?:is )?waived", re.IGNORECASE)
DEVICE = re.compile(r"^(?:Process \d+ \([^)]*\): )?[Dd]evice \d+: .*\(\S+\)\s*$")
ERROR = re.compile(
    r"^\[?CUDA_ERROR_\w+\]?|^\[CUDA\w*|^ERROR\b|^\[NVML_ERROR|^Error:", re.IGNORECASE
)
VERSION = re.compile(r"^nvbandwidth Version: ", re.MULTILINE)


def is_text(text: str) -> bool:
    """Return whether a text is its plain output, or a piece of one."""
    return any(
        VERSION.match(line) or RUNNING.match(line) or SUM.match(line) for line in text.splitlines()
    )


def document(text: str) -> dict[str, Any]:
    """Return the plain output as the object that its JSON holds.

    A testcase that does not come to its sum has no status that says anything, since its data was
    not verified to the end; one that names a CUDA error has failed.
    """
    lines = text.splitlines()
    return {
        "GPU Device list": [line for line in lines if DEVICE.match(line)],
        "testcases": list(_testcases(lines)),
        "error": next((line.strip() for line in lines if ERROR.match(line)), ""),
    }


def _testcases(lines: list[str]) -> Iterator[dict[str, Any]]:
    case: dict[str, Any] = {}
    for line in lines:
        if hit := RUNNING.match(line):
            if case:
                yield case
            case = {"name": hit["name"], "status": "cut off", "bandwidth_matrix": []}
        elif hit := SUM.match(line):
            case = case or {"name": hit["name"], "bandwidth_matrix": []}
            case["status"] = "Passed" if case["bandwidth_matrix"] else "cut off"
        elif case:
            _read_line(case, line)
    if case:
        yield case


def _read_line(case: dict[str, Any], line: str) -> None:
    if WAIVED.match(line):
        case["status"] = "Waived"
    elif ERROR.match(line):
        case |= {"status": "Error", "error": line.strip()}
    elif hit := HEADING.match(line):
        case["bandwidth_description"] = hit["text"].strip()
    elif COLUMNS.match(line):
        return
    elif hit := ROW.match(line):
        case["bandwidth_matrix"].append(hit[1].split())
