"""Finds a model on this disk and tells what the daemon needs to know of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from vllm_warden.adapters.model_directory.read import FILES_MAX, ModelFiles, read_model_directory
from vllm_warden.core.plan.memory_model.model import Model
from vllm_warden.core.plan.memory_model.read_shape import read_shape
from vllm_warden.core.plan.spec import ModelFacts

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+|[\w.-]+")
ARCHITECTURE = re.compile(r"[\w.]{1,200}")

NUMBER_MAX = 1 << 53
"""Whole numbers up to here are exact as floats; no real size is larger."""
HEADERS_LIMIT_SECONDS = 20.0
"""A disk that takes longer for the headers keeps nobody from starting: other sources do."""


class ModelDirectory:
    """Satisfies ``daemon.ports.ModelProbe``; files that did not change are not read again."""

    def __init__(self, hub_cache: Path | None = None) -> None:
        """``hub_cache`` is where Hugging Face keeps downloads ($HF_HUB_CACHE by default)."""
        self._hub_cache = hub_cache or _default_hub_cache()
        self._known: dict[Path, tuple[int, ModelFacts]] = {}

    def facts(self, model: str) -> ModelFacts:
        """Everything None for a model that is not on this disk, or not readable."""
        try:
            directory = self.directory(model)
            if directory is None:
                return ModelFacts()
            fingerprint = _fingerprint(directory)
            seen, facts = self._known.get(directory, (None, ModelFacts()))
            if seen != fingerprint:
                facts = _facts(read_model_directory(directory, HEADERS_LIMIT_SECONDS))
                self._known[directory] = (fingerprint, facts)
        except (OSError, ValueError):  # not ours to look at, or no path at all
            return ModelFacts()
        return facts

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


def _fingerprint(directory: Path) -> int:
    """Changes with every file that is added, removed or written. Raises OSError."""
    seen: list[tuple[str, int, int, int]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:  # a link to a download that is not complete
                seen.append((entry.name, 0, 0, 0))
                continue
            seen.append((entry.name, status.st_ino, status.st_size, status.st_mtime_ns))
            if len(seen) >= FILES_MAX:
                break
    return hash(tuple(sorted(seen)))


def _facts(files: ModelFiles) -> ModelFacts:
    size = files.checkpoint.total_bytes
    weights = size if 0 < size <= NUMBER_MAX else None
    if not files.config_hash:
        return ModelFacts(weight_bytes=weights)
    return _facts_of_config(files, weights)


def _facts_of_config(files: ModelFiles, weights: int | None) -> ModelFacts:
    """Multimodal models keep the language model's numbers in text_config or llm_config."""
    config = files.config
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
        config_hash=files.config_hash,
        weight_bytes=weights,
        vocab_size=_number(merged, "vocab_size"),
        max_position=_number(merged, "max_position_embeddings", "n_positions", "max_seq_len"),
        layers=_number(merged, "num_hidden_layers", "n_layer"),
        kv_heads=_number(merged, "num_key_value_heads", "num_kv_heads") or heads,
        head_dim=head_dim,
        architecture=first if isinstance(first, str) and ARCHITECTURE.fullmatch(first) else None,
        for_memory=Model(read_shape(config), files.checkpoint),
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
