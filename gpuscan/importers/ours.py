"""gpuscan's own files: a recording, or what lies beside one (report, ticket, state, evidence)."""

import json
import posixpath
import re
from collections.abc import Iterable

from gpuscan.importers.unpacking import File

HEAD_BYTES = 1 << 16
RECORDING = re.compile(rb'^\s*\{[^\0]{0,4096}?"format"\s*:\s*"gpuscan-recording"')
# a report, an evidence folder's manifest, last.json, status.json: all name the version or verdict
DOCUMENT = re.compile(
    rb'^\s*[\[{]\s*\{?\s*"schema_version"\s*:[^\0]{0,4096}?'
    rb'"(?:gpuscan_version|verdict|exit_code|machine)"\s*:'
)
TEXT = re.compile(
    rb"gpuscan \d+\.\d+\S*  \S|# Ticket: |<testsuites? name=\"gpuscan|SQLite format 3\0"
)
MANIFEST = "MANIFEST.json"
BUG_REPORT = "nvidia-bug-report.log"


def is_recording(data: bytes) -> bool:
    """Return whether a file is a recording, whole or cut off."""
    return RECORDING.match(data[:HEAD_BYTES]) is not None


def is_output(data: bytes) -> bool:
    """Return whether a file is something else that gpuscan wrote."""
    head = data[:HEAD_BYTES]
    return DOCUMENT.match(head) is not None or TEXT.match(head) is not None


def foreign(files: Iterable[File]) -> list[File]:
    """Return the files that are not gpuscan's own.

    In an evidence folder all that its manifest lists (NVIDIA's bug report, too) belongs to the run
    whose recording lies there.
    """
    files = list(files)
    listed = _all_listed(files)
    return [
        file
        for file in files
        if not is_recording(file.data) and not is_output(file.data) and file.name not in listed
    ]


def bug_reports(files: Iterable[File]) -> list[str]:
    """Return the names of NVIDIA's bug reports that `foreign` leaves to their run's recording."""
    files = list(files)
    listed = _all_listed(files)
    named = [file.name for file in files if file.name in listed]
    return [name for name in named if posixpath.basename(name).startswith(BUG_REPORT)]


def _all_listed(files: Iterable[File]) -> set[str]:
    return {name for file in files for name in _listed(file)}


def _listed(file: File) -> list[str]:
    folder, name = posixpath.split(file.name)
    if name != MANIFEST or not is_output(file.data):
        return []
    try:
        rows = json.loads(file.data)["files"]
        return [posixpath.join(folder, str(row["name"])) for row in rows if "name" in row]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
