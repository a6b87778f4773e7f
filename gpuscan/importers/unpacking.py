"""The files in an input: a file by itself, a directory's, a tar's; nothing is written anywhere.

What is there and was not read to its end is named: a verdict without it is no pass.
"""

import io
import os
import posixpath
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from gpuscan.errors import RecordingError
from gpuscan.files import open_input, read_most
from gpuscan.importers.files import original_path
from gpuscan.recording import packed

MOST_FILES = 100_000  # /sys of a large node has fewer
MOST_LINES = 2_500_000  # of one file: each costs ten microseconds, however short it is
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
STDIN = "-"
CHUNK = 1 << 20
ADVICE = "give the part of it that matters"


class File(NamedTuple):
    """One file, unpacked: its name in the directory or tar, its bytes, and what of it is *missing*
    ("" if nothing is).
    """

    name: str
    data: bytes
    missing: str = ""


def is_container(path: str) -> bool:
    """Return whether *path* is a directory, a tar (packed or not), or standard input, which may be
    one.
    """
    if path == STDIN or os.path.isdir(path):
        return True
    try:
        with open_input(path) as file:
            head = file.read(CHUNK)
        return _is_tar(packed.unpack_what_is_left(head, path)[0])
    except (OSError, RecordingError):
        return False


def _is_tar(data: bytes) -> bool:
    return data[TAR_MAGIC_AT : TAR_MAGIC_AT + len(TAR_MAGIC)] == TAR_MAGIC


def read_files(path: str) -> list[File]:
    """Return each file in *path*, unpacked; one that was not read is empty, and says why.

    The files of a directory or a tar have their names in it. Raises RecordingError.
    """
    if os.path.realpath(path) == "/":
        raise RecordingError(
            f"{path}: is the root directory: give the directory in which a node's files were "
            "collected"
        )
    if path != STDIN and os.path.isdir(path):
        return _limit(path, _walk(path))
    own = _unpack(path, path, _read(path))
    if _is_tar(own.data):
        return _limit(path, _read_tar(path, own.data, own.missing))
    if own.missing and not own.data:
        raise _damaged(path, own.missing.removeprefix("it is "))
    return [own]


def _unpack(path: str, name: str, data: bytes) -> File:
    data, damage = packed.unpack_what_is_left(data, path)
    if len(data) > packed.LARGEST_BYTES:
        raise _too_large(path)
    if data.count(b"\n") > MOST_LINES:
        raise RecordingError(f"{path}: more than {MOST_LINES} lines: {ADVICE}")
    return File(name, data, f"it is {damage}" if damage else "")


def _read(path: str) -> bytes:
    try:
        if path == STDIN:
            with open(0, "rb", closefd=False) as stdin:
                return _read_open(path, stdin)
        with open_input(path) as file:
            return _read_open(path, file)
    except MemoryError:
        raise _too_large(path) from None
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None


def _read_open(path: str, file: IO[bytes]) -> bytes:
    data = read_most(file, packed.LARGEST_BYTES)
    if len(data) > packed.LARGEST_BYTES:
        raise _too_large(path)
    return data


def _damaged(path: str, why: object) -> RecordingError:
    return RecordingError(f"{path}: damaged or cut off ({why}); copy it again")


def _too_large(path: str) -> RecordingError:
    return RecordingError(
        f"{path}: larger than {packed.LARGEST_BYTES >> 20} MiB unpacked: {ADVICE}"
    )


def _walk(path: str) -> Iterator[File]:
    """Yield the files below a directory; links are not followed, since they may lead out of it."""
    real = os.path.realpath(path)
    unread = list[File]()
    for directory, directories, names in os.walk(path, onerror=lambda e: unread.append(_hidden(e))):
        directories.sort()
        for name in sorted((*names, *directories)):
            file = os.path.join(directory, name)
            own = os.path.relpath(file, path)
            if os.path.islink(file):
                target = os.path.realpath(file)
                if not target.startswith(f"{real}/") or not os.path.exists(target):
                    yield from _passed_over(own, "it is a link that leads elsewhere")
            elif os.path.isfile(file):
                yield _unpack(file, own, _read(file))
            elif not os.path.isdir(file):
                yield from _passed_over(own, "it is no regular file")
    yield from unread


def _hidden(error: OSError) -> File:
    return File(str(error.filename), b"", f"it cannot be listed: {error.strerror}")


def _passed_over(name: str, why: str) -> Iterator[File]:
    """Yield what was not read, unless its name says that it is of /sys or /proc, where links are
    part of the structure.
    """
    if not original_path(name):
        yield File(name, b"", why)


def _read_tar(path: str, data: bytes, damage: str) -> Iterator[File]:
    """Yield a tar's regular files; a name that leads out of it is refused, links are skipped.

    tarfile takes a damaged header for the end: what stands behind the last member that it read must
    be zeros.
    """
    members = list[tarfile.TarInfo]()
    try:
        archive = tarfile.TarFile(fileobj=io.BytesIO(data))
    except Exception as error:  # noqa: BLE001  # tarfile lets many kinds through
        raise _damaged(path, error) from None
    try:
        for member in archive:
            _refuse_outside(path, member.name)
            members.append(member)
            if member.isreg():
                yield _member(path, archive, member, data)
    except RecordingError:
        raise
    except Exception as error:  # noqa: BLE001  # tarfile lets many kinds through
        damage = damage or str(error) or type(error).__name__
    end = data[archive.offset :]
    if not damage and (len(end) < tarfile.BLOCKSIZE or end.strip(b"\0")):
        damage = "a header is damaged, or the end is missing"
    if damage:
        yield File(os.path.basename(path), b"", f"damaged or cut off ({damage})")
    names = {posixpath.normpath(member.name) for member in members if not member.issym()}
    for member in members:
        if not member.isreg() and not member.isdir() and _target(member) not in names:
            yield from _passed_over(member.name, "it is a link or a device")


def _refuse_outside(path: str, name: str) -> None:
    if name.startswith("/") or ".." in name.split("/"):
        raise RecordingError(
            f"{path}: its member {name!r:.80} leads out of the archive: "
            "pack it again without that member"
        )


def _member(path: str, archive: tarfile.TarFile, member: tarfile.TarInfo, data: bytes) -> File:
    if not member.issparse():
        content = data[member.offset_data : member.offset_data + member.size]
    else:
        file = archive.extractfile(member)
        content = _read_open(path, file) if file else b""
    own = _unpack(f"{path}: {member.name}", member.name, content)
    return own._replace(missing="it is cut off") if len(content) < member.size else own


def _target(member: tarfile.TarInfo) -> str:
    """Return the name of what a link is a link to, "" for a device."""
    if member.islnk():
        return posixpath.normpath(member.linkname)
    if member.issym():
        return posixpath.normpath(posixpath.join(posixpath.dirname(member.name), member.linkname))
    return ""


def _limit(path: str, files: Iterable[File]) -> list[File]:
    """Return the files, at most MOST_FILES and LARGEST_BYTES; raises RecordingError beyond that."""
    kept, size = list[File](), 0
    for file in files:
        size += len(file.data)
        if size > packed.LARGEST_BYTES:
            raise _too_large(path)
        if len(kept) == MOST_FILES:
            raise RecordingError(f"{path}: more than {MOST_FILES} files: {ADVICE}")
        kept.append(file)
    return kept
