"""The nodes in a directory or tar: each recording is one, and what other tools wrote may be of
several.
"""

import posixpath
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from gpuscan.errors import RecordingError
from gpuscan.importers import guards
from gpuscan.kernellog.lines import parse_lines
from gpuscan.kernellog.wrapping import hosts_apart
from gpuscan.recording import Reading

# of these one node has many: a file for each port, GPU or program
MANY_EACH = ("sysfs", "mlxlink", "application log", "NCCL warnings", "systemctl status")

MOST_COMPARED = 200  # files of one name


class ImportedFile(NamedTuple):
    """What was made of a file: the kinds of its parts, their readings, and what was not read."""

    name: str
    kinds: list[str]
    readings: list[Reading]
    unread: list[str]  # lines that were not understood
    missing: list[str]  # sentences on what is damaged or was passed over


class Group(NamedTuple):
    """The files of one node, and the directory ("" for the whole input) that they lie in."""

    name: str
    files: list[ImportedFile]


def group_by_node(path: str, files: Sequence[ImportedFile]) -> list[Group]:
    """Return the files of each node in an input.

    Two directories that hold a file of one name and kind are two nodes (nodeA/dmesg.txt and
    nodeB/dmesg.txt), as are those that name other hosts or other GPUs. Raises RecordingError where
    files of several nodes lie in one directory.
    """
    places = _alike_places(files)
    groups = _assign(files, places)
    if len(groups) == 1 and _tells_apart(files):
        tops = {file.name.partition("/")[0] for file in files if "/" in file.name}
        groups = _assign(files, tops)
    for group in groups:
        if apart := _tells_apart(group.files):
            place = posixpath.join(path, group.name) if group.name else path
            raise RecordingError(
                f"{place}: it holds files of several nodes ({apart}): "
                "put those of each node into a directory of its own, or judge them one at a time"
            )
    return groups


def _alike_places(files: Iterable[ImportedFile]) -> set[str]:
    """Return the directories that hold files of the same name and kind."""
    alike: dict[tuple[str, str], list[str]] = {}
    for file in files:
        for kind in file.kinds:
            if kind not in MANY_EACH:
                alike.setdefault((posixpath.basename(file.name), kind), []).append(file.name)
    places = set[str]()
    for names in alike.values():
        for one, other in combinations(sorted(set(names))[:MOST_COMPARED], 2):
            places |= {_unlike(one, other), _unlike(other, one)}
    return places - {""}


def _unlike(name: str, other: str) -> str:
    """Return the directory of *name* without the end that it has in common with *other*."""
    own, theirs = name.split("/"), other.split("/")
    while own and theirs and own[-1] == theirs[-1]:
        own.pop()
        theirs.pop()
    return "/".join(own)


def _assign(files: Iterable[ImportedFile], places: Iterable[str]) -> list[Group]:
    """Return a group for each place with what lies below it, and one for the rest.

    What no importer knows makes no group of its own.
    """
    deepest_first = sorted(places, key=lambda place: place.count("/"), reverse=True)
    by_place: dict[str, list[ImportedFile]] = {}
    for file in files:
        place = next((one for one in deepest_first if file.name.startswith(f"{one}/")), "")
        by_place.setdefault(place, []).append(file)
    known = {place: own for place, own in by_place.items() if any(file.kinds for file in own)}
    if not known:
        return [Group("", [file for own in by_place.values() for file in own])]
    first = next(iter(known))
    for place, own in by_place.items():
        if place not in known:
            known[first] = [*known[first], *own]
    return [Group(place, own) for place, own in known.items()]


def _tells_apart(files: Iterable[ImportedFile]) -> str:
    """Return what shows that files are of several nodes: their hosts, or serials in one place."""
    hosts = list[str]()
    parts: dict[str, object] = {}
    for reading in (one for file in files for one in file.readings if one.error is None):
        if reading.key.startswith("log:"):
            lines = (str(line) for _, line in reading.value["lines"])
            hosts += [record.host for record in parse_lines(lines) if record.kernel]
            continue
        if not guards.IDENTITY.match(reading.key):
            continue
        known = parts.setdefault(reading.key, reading.value)
        if known != reading.value:
            return f"{reading.key}: {known}, then {reading.value}"
    apart = hosts_apart(dict.fromkeys(hosts))
    return ", ".join(apart[:4]) if len(apart) > 1 else ""
