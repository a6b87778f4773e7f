"""Unpack files: gzip, xz, bzip2, zstd and UTF-16 text, in bounded pieces.

LARGEST_BYTES is the limit against bombs, for everything that is read as a whole.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from gpuscan.errors import RecordingError

LARGEST_BYTES = 256 * 1024 * 1024  # unpacked
BLOCK = 256 * 1024
GZIP, XZ, BZIP2, ZSTD = b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh", b"\x28\xb5\x2f\xfd"
JOURNAL = b"LPKSHHRH"


class Readable(Protocol):
    """What a file has that is only read."""

    def read(self, most: int, /) -> bytes:
        """Return the next bytes, b"" at the end."""


class DamagedArchive(Exception):
    """A packed file that ends too early or is not valid."""


def unpack(data: bytes, name: str, most: int | None = None) -> bytes:
    """Return the bytes in a packed file, the first *most* + 1 (by default LARGEST_BYTES) of
    them; others as they are.

    Raises DamagedArchive, and RecordingError for a format that this Python cannot read.
    """
    whole, damage = unpack_what_is_left(data, name, most)
    if damage:
        raise DamagedArchive(damage)
    return whole


def unpack_what_is_left(data: bytes, name: str, most: int | None = None) -> tuple[bytes, str]:
    """Return the bytes in a packed file up to where it is damaged, and what is wrong ("" if nothing
    is); the first *most* + 1 (by default LARGEST_BYTES), and others as they are.

    Raises RecordingError for a format that this Python cannot read.
    """
    limit = LARGEST_BYTES if most is None else most
    unpacker = _find_unpacker(data)
    if unpacker is None:
        return data, ""
    blocks = (data[start : start + BLOCK] for start in range(0, len(data), BLOCK))
    pieces, size, damage = [], 0, ""
    try:
        for piece in unpacker(blocks, name):
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                break
    except DamagedArchive as error:
        damage = str(error)
    return b"".join(pieces)[: limit + 1], damage


def unpack_file(file: Readable, name: str) -> tuple[Iterator[bytes], bool]:
    """Return a file's unpacked blocks, and whether they are as they lie in the file.

    Raises RecordingError for a file that cannot be read; the iterator raises DamagedArchive.
    """
    first = _read(file, name)
    while first and len(first) < 8 and (more := _read(file, name)):
        first += more
    if first.startswith(JOURNAL):
        raise RecordingError(
            f"{name}: a systemd journal file: run "
            f"journalctl --file {name} -o short-precise | gpuscan log -"
        )
    blocks = _all_blocks(first, file, name)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        return (decoder.decode(block).encode("utf-8", "replace") for block in blocks), False
    unpacker = _find_unpacker(first)
    return (unpacker(blocks, name), False) if unpacker else (blocks, True)


def _read(file: Readable, name: str) -> bytes:
    try:
        return file.read(BLOCK)
    except OSError as error:
        raise RecordingError(f"{name}: {error.strerror or error}") from None


def _all_blocks(first: bytes, file: Readable, name: str) -> Iterator[bytes]:
    while first:
        yield first
        first = _read(file, name)


def _unpack_gzip(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    import zlib

    return _inflate(blocks, lambda: zlib.decompressobj(zlib.MAX_WBITS | 16), zlib.error)


def _unpack_xz(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    import lzma

    return _inflate(blocks, lzma.LZMADecompressor, lzma.LZMAError)


def _unpack_bzip2(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    import bz2

    return _inflate(blocks, bz2.BZ2Decompressor, OSError)


def _unpack_zstd(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    from importlib import import_module

    with suppress(ImportError):  # from Python 3.14 on
        zstd = import_module("compression.zstd")
        return _inflate(blocks, zstd.ZstdDecompressor, zstd.ZstdError)
    with suppress(ImportError):
        package = import_module("zstandard")
        return _inflate(
            blocks, lambda: package.ZstdDecompressor().decompressobj(), package.ZstdError
        )
    raise RecordingError(
        f"{name}: packed with zstd, which this Python cannot read: unpack it first with zstd -d"
    )


Unpacker = Callable[[Iterable[bytes], str], Iterator[bytes]]
UNPACKERS: dict[bytes, Unpacker] = {
    GZIP: _unpack_gzip,
    XZ: _unpack_xz,
    BZIP2: _unpack_bzip2,
    ZSTD: _unpack_zstd,
}


def _find_unpacker(head: bytes) -> Unpacker | None:
    return next((unpack for magic, unpack in UNPACKERS.items() if head.startswith(magic)), None)


def _inflate(
    blocks: Iterable[bytes], make: Callable[[], Any], invalid: type[Exception]
) -> Iterator[bytes]:
    """Unpack one member after the other, in bounded pieces if the library can do that."""
    unpacker, fresh = make(), True
    try:
        for block in blocks:
            data = block
            while data:
                if getattr(unpacker, "eof", False):
                    unpacker, fresh = make(), True
                yield from _pieces(unpacker, data)
                fresh = False
                data = unpacker.unused_data if getattr(unpacker, "eof", False) else b""
                if data and not data.strip(b"\0"):
                    data = b""  # padding after the last member
    except invalid as error:
        raise DamagedArchive(f"damaged: {error}") from None
    if not fresh and not getattr(unpacker, "eof", True):
        raise DamagedArchive("cut off in the middle")


def _pieces(unpacker: Any, data: bytes) -> Iterator[bytes]:
    """Unpack one block in pieces of at most BLOCK bytes."""
    if hasattr(unpacker, "unconsumed_tail"):  # zlib
        while data:
            piece = unpacker.decompress(data, BLOCK)
            if piece:
                yield piece
            data = unpacker.unconsumed_tail
        return
    if not hasattr(unpacker, "needs_input"):  # the zstandard package has no limit
        piece = unpacker.decompress(data)
        if piece:
            yield piece
        return
    piece = unpacker.decompress(data, BLOCK)
    yield from (piece,) if piece else ()
    while not unpacker.eof and not unpacker.needs_input:
        piece = unpacker.decompress(b"", BLOCK)
        yield from (piece,) if piece else ()
