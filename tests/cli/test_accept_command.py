"""``accept`` prints or writes the change, and undoes what the daemon does not take over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService
from vllm_warden.api.client import Client, DaemonUnreachable, Json
from vllm_warden.api.service import Document, Refused
from vllm_warden.config.edit import digest_of

NAME = "minimax-m25"
TEXT = f"[instance.{NAME}.engine]\nmax_num_seqs = 1024  # asked\n"
SETTINGS = [
    {"name": "max_num_seqs", "asked": 1024, "in_force": 512, "why": ""},
    {"name": "max_model_len", "asked": 4096, "in_force": 4096, "why": ""},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def serving(start_server, file):
    """A daemon that has loaded the file."""

    def start(*, settings=SETTINGS, refusal: Refused | None = None, config: Document | None = None):
        status = documents.status(documents.instance(settings=settings, degraded=True))
        loaded = {"config": str(file), "config_digest": digest_of(TEXT.encode())}
        status["daemon"].update(loaded if config is None else config)  # type: ignore[attr-defined]
        return start_server(lambda: FakeService(status, refusal=refusal))

    return start


def test_the_change_is_printed_and_nothing_is_written(serving, warden, file):
    server = serving()
    code, out, err = warden("--socket", server.path, "accept", NAME)

    assert (code, err) == (0, "")
    assert f"[instance.{NAME}.engine]\nmax_num_seqs = 512  # was 1024\n" in out
    assert "max_model_len" not in out
    assert file.read_text() == TEXT
    assert server.service.changes == []


def test_it_is_written_and_the_daemon_is_told(serving, warden, file):
    server = serving()
    code, out, _ = warden("--socket", server.path, "accept", NAME, "--write", "--json")

    assert code == 0
    assert json.loads(out) == {
        "instance": NAME,
        "file": str(file),
        "changes": [{"setting": "max_num_seqs", "from": 1024, "to": 512}],
        "written": True,
        "event": 1,
    }
    assert file.read_text() == TEXT.replace("1024", "512")
    assert [one.verb for one in server.service.changes] == ["accept"]


def test_what_the_daemon_refuses_is_undone(serving, warden, file):
    server = serving(refusal=Refused(403, "uid 7 may look but not change anything"))
    code, _, err = warden("--socket", server.path, "accept", NAME, "--write")

    assert code == 4
    assert "may look but not change" in err
    assert file.read_text() == TEXT


def test_a_file_that_has_changed_is_not_written(serving, warden, file):
    server = serving()
    file.write_text(TEXT + "# new\n")
    code, out, err = warden("--socket", server.path, "accept", NAME, "--write")

    assert (code, out) == (4, "")
    assert "has changed since the daemon loaded it" in err
    assert file.read_text() == TEXT + "# new\n"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe bad", b"\0" * 100])
def test_a_file_that_has_become_something_else_is_not_written(serving, warden, file, content):
    server = serving()
    file.write_bytes(content)
    code, out, err = warden("--socket", server.path, "accept", NAME, "--write")

    assert (code, out) == (4, "")
    assert f"cannot edit {file}: it has changed since the daemon loaded it" in err
    assert file.read_bytes() == content


def test_a_daemon_that_goes_meanwhile_leaves_the_file_as_it_will_read_it(
    serving, warden, file, monkeypatch
):
    server = serving()

    def gone(self: Client, path: str, body: object = None) -> Json:
        raise DaemonUnreachable("cannot reach the daemon")

    monkeypatch.setattr(Client, "post", gone)
    code, _, err = warden("--socket", server.path, "accept", NAME, "--write")

    assert code == 3
    assert f"{file} is changed, and read at its next start" in err
    assert file.read_text() == TEXT.replace("1024", "512")


def test_without_a_file_it_is_printed_and_not_written(serving, warden):
    server = serving(config={"config": None, "config_digest": None})

    assert "max_num_seqs = 512" in warden("--socket", server.path, "accept", NAME)[1]
    code, _, err = warden("--socket", server.path, "accept", NAME, "--write")
    assert code == 4
    assert "cannot edit the settings file: this daemon has none" in err


def test_a_missing_file_is_named(serving, warden, file):
    server = serving()
    file.unlink()
    code, _, err = warden("--socket", server.path, "accept", NAME, "--write")

    assert code == 4
    assert str(file) in err


def test_nothing_to_accept_is_exit_1(serving, warden):
    server = serving(settings=SETTINGS[1:])
    code, out, _ = warden("--socket", server.path, "accept", NAME)

    assert code == 1
    assert "nothing to accept" in out


def test_forget_and_the_options_of_start_and_restart_reach_the_daemon(serving, warden):
    server = serving()
    ask = ("--socket", server.path)
    assert warden(*ask, "forget", NAME)[0] == 0
    assert warden(*ask, "start", NAME, "--retry-capacity", "--no-wait")[0] == 0
    given = ("--set", "max_num_seqs=512", "--set", "kv-cache-dtype=fp8")
    assert warden(*ask, "restart", NAME, *given, "--retry-capacity", "--no-wait")[0] == 0

    assert [(one.verb, dict(one.options)) for one in server.service.changes] == [
        ("forget", {}),
        ("start", {"retry_capacity": True}),
        (
            "restart",
            {"retry_capacity": True, "set": {"max_num_seqs": 512, "kv_cache_dtype": "fp8"}},
        ),
    ]


def test_a_setting_without_a_value_is_wrong_use(serving, warden):
    code, _, err = warden("--socket", serving().path, "restart", NAME, "--set", "max_num_seqs")

    assert code == 2
    assert "--set takes KEY=VALUE" in err
