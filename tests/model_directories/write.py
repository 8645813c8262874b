"""Writes model directories whose metadata is real and whose tensors are holes in sparse files.

python -m tests.model_directories.write DIRECTORY [MODEL...]
"""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.model_directories.definitions import Definition, Tensor
from tests.model_directories.models import MODELS, SIX

BYTES = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "U8": 1}


def size_bytes(tensor: Tensor) -> int:
    return BYTES[tensor[1]] * math.prod(tensor[2])


def write_model(directory: Path, definition: Definition) -> Path:
    """config.json, the shards with true headers, and the index; returns the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    _write_json(directory / "config.json", definition.config)
    tensors = list(definition.tensors())
    total = sum(map(size_bytes, tensors))
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(_shards(tensors, total, definition.shards), start=1):
        name = f"model-{number:05d}-of-{definition.shards:05d}.safetensors"
        _write_shard(directory / name, shard)
        weight_map |= {tensor[0]: name for tensor in shard}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    _write_json(directory / "model.safetensors.index.json", index)
    return directory


def _shards(tensors: Sequence[Tensor], total: int, count: int) -> list[list[Tensor]]:
    """In order, each of about the same number of bytes."""
    shards: list[list[Tensor]] = [[] for _ in range(count)]
    done = 0
    for tensor in tensors:
        shards[min(count - 1, done * count // total)].append(tensor)
        done += size_bytes(tensor)
    return shards


def _write_shard(path: Path, tensors: Sequence[Tensor]) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        name, dtype, shape = tensor
        end = offset + size_bytes(tensor)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)


def _write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Write the named models, or the six of the documentation, below the directory."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[2:] or SIX:
        print(write_model(Path(sys.argv[1]) / name, MODELS[name]))


if __name__ == "__main__":
    main()
