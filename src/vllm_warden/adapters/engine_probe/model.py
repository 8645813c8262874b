"""Reads the few numbers of a model's config.json and the size of its weights."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from vllm_warden.core.plan.spec import ModelFacts

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+|[\w.-]+")
ARCHITECTURE = re.compile(r"[\w.]{1,200}")

FILE_BYTES_MAX = 64 << 20
"""The longest of these files, the index of a model of many thousand tensors, has a few MiB."""
NUMBER_MAX = 1 << 53
"""Whole numbers up to here are exact as floats; no real size is larger."""


class ModelDirectory:
    """Satisfies ``daemon.ports.ModelProbe``."""

    def __init__(self, hub_cache: Path | None = None) -> None:
        """``hub_cache`` is where Hugging Face keeps downloads ($HF_HUB_CACHE by default)."""
        self._hub_cache = hub_cache or _default_hub_cache()

    def facts(self, model: str) -> ModelFacts:
        """Everything None for a model that is not on this disk, or not readable."""
        try:
            directory = self.directory(model)
        except (OSError, ValueError):  # not ours to look at, or no path at all
            directory = None
        if directory is None:
            return ModelFacts()
        content = _content(directory / "config.json")
        config = _document(content)
        if config is None:
            return ModelFacts(weight_bytes=weight_bytes(directory))
        return _facts(config, hashlib.sha256(content).hexdigest(), weight_bytes(directory))

    def directory(self, model: str) -> Path | None:
        """Where the model lies on this disk, None where it does not. Raises OSError, ValueError."""
        local = Path(model)
        if local.is_dir():
            return local
        if not HUB_NAME.fullmatch(model) or model.startswith("."):
            return None
        repository = self._hub_cache / f"models--{model.replace('/', '--')}"
        try:
            commit = (repository / "refs" / "main").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
        if not re.fullmatch(r"[0-9a-f]{6,64}", commit):
            return None
        snapshot = repository / "snapshots" / commit
        return snapshot if snapshot.is_dir() else None


def weight_bytes(directory: Path) -> int | None:
    """Bytes of all tensors: the index's total_size, else the sizes of the weight files."""
    index = _document(_content(directory / "model.safetensors.index.json")) or {}
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, int | float) and 0 < total <= NUMBER_MAX:
        return int(total)
    for pattern in ("*.safetensors", "*.bin", "*.pt", "*.gguf"):
        try:
            sizes = [path.stat().st_size for path in directory.glob(pattern)]
        except OSError:
            return None
        if sizes:
            return sum(sizes)
    return None


def _content(path: Path) -> bytes:
    """Empty for what is no file of a sane size, or not ours to read."""
    try:
        if not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
            return b""
        return path.read_bytes()
    except OSError:
        return b""


def _document(content: bytes) -> dict[str, object] | None:
    """The JSON object, None for anything else: who made the model decides what is in its files."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _facts(config: Mapping[str, object], digest: str, weights: int | None) -> ModelFacts:
    """Multimodal models keep the language model's numbers in text_config or llm_config."""
    nested = next(
        (
            value
            for name in ("text_config", "llm_config", "language_config")
            if isinstance(value := config.get(name), dict)
        ),
        {},
    )
    merged = {**config, **nested}
    heads = _number(merged, "num_attention_heads", "n_head")
    hidden = _number(merged, "hidden_size", "n_embd")
    head_dim = _number(merged, "head_dim")
    if head_dim is None and heads and hidden:
        head_dim = hidden // heads
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    return ModelFacts(
        config_hash=digest,
        weight_bytes=weights,
        vocab_size=_number(merged, "vocab_size"),
        max_position=_number(merged, "max_position_embeddings", "n_positions", "max_seq_len"),
        layers=_number(merged, "num_hidden_layers", "n_layer"),
        kv_heads=_number(merged, "num_key_value_heads", "num_kv_heads") or heads,
        head_dim=head_dim,
        architecture=first if isinstance(first, str) and ARCHITECTURE.fullmatch(first) else None,
    )


def _number(config: Mapping[str, object], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= NUMBER_MAX:
            return value
    return None


def _default_hub_cache() -> Path:
    if explicit := os.environ.get("HF_HUB_CACHE"):
        return Path(explicit)
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    return Path(home) / "hub"
