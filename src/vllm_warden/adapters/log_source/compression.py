"""Decompresses a log by what its first bytes say, whatever its name is."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import zlib
from types import ModuleType
from typing import BinaryIO, Protocol, cast

MAGIC_BYTES = 8
_GZIP, _XZ, _BZIP2, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd"
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
"""What the decompressors of the standard library raise on data that is cut or no such data."""

_FOREIGN = {
    b"LPKSHHRH": (
        "it is a journal file",
        "journalctl --file FILE -o export | vllm-warden diagnose - (or --unit UNIT)",
    ),
    b"PK\x03\x04": (
        "it is a zip archive",
        "unpack it first: unzip -p FILE | vllm-warden diagnose -",
    ),
    b"7z\xbc\xaf": ("it is a 7z archive", "unpack it first"),
    b"\x7fELF": ("it is a program or a core dump", "give the engine's log"),
}


def foreign_format(begin: bytes) -> tuple[str, str] | None:
    """What this is instead of a log, and what to do; None for a log, compressed or not."""
    for magic, words in _FOREIGN.items():
        if begin.startswith(magic):
            return words
    if begin.startswith(_ZSTD) and _zstd() is None:
        return (
            "it is compressed with zstd, which needs Python 3.14",
            "unpack it first: zstd -dc FILE | vllm-warden diagnose -",
        )
    return None


class Readable(Protocol):
    """What all of them have: at most so many bytes, as soon as there are some."""

    def read1(self, size: int, /) -> bytes: ...


def decompressed(begin: bytes, stream: io.BufferedIOBase) -> Readable:
    """The stream itself where it is not compressed."""
    file = cast("BinaryIO", stream)
    if begin.startswith(_GZIP):
        return gzip.GzipFile(fileobj=file)
    if begin.startswith(_XZ):
        return lzma.LZMAFile(file)
    if begin.startswith(_BZIP2) and begin[3:4].isdigit():
        return bz2.BZ2File(file)
    zstd = _zstd() if begin.startswith(_ZSTD) else None
    return cast("Readable", zstd.open(file) if zstd else stream)


def _zstd() -> ModuleType | None:
    """The module of the standard library, which Python has from 3.14 on."""
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return None
