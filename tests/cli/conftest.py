from __future__ import annotations

import os
import time

import pytest

from tests.api.conftest import server, start_server
from vllm_warden.cli.main import main

__all__ = ["server", "start_server"]


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("WARDEN_SOCKET", raising=False)
    monkeypatch.delenv("WARDEN_DEBUG", raising=False)
    time.tzset()
    yield
    os.environ.pop("TZ", None)
    time.tzset()


@pytest.fixture
def warden(capsys):
    """Run the program in this process: exit code, stdout, stderr."""

    def run(*words: str):
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
