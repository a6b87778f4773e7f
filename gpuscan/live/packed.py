"""Files as they were before they were packed: gzip, xz, bzip2, zstd, UTF-16, a bounded piece at a
time.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from gpuscan.errors import RecordingError

BLOCK = 256 * 1024


class Damaged(Exception):
    """A packed file that ends too early or makes no sense."""


def unpacked(file: BinaryIO, name: str) -> tuple[Iterator[bytes], bool]:
    """Return a file's blocks, unpacked by what its first bytes say, and whether they are as they
    lie in the file.
    """
    first = _read(file, name)
    while first and len(first) < 8 and (more := _read(file, name)):
        first += more
    if first.startswith(b"LPKSHHRH"):
        raise RecordingError(
            f"{name}: a file of the journal: journalctl --file {name} -o short-precise | gpuscan log -"
        )
    blocks = _all(first, file, name)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        return (decoder.decode(block).encode("utf-8", "replace") for block in blocks), False
    unpack = next((way for magic, way in PACKED.items() if first.startswith(magic)), None)
    return (unpack(blocks, name), False) if unpack else (blocks, True)


def _read(file: BinaryIO, name: str) -> bytes:
    try:
        return file.read(BLOCK)
    except OSError as error:
        raise RecordingError(f"{name}: {error.strerror or error}") from None


def _all(first: bytes, file: BinaryIO, name: str) -> Iterator[bytes]:
    while first:
        yield first
        first = _read(file, name)


def _gzip(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    import zlib

    return _inflated(blocks, lambda: zlib.decompressobj(zlib.MAX_WBITS | 16), zlib.error)


def _xz(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    import lzma

    return _inflated(blocks, lzma.LZMADecompressor, lzma.LZMAError)


def _bzip2(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    import bz2

    return _inflated(blocks, bz2.BZ2Decompressor, OSError)


def _zstd(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    from importlib import import_module

    with suppress(ImportError):  # from Python 3.14 on
        zstd = import_module("compression.zstd")
        return _inflated(blocks, zstd.ZstdDecompressor, zstd.ZstdError)
    with suppress(ImportError):
        package = import_module("zstandard")
        return _inflated(
            blocks, lambda: package.ZstdDecompressor().decompressobj(), package.ZstdError
        )
    raise RecordingError(
        f"{name}: packed with zstd, which this Python cannot read: zstdcat {name} | gpuscan log -"
    )


PACKED: dict[bytes, Callable[[Iterable[bytes], str], Iterator[bytes]]] = {
    b"\x1f\x8b": _gzip,
    b"\xfd7zXZ\0": _xz,
    b"BZh": _bzip2,
    b"\x28\xb5\x2f\xfd": _zstd,
}


def _inflated(
    blocks: Iterable[bytes], make: Callable[[], Any], wrong: type[Exception]
) -> Iterator[bytes]:
    """Unpack member after member, a bounded piece at a time where the library lets us."""
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
                    data = b""  # padding behind the last member
    except wrong as error:
        raise Damaged(f"damaged: {error}") from None
    if not fresh and not getattr(unpacker, "eof", True):
        raise Damaged("cut off in its middle")


def _pieces(unpacker: Any, data: bytes) -> Iterator[bytes]:
    """Feed one block; what it blows up to comes in pieces."""
    if hasattr(unpacker, "unconsumed_tail"):  # zlib
        while data:
            piece = unpacker.decompress(data, BLOCK)
            if piece:
                yield piece
            data = unpacker.unconsumed_tail
        return
    if not hasattr(unpacker, "needs_input"):  # the zstandard package
        piece = unpacker.decompress(data)
        if piece:
            yield piece
        return
    piece = unpacker.decompress(data, BLOCK)
    yield from (piece,) if piece else ()
    while not unpacker.eof and not unpacker.needs_input:
        piece = unpacker.decompress(b"", BLOCK)
        yield from (piece,) if piece else ()
