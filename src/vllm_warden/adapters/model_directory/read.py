"""Gathers what a model directory says about its own size, best source first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
FILES_MAX = 10_000
BYTES_MAX = 1 << 53
INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")
OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.gguf")
DUPLICATES = ("consolidated", "original")
"""Mistral's and Meta's own format beside Hugging Face's: the same weights once more."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """``config`` is empty where config.json is missing or odd; ``problems`` name each oddity."""

    config: Mapping[str, object] = field(default_factory=dict)
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(WeightSource.NOTHING))
    problems: tuple[str, ...] = ()


def read_model_directory(directory: Path) -> ModelFiles:
    """Read headers and metadata only. Raises OSError where the directory cannot be listed."""
    names = sorted(path.name for path in directory.iterdir())[:FILES_MAX]
    problems: list[str] = []
    config = _object(directory / "config.json", problems)
    return ModelFiles(config or {}, _checkpoint(directory, names, problems), tuple(problems))


def _checkpoint(directory: Path, names: list[str], problems: list[str]) -> Checkpoint:
    shards = [name for name in names if name.endswith(".safetensors")]
    shards = [name for name in shards if not name.startswith(DUPLICATES)] or shards
    if shards:
        groups = _from_headers(directory, shards, names, problems)
        size = sum(group.total_bytes for group in groups)
        if size:
            return Checkpoint(WeightSource.HEADERS, size, groups, len(shards))
    index = _index(directory, names, problems)
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, int | float) and 0 < total < BYTES_MAX:
        return Checkpoint(WeightSource.INDEX, int(total), files=len(shards))
    return _by_file_size(directory, shards, names, problems)


def _from_headers(
    directory: Path, shards: list[str], names: list[str], problems: list[str]
) -> tuple[TensorGroup, ...]:
    """Nothing unless the headers of all shards can be read: a part of the tensors misleads."""
    if not _is_complete(names):
        weight_map = _index(directory, names, []).get("weight_map")
        expected = set(weight_map.values()) if isinstance(weight_map, dict) else set()
        missing = len(expected - set(shards))
        if missing:
            problems.append(f"{missing} of the {len(expected)} shards of the index are missing")
            return ()
    headers: list[bytes] = []
    for name in shards:
        try:
            headers.append(read_header(directory / name))
        except (OSError, UnreadableHeaderError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problems.append(f"cannot read the header of {name}: {reason}")
            return ()
    groups = _groups(headers, problems)
    if not groups:
        problems.append("the headers name no tensor of a known type")
    return groups


def _groups(headers: list[bytes], problems: list[str]) -> tuple[TensorGroup, ...]:
    try:
        return group_tensors(count_entries(headers))
    except (ValueError, RecursionError):
        problems.append("the header of a shard is not JSON")
        return ()


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
            problems.append(f"cannot read the size of {name}: {error.strerror}")
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
    try:
        if not path.is_file():
            problems.append(f"there is no {path.name}")
            return None
        if path.stat().st_size > JSON_BYTES_MAX:
            problems.append(f"{path.name} is too large to be one")
            return None
        document = json.loads(path.read_bytes())
    except OSError as error:
        problems.append(f"cannot read {path.name}: {error.strerror}")
        return None
    except (ValueError, RecursionError):
        problems.append(f"{path.name} is not JSON")
        return None
    if not isinstance(document, dict):
        problems.append(f"{path.name} is no JSON object")
        return None
    return document
