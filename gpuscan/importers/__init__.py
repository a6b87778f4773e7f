"""Other tools' output, logs and files as recordings: the same readings that a scan makes, and a
scope that says what is missing.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence

from gpuscan.errors import RecordingError
from gpuscan.importers import (
    applications,
    files,
    infiniband,
    logs,
    lspci,
    naming,
    services,
    shapes,
    smi_csv,
    smi_errors,
    smi_links,
    smi_query,
    smi_table,
    smi_xml,
    splitting,
    unpacking,
)
from gpuscan.importers.part import TOLD_GPUS, Part
from gpuscan.recording import Imported, Meta, Reading, Recording

__all__ = ["IMPORTERS", "Part", "imported", "readings", "recognise"]

IMPORTERS: dict[str, Callable[[Part], list[Reading]]] = {
    shapes.SMI_ERROR: smi_errors.readings,
    shapes.SMI_QUERY: smi_query.readings,
    shapes.SMI_XML: smi_xml.readings,
    shapes.SMI_CSV: smi_csv.readings,
    shapes.SMI_TABLE: smi_table.readings,
    shapes.SMI_LIST: smi_links.listed,
    shapes.SMI_TOPO: smi_links.topology,
    shapes.LSPCI: lspci.readings,
    shapes.IB: infiniband.readings,
    shapes.SERVICE: services.readings,
    shapes.APPLICATION: applications.readings,
    shapes.FILES: files.readings,
    shapes.KERNEL: logs.readings,
    shapes.FABRIC_MANAGER: logs.readings,
}
READABLE = (
    "gpuscan recordings, nvidia-bug-report.log(.gz), the output of nvidia-smi (table, -q, -x, -L, --query-…, nvlink, topo), lspci, "
    "ibstat, ibstatus, ibv_devinfo and systemctl status, kernel and Fabric Manager logs, files of /sys and /proc, "
    "and a directory or tar of these"
)
IN_TREE = re.compile(r"(?:^|/)((?:sys|proc)/.+)$")
IB_FILE = re.compile(r"(?:^|/)([a-z]+\w*_\d+/(?:ports/\d+/.+|fw_ver|board_id|hca_type|node_guid))$")
BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
KEPT = 120  # characters of what a file begins with, for the message


def recognise(name: str, data: bytes) -> list[Part]:
    """Return the parts of a file that an importer knows, in their order; none where nothing in it
    is known.

    None of what gpu_burn printed, either: it begins with a list of GPUs, and that alone would be
    judged and pass.
    """
    if not data.strip() or len(BINARY.findall(data[: 1 << 16])) > len(data[: 1 << 16]) // 100:
        return []
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace")
    if shapes.OF_GPU_BURN.search(text):
        return []
    place = IN_TREE.search(name.replace(os.sep, "/"))
    hca = IB_FILE.search(name.replace(os.sep, "/"))
    if place or hca:
        path = f"/{place[1]}" if place else f"/sys/class/infiniband/{hca[1]}"  # type: ignore[index]
        return [Part(shapes.FILES, text, name, path)]
    return splitting.parts_of(name, text)


def readings(part: Part) -> list[Reading]:
    """Return the readings that a part's importer makes of it."""
    return IMPORTERS[part.kind](part)


def imported(path: str) -> Recording:
    """Return what a file or directory tells as a recording; raises RecordingError where it holds
    nothing known.
    """
    found, told, unknown = list[Reading](), list[str](), list[str]()
    contents = unpacking.read_files(path)
    for name, data in contents:
        made = [(part, readings(part)) for part in recognise(name, data)]
        found += [reading for _, some in made for reading in some]
        told += [part.kind for part, some in made if some]
        unknown += [] if any(some for _, some in made) else [name]
    if not told:
        raise RecordingError(_refusal(path, contents))
    kinds = list(dict.fromkeys(told))
    kept = naming.joined(_together(found))
    about = Imported(tuple(kinds), tuple(unknown) if len(contents) > 1 else ())
    return Recording(Meta(fragment=" and ".join(kinds), imported=about), _scope(kept), kept)


def _together(found: Sequence[Reading]) -> list[Reading]:
    """Return the readings with one listing of each directory: parts that list some of it add up."""
    listings: dict[str, list[str]] = {}
    for reading in found:
        if reading.key.startswith("dir:"):
            listings.setdefault(reading.key, []).extend(reading.value)
    kept = [reading for reading in found if not reading.key.startswith("dir:")]
    return [*(Reading(key, list(dict.fromkeys(names))) for key, names in listings.items()), *kept]


def _scope(kept: Iterable[Reading]) -> list[str]:
    """Return patterns of what the input tells: a GPU of which a part tells less is outside of
    that part's scope.
    """
    by_call: dict[str, set[str]] = {}
    gpus: set[str] = set()
    exact: list[str] = []
    for reading in kept:
        call, _, rest = reading.key.partition("(")
        gpu, comma, arguments = rest.rstrip(")").partition(",")
        if reading.key == TOLD_GPUS:
            gpus = set(reading.value)
        if reading.key.startswith("nvml:nvmlDevice") and gpu and not gpu.isdecimal():
            by_call.setdefault(f"{call}(*{comma}{arguments})", set()).add(gpu)
        else:
            exact.append(reading.key)
    patterns = list(dict.fromkeys(exact))
    for pattern, names in by_call.items():
        patterns += (
            [pattern] if names >= gpus else [pattern.replace("*", name) for name in sorted(names)]
        )
    return patterns


def _refusal(path: str, contents: Sequence[unpacking.File]) -> str:
    data = contents[0][1] if contents else b""
    if not contents or not any(one.strip() for _, one in contents):
        looks = "it is empty"
    elif BINARY.search(data[:4096]):
        looks = "it is binary data"
    elif len(contents) == 1 and shapes.OF_GPU_BURN.search(data.decode("utf-8", "replace")):
        looks = "it has what gpu_burn prints (gpuscan run --level long runs gpu_burn and judges it)"
    elif len(contents) > 1:
        looks = f"none of its {len(contents)} files ({', '.join(name for name, _ in contents[:3])}, …) is known"
    else:
        first = next(
            (line for line in data.decode("utf-8", "replace").splitlines() if line.strip()), ""
        )
        looks = f"it begins with {first.strip()[:KEPT]!r}"
    return f"{path}: nothing in it that gpuscan can read: {looks}; it reads {READABLE}"
