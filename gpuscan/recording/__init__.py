"""Recordings: every raw answer of one node, saved, loaded, patched and redacted."""

from gpuscan.recording.recording import (
    FIRMWARE,
    FORMAT,
    LARGEST_BYTES,
    SCHEMA_VERSION,
    UNTOLD,
    Reading,
    Recording,
    dump,
    load,
    looks_like,
    moderate,
    patch,
    restore,
    save,
)

__all__ = [
    "FIRMWARE",
    "FORMAT",
    "LARGEST_BYTES",
    "SCHEMA_VERSION",
    "UNTOLD",
    "Reading",
    "Recording",
    "dump",
    "is_special",
    "load",
    "looks_like",
    "moderate",
    "patch",
    "restore",
    "save",
    "write_beside",
]
