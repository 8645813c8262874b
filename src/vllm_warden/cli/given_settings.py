"""Reads engine settings from words of a command line, as ``--engine max_num_seqs=256``."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence

import click

from vllm_warden.core.model import SettingValue
from vllm_warden.core.plan.option_names import is_option_name

_READ = (
    "data_parallel_size",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "pipeline_parallel_size",
    "tensor_parallel_size",
)
"""The settings that advice rests on: a slip of the pen in one of them would go unseen."""
_SLIP_SIMILARITY = 0.9


def given_settings(words: Sequence[str], option: str = "--engine") -> dict[str, SettingValue]:
    """Values are JSON where they can be (256, 0.9, true, {...}), and text otherwise.

    Raises click.UsageError for a word without a name or value, and for a name that is all but
    one that advice rests on.
    """
    settings: dict[str, SettingValue] = {}
    for word in words:
        key, equals, text = word.partition("=")
        name = key.strip().removeprefix("--").replace("-", "_")
        if not equals or not is_option_name(name):
            raise click.UsageError(f"{option} takes KEY=VALUE, as max_num_seqs=256; not {word!r}")
        meant = difflib.get_close_matches(name, _READ, 1, _SLIP_SIMILARITY)
        if meant and meant[0] != name:
            raise click.UsageError(f"{option} knows no setting {name}; do you mean {meant[0]}?")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        settings[name] = text if value is None else value
    return settings
