"""The compiled stand-in library, and the message where it cannot be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_warden.simulation.build import CannotBuild, nvml_library


def test_the_library_is_built_once(tmp_path: Path) -> None:
    first = nvml_library(tmp_path)
    built = first.stat().st_mtime_ns
    assert nvml_library(tmp_path) == first
    assert first.stat().st_mtime_ns == built


def test_without_a_compiler_the_message_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotBuild, match=r"^cannot build .*: no C compiler") as caught:
        nvml_library(tmp_path)
    assert "apt-get install gcc libc6-dev" in str(caught.value)
