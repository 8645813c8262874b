"""The commands find the socket of a ``serve`` where nobody named one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService
from vllm_warden.cli import find_socket


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A state home of its own, on a machine without the service."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(find_socket, "DEFAULT_SOCKET", str(tmp_path / "none.sock"))
    return tmp_path / "vllm-warden"


def place(home: Path, name: str, target: str) -> Path:
    directory = home / name
    directory.mkdir(parents=True)
    os.link(target, directory / "api.sock")
    return directory / "api.sock"


def test_the_only_live_one_is_used(home, server, warden):
    place(home, "tiny", server.path)
    stale = home / "old" / "api.sock"
    stale.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stale))
    (home / "odd").mkdir()
    (home / "odd" / "api.sock").write_text("no socket")

    code, out, _ = warden("status")
    assert (code, "minimax-m25" in out) == (0, True)


def test_of_several_none_is_taken_and_each_is_named_with_its_line(home, start_server, warden):
    path = start_server(lambda: FakeService(documents.status())).path
    found = [place(home, name, path) for name in ("a", "b")]

    code, _, err = warden("why")
    assert code == 2
    for each in found:
        assert f"vllm-warden --socket {each} why" in err


def test_where_none_lives_the_error_names_the_service_and_how_to_start_it(home, warden):
    code, _, err = warden("why")
    assert code == 3
    assert "none.sock: no such socket" in err
    assert "vllm-warden serve" in err


def test_a_user_without_a_home_gets_the_usual_error(home, warden, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert warden("why")[0] == 3
    code, _, err = warden("serve", "/m")
    assert (code, "--state-directory" in err) == (2, True)


def test_a_named_socket_is_never_replaced_by_a_found_one(home, server, warden):
    place(home, "tiny", server.path)

    assert warden("status", "--socket", "/nowhere/api.sock")[0] == 3
