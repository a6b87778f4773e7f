"""Recordings: every raw answer of one node; saved, loaded, patched and redacted."""

from gpuscan.recording.files import FORMAT, SCHEMA_VERSION, dump, is_json, load, restore, save
from gpuscan.recording.keys import FIRMWARE
from gpuscan.recording.meta import Imported, Meta, is_plausible_time
from gpuscan.recording.packed import LARGEST_BYTES
from gpuscan.recording.patch import patch
from gpuscan.recording.readings import NOT_RECORDED, Reading, Recording

__all__ = [
    "FIRMWARE",
    "FORMAT",
    "LARGEST_BYTES",
    "NOT_RECORDED",
    "SCHEMA_VERSION",
    "Imported",
    "Meta",
    "Reading",
    "Recording",
    "dump",
    "is_json",
    "is_plausible_time",
    "load",
    "patch",
    "restore",
    "save",
]
