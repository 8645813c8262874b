"""Reads engine settings from words of a command line, as ``--engine max_num_seqs=256``."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from vllm_warden.core.model import SettingValue


def given_settings(words: Sequence[str]) -> dict[str, SettingValue]:
    """Values are JSON where they can be (256, 0.9, true, {...}), and text otherwise.

    Raises click.UsageError for a word without a name or value.
    """
    settings: dict[str, SettingValue] = {}
    for word in words:
        key, equals, text = word.partition("=")
        name = key.strip().removeprefix("--").replace("-", "_")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--engine takes KEY=VALUE, as max_num_seqs=256; not {word!r}")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        settings[name] = text if value is None else value
    return settings
