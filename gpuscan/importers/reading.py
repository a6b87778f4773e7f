"""Read any file or directory as a recording, each part by the importer that knows it."""

import codecs
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from gpuscan.errors import RecordingError
from gpuscan.importers import files, guards, naming, nodes, ours, splitting, unpacking, wrapped
from gpuscan.importers.nodes import ImportedFile
from gpuscan.importers.part import Input, Part
from gpuscan.importers.registry import BY_NAME, readable
from gpuscan.kernellog import wrapping
from gpuscan.kernellog.keeping import count_kernel_lines
from gpuscan.recording import Imported, Meta, Reading, Recording
from gpuscan.recording.files import parse
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
MOST_MISSING = 8  # files in the notes on what was not read
MOST_NAMED = 3  # files in an error message
LOGS = ("kernel log", "Fabric Manager log")


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
    """Return the node that a file or directory contains as a recording.

    Raises RecordingError if no importer reads anything in it, or if it contains several nodes.
    """
    inputs = find_inputs(path)
    if len(inputs) > 1:
        named = ", ".join(one.name for one in inputs[:MOST_NAMED])
        more = ", \u2026" if len(inputs) > MOST_NAMED else ""
        raise RecordingError(
            f"{path}: it holds {len(inputs)} nodes ({named}{more}): "
            "give one of them, or judge them all with gpuscan judge"
        )
    return inputs[0].load()


def find_inputs(path: str) -> list[Input]:
    """Return the nodes in a file or directory: each recording, and what other tools wrote.

    Raises RecordingError if no importer reads anything in it.
    """
    contents = unpacking.read_files(path)
    single = len(contents) == 1 and contents[0].name == path
    recordings = [file for file in contents if ours.is_recording(file.data)]
    others = ours.foreign(contents)
    if contents and not recordings and not others:
        raise RecordingError(
            f"{path}: is gpuscan's own report, ticket or state, and no recording: give the "
            "recording that was judged"
        )
    imported = [_import_file(file) for file in others]
    made = list[Input]()
    if not recordings or any(file.kinds or file.missing for file in imported):
        if not any(file.kinds for file in imported) and not recordings:
            raise RecordingError(_refusal(path, others))
        groups = nodes.group_by_node(path, imported)
        made = [Input(group.name, partial(_record, group.files, single)) for group in groups]
    kept = [Input(file.name, partial(_restore, path, file)) for file in recordings]
    both = [*kept, *made]
    if left := ours.bug_reports(contents):
        both[0] = both[0]._replace(note=_not_judged(path, left))
    return [both[0]._replace(name="")] if len(both) == 1 else both


def _not_judged(path: str, reports: Sequence[str]) -> str:
    more = f" and {len(reports) - 1} more" if len(reports) > 1 else ""
    return (
        f"{path}: {reports[0]}{more} was not judged, only the recording of the same run: "
        "judge it by itself"
    )


def _restore(path: str, file: unpacking.File) -> Recording:
    name = path if file.name == path else f"{path}: {file.name}"
    if file.missing:
        raise RecordingError(f"{name}: {file.missing}: copy or record it again")
    return parse(file.data, name)


def _record(imported: Sequence[ImportedFile], single: bool) -> Recording:
    """Return the files of one node as a recording."""
    kinds = tuple(dict.fromkeys(kind for file in imported for kind in file.kinds))
    unknown = tuple(file.name for file in imported if not file.kinds and not file.missing)
    readings = _merge_listings([reading for file in imported for reading in file.readings])
    readings = naming.unify_gpus(readings)
    unread = [line for file in imported for line in file.unread]
    missing = [sentence for file in imported for sentence in file.missing]
    notes = (*((guards.describe(unread),) if unread else ()), *_named(missing))
    about = Imported(kinds, () if single else unknown, notes)
    return Recording(Meta(fragment=" and ".join(kinds), imported=about), _scope(readings), readings)


def _named(missing: Sequence[str]) -> Iterator[str]:
    """Yield what was not read, so no pass: the first by name, the rest by their number."""
    for sentence in missing[:MOST_MISSING]:
        yield f"not read, so no pass: {sentence}"
    if len(missing) > MOST_MISSING:
        yield f"not read, so no pass: {len(missing) - MOST_MISSING} further files"


def _import_file(file: unpacking.File) -> ImportedFile:
    """Return what is in a file. What no reader can bear is named, and costs no more than itself."""
    missing = [f"{file.name}: {file.missing}"] if file.missing else []
    try:
        return _import_parts(file, missing)
    except (RecordingError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # the border: input may be anything
        missing.append(f"{file.name}: it cannot be read ({type(error).__name__})")
        return ImportedFile(file.name, [], [], [], missing)


def _import_parts(file: unpacking.File, missing: list[str]) -> ImportedFile:
    kinds, made = list[str](), list[tuple[str, list[Reading]]]()
    unread: list[str] = []
    for part in recognise(file.name, file.data):
        try:
            own = read_part(part)
        except (RecordingError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  # the border: input may be anything
            missing.append(f"{file.name}: its {part.kind} makes no sense ({type(error).__name__})")
            kinds.append(part.kind)
            continue
        for reading in own:
            unread += reading.value if reading.key == UNREAD_LINES else []
        unread += guards.unread_lines(part, own, read_part, is_log=part.kind in LOGS)
        unread += guards.unknown_errors(own)
        made.append((part.kind, [one for one in own if one.key != UNREAD_LINES]))
        kinds += [part.kind] if own else []
    return ImportedFile(file.name, kinds, guards.settle(file.name, made), unread, missing)


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
    if not any(file.data.strip() for file in contents):
        missing = [f"{file.name}: {file.missing}" for file in contents if file.missing]
        return "; ".join(missing[:MOST_NAMED]) or "it is empty"
    data = contents[0].data
    text = data.decode("utf-8", "replace")
    if BINARY.search(data[:4096]):
        return "it is binary data"
    if len(contents) > 1:
        names = ", ".join(file.name for file in contents[:MOST_NAMED])
        return f"none of its {len(contents)} files ({names}, …) is known"
    for shape, sentence in ELSEWHERE:
        if shape.search(text):
            return sentence
    first = next((line for line in text.splitlines() if line.strip()), "")
    return f"it begins with {first.strip()[:QUOTED]!r}"
