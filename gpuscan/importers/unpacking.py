"""What a named file or directory holds: text files by name, out of gzip, xz, zstd and tar; nothing
is written anywhere.
"""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

from gpuscan.errors import RecordingError
from gpuscan.recording import LARGEST_BYTES

MOST_FILES = 100_000  # /sys of a large node has fewer
PACKED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
ZSTD = b"\x28\xb5\x2f\xfd"
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, ValueError)

File = tuple[str, bytes]


def files(path: str) -> list[File]:
    """Return (name, bytes) of each file in *path*: a file by itself, a directory's or a tar's by
    their names in it.

    Raises RecordingError that says what is wrong with it.
    """
    if os.path.realpath(path) == "/":
        raise RecordingError(
            f"{path}: Is a directory, and no collection: name the folder in which a node's files were put"
        )
    if os.path.isdir(path):
        return _bounded(path, _directory(path))
    data = unpacked(path, _read(path))
    if data[257:262] == b"ustar":
        return _bounded(path, _tar(path, data))
    return [(path, data)]


def unpacked(path: str, data: bytes) -> bytes:
    """Return the bytes behind gzip, xz or bzip2, no more of them than a recording may have."""
    if data[:4] == ZSTD:
        return _of_zstd(path, data)
    opener = next((one for magic, one in PACKED.items() if data.startswith(magic)), None)
    if opener is None:
        return data
    try:
        with opener(io.BytesIO(data)) as file:
            return _bounded_read(path, file)
    except DAMAGED as error:
        raise RecordingError(f"{path}: damaged or cut off ({error}); copy it again") from None


def _of_zstd(path: str, data: bytes) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # Python 3.14
    except ImportError:
        raise RecordingError(
            f"{path}: packed with zstd, which this Python cannot read: unpack it first (zstd -d)"
        ) from None
    try:
        with zstd.ZstdFile(io.BytesIO(data)) as file:
            return _bounded_read(path, file)
    except Exception as error:  # its own error class is known to newer Pythons only  # noqa: BLE001
        raise RecordingError(f"{path}: damaged or cut off ({error}); copy it again") from None


def _bounded_read(path: str, file: IO[bytes]) -> bytes:
    data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise RecordingError(_too_large(path))
    return data


def _too_large(path: str) -> str:
    return (
        f"{path}: larger than {LARGEST_BYTES >> 20} MiB unpacked: give the part of it that matters"
    )


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return _bounded_read(path, file)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None


def _directory(path: str) -> Iterator[File]:
    """Yield the files below a directory; links are not followed, for they may lead out of it."""
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = os.path.join(folder, name)
            if os.path.isfile(file) and not os.path.islink(file):
                yield os.path.relpath(file, path), unpacked(file, _read(file))


def _tar(path: str, data: bytes) -> Iterator[File]:
    """Yield a tar's plain files; a name that leads out of it is refused, links and devices are
    passed over.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.name.startswith("/") or ".." in member.name.split("/"):
                    raise RecordingError(
                        f"{path}: its member {member.name!r:.80} leads out of the archive: pack it again without that"
                    )
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield member.name, unpacked(f"{path}: {member.name}", _bounded_read(path, file))
    except DAMAGED as error:
        raise RecordingError(f"{path}: damaged or cut off ({error}); copy it again") from None


def _bounded(path: str, found: Iterator[File]) -> list[File]:
    kept, size = list[File](), 0
    for name, data in found:
        size += len(data)
        if size > LARGEST_BYTES:
            raise RecordingError(_too_large(path))
        if len(kept) == MOST_FILES:
            raise RecordingError(
                f"{path}: more than {MOST_FILES} files: give the part of it that matters"
            )
        kept.append((name, data))
    return kept
