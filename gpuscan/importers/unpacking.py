"""The files in an input: a file by itself, a directory's, a tar's; nothing is written anywhere."""

import io
import os
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO

from gpuscan.errors import RecordingError
from gpuscan.files import open_input, read_most
from gpuscan.recording import packed

MOST_FILES = 100_000  # /sys of a large node has fewer
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
ADVICE = "give the part of it that matters"

File = tuple[str, bytes]


def read_files(path: str) -> list[File]:
    """Return (name, bytes) of each file in *path*, unpacked.

    The files of a directory or a tar have their names in it. Raises RecordingError.
    """
    if os.path.realpath(path) == "/":
        raise RecordingError(
            f"{path}: is the root directory: give the directory in which a node's files were "
            "collected"
        )
    if os.path.isdir(path):
        return _limit(path, _walk(path))
    data = _unpack(path, _read(path))
    if data[TAR_MAGIC_AT : TAR_MAGIC_AT + len(TAR_MAGIC)] == TAR_MAGIC:
        return _limit(path, _read_tar(path, data))
    return [(path, data)]


def _unpack(path: str, data: bytes) -> bytes:
    try:
        data = packed.unpack(data, path)
    except packed.DamagedArchive as error:
        raise _damaged(path, error) from None
    if len(data) > packed.LARGEST_BYTES:
        raise _too_large(path)
    return data


def _read(path: str) -> bytes:
    try:
        with open_input(path) as file:
            return _read_open(path, file)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None


def _read_open(path: str, file: IO[bytes]) -> bytes:
    data = read_most(file, packed.LARGEST_BYTES)
    if len(data) > packed.LARGEST_BYTES:
        raise _too_large(path)
    return data


def _damaged(path: str, error: Exception) -> RecordingError:
    return RecordingError(f"{path}: damaged or cut off ({error}); copy it again")


def _too_large(path: str) -> RecordingError:
    return RecordingError(
        f"{path}: larger than {packed.LARGEST_BYTES >> 20} MiB unpacked: {ADVICE}"
    )


def _walk(path: str) -> Iterator[File]:
    """Yield the files below a directory; links are not followed, since they may lead out of it."""
    for directory, directories, names in os.walk(path):
        directories.sort()
        for name in sorted(names):
            file = os.path.join(directory, name)
            if os.path.isfile(file) and not os.path.islink(file):
                yield os.path.relpath(file, path), _unpack(file, _read(file))


def _read_tar(path: str, data: bytes) -> Iterator[File]:
    """Yield a tar's regular files; a name that leads out of it is refused, links are skipped."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.name.startswith("/") or ".." in member.name.split("/"):
                    raise RecordingError(
                        f"{path}: its member {member.name!r:.80} leads out of the archive: "
                        "pack it again without that member"
                    )
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    content = _read_open(path, file)
                    yield member.name, _unpack(f"{path}: {member.name}", content)
    except (OSError, EOFError, tarfile.TarError, ValueError) as error:
        raise _damaged(path, error) from None


def _limit(path: str, files: Iterable[File]) -> list[File]:
    """Return the files, at most MOST_FILES and LARGEST_BYTES; raises RecordingError beyond that."""
    kept, size = list[File](), 0
    for name, data in files:
        size += len(data)
        if size > packed.LARGEST_BYTES:
            raise _too_large(path)
        if len(kept) == MOST_FILES:
            raise RecordingError(f"{path}: more than {MOST_FILES} files: {ADVICE}")
        kept.append((name, data))
    return kept
