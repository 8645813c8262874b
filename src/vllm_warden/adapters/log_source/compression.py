"""Decompresses a log by what its first bytes say, whatever its name is."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import zlib
from types import ModuleType
from typing import BinaryIO, cast

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


def decompressed(begin: bytes, stream: BinaryIO) -> BinaryIO:
    """The stream itself where it is not compressed."""
    if begin.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream))
    if begin.startswith(_XZ):
        return cast("BinaryIO", lzma.LZMAFile(stream))
    if begin.startswith(_BZIP2) and begin[3:4].isdigit():
        return cast("BinaryIO", bz2.BZ2File(stream))
    zstd = _zstd() if begin.startswith(_ZSTD) else None
    return cast("BinaryIO", zstd.open(stream) if zstd else stream)


def _zstd() -> ModuleType | None:
    """The module of the standard library, which Python has from 3.14 on."""
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return None
