"""The settings file as the daemon loaded it, and what of its later changes may be taken over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vllm_warden.config.edit import digest_of
from vllm_warden.config.errors import ConfigurationInvalid
from vllm_warden.config.load import load
from vllm_warden.config.settings import Configuration
from vllm_warden.config.translate import to_spec
from vllm_warden.core.model import SettingValue


@dataclass(slots=True)
class ConfigFile:
    """``digest`` names the state of the file that ``configuration`` was read from."""

    path: Path
    digest: str
    configuration: Configuration

    def take_engine(self, name: str, wanted: Mapping[str, SettingValue]) -> str | None:
        """Take over the engine table of one instance, where nothing else in the file has changed.

        Returns why not, None when the file asks for exactly ``wanted`` from now on.
        """
        try:
            digest = digest_of(self.path.read_bytes())
            now = load(self.path, os.environ)
        except (OSError, ConfigurationInvalid) as error:
            return f"cannot read {self.path}: {error}"
        entry = now.instance.get(name)
        if entry is None:
            return f"{self.path} has no instance {name} any more"
        if dict(to_spec(name, entry, {}).engine) != dict(wanted):
            return f"{self.path} does not ask for the settings in force"
        if _without_engine(now, name) != _without_engine(self.configuration, name):
            return f"{self.path} has changed elsewhere too since the daemon loaded it"
        self.digest, self.configuration = digest, now
        return None


def open_config_file(path: Path) -> ConfigFile:
    """Load it. Raises ConfigurationInvalid."""
    try:
        digest = digest_of(path.read_bytes())
    except OSError:
        digest = ""  # load() says it better
    return ConfigFile(path.absolute(), digest, load(path, os.environ))


def _without_engine(configuration: Configuration, name: str) -> dict[str, object]:
    document = configuration.model_dump()
    document["instance"].get(name, {}).pop("engine", None)
    return document
