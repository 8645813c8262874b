from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from vllm_warden.api.access import Peer, may_change

AS_ROOT = os.geteuid() == 0
OTHER = 65534 if AS_ROOT else os.geteuid()
"""The user who asks. Without root it is ourselves, and the daemon is told it is somebody else."""

ASK = """
import grp, json, os, sys
from vllm_warden.api.client import ApiError, Client, DaemonUnreachable
path, uid = sys.argv[1], int(sys.argv[2])
if os.geteuid() != uid:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
client = Client(path)
try:
    read = len(client.get("/v1/instances")["instances"])
    client.post("/v1/instances/minimax-m25/stop")
    print(json.dumps({"read": read, "changed": True}))
except ApiError as error:
    print(json.dumps({"read": read, "problem": error.problem}))
except DaemonUnreachable as error:
    print(json.dumps({"unreachable": str(error)}))
"""


def ask_as(uid: int, path: str) -> dict[str, object]:
    """A client process of another user reads, then changes."""
    output = subprocess.run(
        [sys.executable, "-c", ASK, path, str(uid)], capture_output=True, check=True, text=True
    ).stdout
    document = json.loads(output)
    assert isinstance(document, dict)
    return document


@pytest.fixture
def open_server(start_server, monkeypatch):
    """A socket that every local user may connect to, so that only the API decides."""
    if not AS_ROOT:
        monkeypatch.setattr("os.geteuid", lambda: OTHER + 1)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        server = start_server(path=directory / "api.sock")
        Path(server.path).chmod(0o666)
        yield server


def test_another_user_may_read_but_not_change(open_server):
    answer = ask_as(OTHER, open_server.path)
    assert answer["read"] == 1
    problem = answer["problem"]
    assert isinstance(problem, dict)
    assert problem["status"] == 403
    assert "admins" in problem["hint"]
    assert str(OTHER) in problem["hint"]
    assert open_server.service.changes == []


def test_a_listed_admin_may_change_and_is_recorded(open_server):
    open_server.service.admin_uids = frozenset({OTHER})
    assert ask_as(OTHER, open_server.path)["changed"] is True
    [change] = open_server.service.changes
    assert change.actor.uid == OTHER


def test_a_user_outside_the_group_cannot_connect_and_is_told_who_may(open_server):
    Path(open_server.path).chmod(0o600 if AS_ROOT else 0)
    message = str(ask_as(OTHER, open_server.path)["unreachable"])
    assert "permission denied" in message
    assert "may connect" in message


def test_root_the_daemons_own_user_and_admins_may_change():
    assert may_change(Peer(1, 0, 0), frozenset())
    assert may_change(Peer(1, os.geteuid(), 0), frozenset())
    assert may_change(Peer(1, 1234, 1), frozenset({1234}))
    assert not may_change(Peer(1, 1235, 1), frozenset({1234}))


def test_the_peer_is_taken_from_the_kernel_and_not_from_a_header(open_server):
    other = f"--reuid {OTHER} --regid {OTHER} --clear-groups".split() if AS_ROOT else []
    forged = subprocess.run(
        [
            *(["setpriv", *other] if other else []),
            *("curl", "-sS", "--unix-socket", open_server.path, "-X", "POST"),
            *("-H", "X-Forwarded-For: 127.0.0.1", "-H", "X-Remote-Uid: 0"),
            "http://localhost/v1/instances/minimax-m25/stop",
        ],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert json.loads(forged)["status"] == 403


def test_a_change_after_losing_admin_rights_is_refused(open_server):
    open_server.service.admin_uids = frozenset({OTHER})
    ask_as(OTHER, open_server.path)
    open_server.service.admin_uids = frozenset()
    assert "problem" in ask_as(OTHER, open_server.path)
