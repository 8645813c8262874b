"""A settings file in a temporary directory, and what loading it says."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vllm_warden.config.errors import ConfigurationError, ConfigurationInvalid
from vllm_warden.config.load import load
from vllm_warden.config.settings import Configuration

LoadText = Callable[..., Configuration]
ErrorsOf = Callable[..., dict[str, ConfigurationError]]


@pytest.fixture
def load_text(tmp_path: Path) -> LoadText:
    def load_it(text: str, environ: Mapping[str, str] | None = None) -> Configuration:
        path = tmp_path / "config.toml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return load(path, environ or {})

    return load_it


@pytest.fixture
def errors_of(load_text: LoadText) -> ErrorsOf:
    """The errors by key; fails when the text is accepted."""

    def collect(
        text: str, environ: Mapping[str, str] | None = None
    ) -> dict[str, ConfigurationError]:
        with pytest.raises(ConfigurationInvalid) as raised:
            load_text(text, environ)
        return {error.key: error for error in raised.value.errors}

    return collect
