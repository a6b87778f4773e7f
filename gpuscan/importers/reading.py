"""Read any file or directory as a recording, each part by the importer that knows it."""

import codecs
import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuscan.errors import RecordingError
from gpuscan.importers import files, guards, naming, splitting, unpacking, wrapped
from gpuscan.importers.part import Part
from gpuscan.importers.registry import BY_NAME, readable
from gpuscan.kernellog import wrapping
from gpuscan.kernellog.keeping import count_kernel_lines
from gpuscan.recording import Imported, Meta, Reading, Recording
from gpuscan.recording.keys import IMPORTED_GPUS, UNREAD_LINES

BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
SAMPLE = 1 << 16  # bytes that show whether a file is text
QUOTED = 120  # characters of a file's first line in an error message
ELSEWHERE = (  # tables of nvidia-smi that are no Linux node's
    (
        re.compile(r"\| +Driver-Model +\||TCC/WDDM|\| +\d+ +\S.* (?:WDDM|TCC|MCDM) +\|"),
        "it is the table of nvidia-smi on Windows, and gpuscan judges nodes that run Linux",
    ),
    (
        re.compile(r"\(nvgpu\)|\bTegra\b"),
        "it is the table of nvidia-smi on a Jetson, whose GPU is no part of its own: it prints no "
        "state that could be judged",
    ),
)
MOST_NAMED = 3  # files in an error message
LOGS = ("kernel log", "Fabric Manager log")


class _ImportedFile(NamedTuple):
    name: str
    kinds: list[str]
    readings: list[Reading]
    unread: list[str]  # lines that were not understood


def recognise(name: str, data: bytes) -> list[Part]:
    """Return the parts of a file that an importer reads, in their order; [] if there are none.

    Raises RecordingError for lines of several nodes.
    """
    if data.startswith(UTF16):
        data = data.decode("utf-16", "replace").encode("utf-8", "replace")
    if not data.strip() or len(BINARY.findall(data[:SAMPLE])) > len(data[:SAMPLE]) // 100:
        return []
    text = data.decode("utf-8", "replace")
    path = files.original_path(name.replace(os.sep, "/"))
    if path:
        return [Part(files.IMPORTER.name, text, name, path)]
    text = wrapped.tidy(text)
    if splitting.is_bug_report(text):
        return splitting.split_text(name, text)
    found = wrapped.unwrap(text, _weigh)
    if found.names:
        raise RecordingError(f"{name}: {wrapping.several_nodes(found.names)}")
    return _split(name, found.text, said=found.said)


def _split(name: str, text: str, *, said: bool) -> list[Part]:
    """Return a text's parts; what a program *said* holds no log, for it only quotes the kernel."""
    parts = splitting.split_text(name, text)
    return [part for part in parts if not said or part.kind not in LOGS]


def _weigh(text: str, said: bool) -> int:
    """Return how much is read in a text: different facts, and lines of the kernel."""
    weight, facts = 0, set[str]()
    for part in _split("", text, said=said):
        if part.kind in LOGS:
            weight += count_kernel_lines(part.text.split("\n")) or -1  # the kernel wrote none of it
        else:
            facts.update(one.key for one in read_part(part) if one.error is None)
    return weight + len(facts)


def read_part(part: Part) -> list[Reading]:
    """Return the readings that a part's importer makes of it."""
    return BY_NAME[part.kind].readings(part)


def import_path(path: str) -> Recording:
    """Return what a file or directory contains as a recording.

    Raises RecordingError if no importer reads anything in it.
    """
    contents = unpacking.read_files(path)
    imported = [_import_file(name, data) for name, data in contents]
    kinds = tuple(dict.fromkeys(kind for file in imported for kind in file.kinds))
    if not kinds:
        raise RecordingError(_refusal(path, contents))
    unknown = tuple(file.name for file in imported if not file.kinds)
    readings = _merge_listings([reading for file in imported for reading in file.readings])
    readings = naming.unify_gpus(readings)
    unread = [line for file in imported for line in file.unread]
    notes = (guards.describe(unread),) if unread else ()
    about = Imported(kinds, unknown if len(contents) > 1 else (), notes)
    return Recording(Meta(fragment=" and ".join(kinds), imported=about), _scope(readings), readings)


def _import_file(name: str, data: bytes) -> _ImportedFile:
    kinds, made = list[str](), list[tuple[str, list[Reading]]]()
    unread: list[str] = []
    for part in recognise(name, data):
        own = read_part(part)
        for reading in own:
            unread += reading.value if reading.key == UNREAD_LINES else []
        unread += guards.unread_lines(part, own, read_part, is_log=part.kind in LOGS)
        unread += guards.unknown_errors(own)
        made.append((part.kind, [one for one in own if one.key != UNREAD_LINES]))
        kinds += [part.kind] if own else []
    return _ImportedFile(name, kinds, guards.settle(name, made), unread)


def _merge_listings(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings with one listing of each directory, of which parts may list some each."""
    listings: dict[str, list[str]] = {}
    for reading in readings:
        if _is_listing(reading):
            listings.setdefault(reading.key, []).extend(reading.value)
    merged = [Reading(key, list(dict.fromkeys(names))) for key, names in listings.items()]
    return [*merged, *(reading for reading in readings if not _is_listing(reading))]


def _is_listing(reading: Reading) -> bool:
    return reading.key.startswith("dir:") and reading.error is None


def _scope(readings: Iterable[Reading]) -> list[str]:
    """Return globs of what the input contains.

    A call that was made for every GPU is one glob; otherwise it is in the scope of those GPUs only.
    """
    by_call: dict[str, set[str]] = {}
    gpus: set[str] = set()
    exact: list[str] = []
    for reading in readings:
        call, _, rest = reading.key.partition("(")
        gpu, comma, arguments = rest.rstrip(")").partition(",")
        if reading.key == IMPORTED_GPUS:
            gpus = set(reading.value)
        if reading.key.startswith("nvml:nvmlDevice") and gpu and not gpu.isdecimal():
            by_call.setdefault(f"{call}(*{comma}{arguments})", set()).add(gpu)
        else:
            exact.append(reading.key)
    patterns = list(dict.fromkeys(exact))
    for pattern, names in by_call.items():
        if names >= gpus:
            patterns.append(pattern)
        else:
            patterns += [pattern.replace("*", name) for name in sorted(names)]
    return patterns


def _refusal(path: str, contents: Sequence[unpacking.File]) -> str:
    return (
        f"{path}: nothing in it that gpuscan can read: {_describe(contents)}; it reads {readable()}"
    )


def _describe(contents: Sequence[unpacking.File]) -> str:
    """Return what files look like that no importer reads."""
    if not any(data.strip() for _, data in contents):
        return "it is empty"
    data = contents[0][1]
    text = data.decode("utf-8", "replace")
    if BINARY.search(data[:4096]):
        return "it is binary data"
    if len(contents) > 1:
        names = ", ".join(name for name, _ in contents[:MOST_NAMED])
        return f"none of its {len(contents)} files ({names}, …) is known"
    for shape, sentence in ELSEWHERE:
        if shape.search(text):
            return sentence
    first = next((line for line in text.splitlines() if line.strip()), "")
    return f"it begins with {first.strip()[:QUOTED]!r}"
