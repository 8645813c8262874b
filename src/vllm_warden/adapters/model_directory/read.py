"""Gathers what a model directory says about its own size, best source first."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from vllm_warden.adapters.model_directory.headers import UnreadableHeaderError, read_header
from vllm_warden.core.plan.memory_model.checkpoint import (
    Checkpoint,
    TensorGroup,
    WeightSource,
    group_tensors,
)
from vllm_warden.core.plan.memory_model.header_entries import count_entries

JSON_BYTES_MAX = 64 << 20
HEADERS_BYTES_MAX = 256 << 20
"""A thousand shards of a model of many experts have a tenth of it."""
FILES_MAX = 10_000
BYTES_MAX = 1 << 53
INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")
OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.gguf")
UNNAMED_FRACTION_MAX = 0.01
"""Of the bytes of the shards, how much may be no tensor that the headers name."""
DUPLICATES = ("consolidated", "original")
"""Mistral's and Meta's own format beside Hugging Face's: the same weights once more."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """``config`` is empty where config.json is missing or odd; ``problems`` name each oddity.

    ``config_hash`` is the SHA-256 of config.json, empty where that is no configuration.
    """

    config: Mapping[str, object] = field(default_factory=dict)
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(WeightSource.NOTHING))
    problems: tuple[str, ...] = ()
    config_hash: str = ""


def read_model_directory(directory: Path, limit_seconds: float = math.inf) -> ModelFiles:
    """Read headers and metadata only. Raises OSError where the directory cannot be listed.

    Where reading the headers takes longer than the limit, the next best source is taken.
    """
    deadline = time.monotonic() + limit_seconds
    names = sorted(path.name for path in directory.iterdir() if _is_of_weights(path.name))
    problems: list[str] = []
    if len(names) > FILES_MAX:
        problems.append(f"only the first {FILES_MAX} of its {len(names)} weight files are counted")
        names = [*names[:FILES_MAX], *({INDEX} & {*names[FILES_MAX:]})]
    content = _content(directory / "config.json", problems)
    config = None if content is None else _parsed("config.json", content, problems)
    digest = "" if config is None or content is None else hashlib.sha256(content).hexdigest()
    checkpoint = _checkpoint(directory, names, problems, deadline)
    return ModelFiles(config or {}, checkpoint, tuple(problems), digest)


def _is_of_weights(name: str) -> bool:
    patterns = ("*.safetensors", INDEX, *OTHER_FORMATS)
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _checkpoint(
    directory: Path, names: list[str], problems: list[str], deadline: float
) -> Checkpoint:
    shards = [name for name in names if name.endswith(".safetensors")]
    shards = [name for name in shards if not name.startswith(DUPLICATES)] or shards
    lacking = _lacking(directory, shards, names)
    if lacking:
        problems.append(lacking)
    elif shards:
        groups = _from_headers(directory, shards, problems, deadline)
        size = sum(group.total_bytes for group in groups)
        if size:
            return Checkpoint(WeightSource.HEADERS, size, groups, len(shards))
    index = _index(directory, names, problems)
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, int | float) and 0 < total < BYTES_MAX:
        return Checkpoint(WeightSource.INDEX, int(total), files=len(shards))
    if lacking:  # the size of a part says nothing of the whole
        return Checkpoint(WeightSource.NOTHING)
    return _by_file_size(directory, shards, names, problems)


def _from_headers(
    directory: Path, shards: list[str], problems: list[str], deadline: float
) -> tuple[TensorGroup, ...]:
    """Nothing unless the headers of all shards can be read: a part of the tensors misleads."""
    headers = _Headers(directory, shards, deadline)
    try:
        groups = group_tensors(count_entries(headers.one_by_one()))
    except _HeaderProblemError as problem:
        problems.append(str(problem))
        return ()
    except (ValueError, RecursionError):
        problems.append(
            f"the header of {_shown(headers.name)} is not JSON: the engine will refuse it; "
            "download it again"
        )
        return ()
    return _plausible(groups, headers.tensor_bytes, problems)


def _lacking(directory: Path, shards: list[str], names: list[str]) -> str:
    """Which shards are missing, empty where none is known to be."""
    if _is_complete(names):
        return ""
    expected = _shards_of(_index(directory, names, []))
    if missing := len(expected - set(shards)):
        return f"{missing} of the {len(expected)} shards of the index are missing"
    parts = [match for name in shards if (match := _NUMBERED.fullmatch(name))]
    whole = max((int(part[2]) for part in parts), default=0)
    if expected or len(parts) < len(shards) or whole <= len(parts):
        return ""
    return f"{whole - len(parts)} of the {whole} shards are missing by the names of the others"


class _HeaderProblemError(Exception):
    """Why the headers are not read; the message is for a person."""


class _Headers:
    """The headers of all shards, read one at a time: together they take tens of MiB.

    ``tensor_bytes`` is what the shards hold beside the headers read so far, ``name`` the newest.
    """

    def __init__(self, directory: Path, shards: list[str], deadline: float) -> None:
        self.tensor_bytes = 0
        self.name = ""
        self._directory = directory
        self._shards = shards
        self._deadline = deadline

    def one_by_one(self) -> Iterator[bytes]:
        """Raises _HeaderProblemError."""
        header_bytes = 0
        for name in self._shards:
            self.name = name
            if time.monotonic() > self._deadline:
                raise _HeaderProblemError("reading the headers of the weights takes too long")
            try:
                header = read_header(self._directory / name)
                held_bytes = (self._directory / name).stat().st_size
            except (OSError, UnreadableHeaderError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                text = f"cannot read the header of {_shown(name)}: {reason}"
                raise _HeaderProblemError(text) from None
            header_bytes += 8 + len(header)
            if header_bytes > HEADERS_BYTES_MAX:
                raise _HeaderProblemError("the headers of the shards are too large to be any")
            self.tensor_bytes += held_bytes - 8 - len(header)
            yield header


def _plausible(
    groups: tuple[TensorGroup, ...], held_bytes: int, problems: list[str]
) -> tuple[TensorGroup, ...]:
    """Nothing where the files hold much that the headers do not name, or could never hold it."""
    named_bytes = sum(group.total_bytes for group in groups)
    if not groups:
        problems.append("the headers name no tensor of a known type")
    elif named_bytes >= BYTES_MAX:
        problems.append("the headers name more than any disk holds")
        return ()
    elif named_bytes > held_bytes:
        problems.append(
            f"the shards hold {held_bytes:,} of the {named_bytes:,} bytes that their headers name: "
            "the engine will refuse them; download them again"
        )
    elif held_bytes - named_bytes > max(1 << 20, UNNAMED_FRACTION_MAX * held_bytes):
        problems.append(
            f"the headers name {named_bytes:,} of the {held_bytes:,} bytes of the shards: "
            "the rest is of an unknown type"
        )
        return ()
    return groups


def _shards_of(index: Mapping[str, object]) -> set[str]:
    weight_map = index.get("weight_map")
    values = weight_map.values() if isinstance(weight_map, dict) else ()
    return {value for value in values if isinstance(value, str)}


def _shown(name: str) -> str:
    """A name of a file may hold line ends, escape sequences, and bytes that are no text."""
    return name if name.isprintable() else ascii(name)


def _by_file_size(
    directory: Path, shards: list[str], names: list[str], problems: list[str]
) -> Checkpoint:
    files = shards
    for pattern in OTHER_FORMATS:
        files = files or [name for name in names if fnmatchcase(name, pattern)]
    sizes = []
    for name in files:
        try:
            sizes.append((directory / name).stat().st_size)
        except OSError as error:
            problems.append(f"cannot read the size of {_shown(name)}: {error.strerror}")
    if sum(sizes):
        return Checkpoint(WeightSource.FILES, sum(sizes), files=len(files))
    problems.append("there are no weight files")
    return Checkpoint(WeightSource.NOTHING)


def _index(directory: Path, names: list[str], problems: list[str]) -> Mapping[str, object]:
    """Empty where there is none."""
    return (_object(directory / INDEX, problems) or {}) if INDEX in names else {}


def _is_complete(names: list[str]) -> bool:
    """True when the names of the shards themselves say that none is missing.

    The index of a model of many experts has ten MiB; nothing else in it is of use then.
    """
    parts = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    return bool(parts) and {int(part[2]) for part in parts} == {len(parts)}


def _object(path: Path, problems: list[str]) -> dict[str, object] | None:
    content = _content(path, problems)
    return None if content is None else _parsed(path.name, content, problems)


def _content(path: Path, problems: list[str]) -> bytes | None:
    try:
        if not path.is_file():
            problems.append(f"there is no {path.name}")
            return None
        if path.stat().st_size > JSON_BYTES_MAX:
            problems.append(f"{path.name} is too large to be one")
            return None
        return path.read_bytes()
    except OSError as error:
        problems.append(f"cannot read {path.name}: {error.strerror}")
        return None


def _parsed(name: str, content: bytes, problems: list[str]) -> dict[str, object] | None:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        problems.append(f"{name} is not JSON")
        return None
    if not isinstance(document, dict):
        problems.append(f"{name} is no JSON object")
        return None
    return document
