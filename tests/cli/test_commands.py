from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService
from vllm_warden import __version__
from vllm_warden.api.service import Refused
from vllm_warden.cli.main import main

NAME = "minimax-m25"


def two_services() -> FakeService:
    return FakeService(documents.status(documents.instance(), documents.instance("other")))


def test_every_view_has_stable_json(start_server, warden):
    def service() -> FakeService:
        made = FakeService(
            documents.status(documents.instance(degraded=True)),
            incident_documents=[documents.sampler_incident()],
            log_lines=[{"attempt": 1, "line": 1, "text": "hello"}],
        )
        made.publish(NAME, "became_ready", "ready")
        return made

    server = start_server(service)

    def answer(*words: str) -> object:
        code, out, err = warden("--socket", server.path, *words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    one = server.service.instance(NAME)
    assert answer("status") == server.service.document
    assert answer("status", NAME) == one
    assert answer("why", NAME) == one
    assert answer("why") == {"instances": [one]}
    assert answer("incidents") == {"incidents": [documents.sampler_incident()]}
    assert answer("incidents", "7") == documents.sampler_incident()
    assert answer("events") == server.service.events[0]
    assert answer("logs") == server.service.log_lines[0]
    assert answer("hold", NAME) == {"event": 2}


def test_the_socket_may_stand_before_or_after_the_command_or_in_the_environment(
    server, warden, monkeypatch
):
    assert warden("--socket", server.path, "status")[0] == 0
    assert warden("status", "--socket", server.path)[0] == 0
    monkeypatch.setenv("WARDEN_SOCKET", server.path)
    assert warden("status")[0] == 0
    assert warden("--socket", "/nowhere/api.sock", "status")[0] == 3
    assert warden("--socket", "/nowhere/api.sock", "status", "--socket", server.path)[0] == 0


def test_no_daemon_is_exit_3_and_says_how_to_start_it(warden, tmp_path):
    code, out, err = warden("status", "--socket", str(tmp_path / "none.sock"))
    assert (code, out) == (3, "")
    assert "vllm-wardend --config" in err
    assert "vllm-warden serve" in err
    assert "systemctl" not in err


def test_what_is_no_socket_is_called_so(warden, tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file", "/dev/null"):
        code, _, err = warden("status", "--socket", str(path))
        assert (code, "that is no socket" in err) == (3, True)
    code, _, err = warden("status", "--socket", "/tmp/" + "x" * 200)
    assert (code, "more than 107 bytes" in err) == (3, True)


def test_wrong_use_is_exit_2(server, warden):
    assert warden("nonsense")[0] == 2
    assert warden("start")[0] == 2
    assert warden("status", "--nonsense")[0] == 2
    code, _, err = warden("--socket", server.path, "start", "mini")
    assert code == 2
    assert NAME in err


def test_a_refusal_is_exit_4_with_the_hint(server, warden):
    server.service.refusal = Refused(409, "it is being stopped", "wait for it")
    code, out, err = warden("start", NAME, "--socket", server.path)
    assert (code, out) == (4, "")
    assert "it is being stopped" in err
    assert "wait for it" in err


def test_what_is_refused_cannot_steer_a_terminal(server, warden):
    server.service.refusal = Refused(409, "no\x1b]0;owned\x07pe\x9b1m", "wait\x1b[31m for it")
    code, _, err = warden("start", NAME, "--socket", server.path)

    assert code == 4
    assert "nope\N{REPLACEMENT CHARACTER}1m" in err
    assert "wait for it" in err


@pytest.mark.parametrize(
    "words", [("plan", "/a\x1b]0;owned\x07b"), ("a\x1b]0;owned\x07b",), ("status", "a", "\x9b1m")]
)
def test_what_is_wrong_use_cannot_steer_a_terminal(warden, words):
    code, _, err = warden(*words)

    assert code == 2
    assert not {"\x1b", "\x07", "\x9b"} & set(err)


@pytest.mark.parametrize("name", ["", "a/b", "../x"])
@pytest.mark.parametrize("command", ["start", "forget", "accept"])
def test_what_is_no_name_is_called_so_and_asks_nothing(server, warden, command, name):
    code, _, err = warden("--socket", server.path, command, name)

    assert code == 2
    assert f"cannot find the instance {name!r}" in err
    assert server.service.changes == []


def test_a_bug_is_exit_70_in_one_line_and_a_traceback_when_asked(server, warden, monkeypatch):
    server.service.document = {"instances": []}
    code, _, err = warden("status", "--socket", server.path)
    assert code == 70
    assert "this is a bug: KeyError" in err
    assert "Traceback" not in err
    monkeypatch.setenv("WARDEN_DEBUG", "1")
    assert "Traceback" in warden("status", "--socket", server.path)[2]


def test_version_and_help_need_no_daemon(warden):
    assert warden("--version") == (0, f"vllm-warden {__version__}\n", "")
    code, out, _ = warden("status", "--help")
    assert code == 0
    assert "vllm-warden status --json | jq" in out


def test_logs_say_on_stderr_how_many_lines_are_missing(start_server, warden):
    def service() -> FakeService:
        lines: list[dict[str, object]] = [
            {"attempt": 1, "line": n, "text": f"line {n}"} for n in (1, 9)
        ]
        return FakeService(documents.status(documents.instance()), log_lines=lines)

    code, out, err = warden("--socket", start_server(service).path, "logs")
    assert (code, out) == (0, "line 1\nline 9\n")
    assert err == "(7 lines left out: not kept, or too much for one answer)\n"


def test_logs_without_a_name_need_a_single_instance(start_server, warden):
    code, _, err = warden("logs", "--socket", start_server(two_services).path)
    assert code == 2
    assert "other" in err


def test_why_without_a_name_tells_of_those_that_do_not_serve_as_asked(start_server, warden):
    def three() -> FakeService:
        stuck = documents.instance("stuck", state="held", reason="because")
        off = documents.instance("off", state="stopped", wanted="stopped")
        return FakeService(documents.status(documents.instance(), stuck, off))

    code, out, _ = warden("why", "--socket", start_server(three).path)
    assert code == 0
    assert out.startswith("stuck is held")
    assert NAME not in out
    assert "off" not in out.split()


@pytest.mark.parametrize("words", [("why",), ("why", NAME), ("status",), ("status", NAME)])
def test_what_is_wrong_with_the_daemon_stands_above_everything(start_server, warden, words):
    def ill() -> FakeService:
        conditions = ["history is in memory only: the disk is full"]
        return FakeService(documents.status(documents.instance(), conditions=conditions))

    out = warden(*words, "--socket", start_server(ill).path)[1]
    assert "! history is in memory only: the disk is full\n" in out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("incidents", "99"), "vllm-warden incidents lists them"),
        (("logs", NAME, "--attempt", "99"), f"vllm-warden status {NAME} lists its attempts"),
    ],
)
def test_hints_are_commands_and_not_paths_of_the_api(server, warden, words, hint):
    code, _, err = warden(*words, "--socket", server.path)
    assert code == 2
    assert hint in err
    assert "GET " not in err


def test_why_says_so_when_every_instance_serves_as_asked(start_server, warden):
    out = warden("why", "--socket", start_server(two_services).path)[1]
    assert out == "every instance serves as asked\n"


def test_following_events_prints_them_as_they_come_and_ctrl_c_ends_it(server):
    program = "import sys; from vllm_warden.cli.main import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "events", "-f", "--socket", server.path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    server.publish(NAME, "x", "hello \x1b[31mthere")
    assert process.stdout.readline().endswith(f"{NAME}: hello there\n")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize("command", ["status", "why", "incidents", "events", "logs", "start"])
def test_a_command_that_asks_the_daemon_imports_nothing_heavy(command):
    program = (
        "import sys\nfrom vllm_warden.cli.main import main\n"
        f"main(['{command}', '--help'])\n"
        "heavy = {'typer', 'pydantic', 'rich', 'httpx', 'starlette', 'uvicorn', 'asyncio'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    ).stdout
    assert output.splitlines()[-1] == "HEAVY []"


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "1e300"])
def test_a_wait_that_would_never_end_is_refused(seconds, capsys):
    assert main(["stop", "x", "--timeout", seconds]) == 2
    assert "--timeout" in capsys.readouterr().err
