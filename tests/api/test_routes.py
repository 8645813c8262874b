from __future__ import annotations

import json
import subprocess

import pytest

from vllm_warden.api.client import ApiError


def test_status_comes_back_as_the_daemon_made_it(server):
    assert server.client.get("/v1/status") == server.service.document


def test_an_unknown_instance_is_a_404_that_names_the_known_ones(server):
    with pytest.raises(ApiError) as caught:
        server.client.get("/v1/instances/mini")
    assert caught.value.status == 404
    assert "minimax-m25" in caught.value.hint


def test_a_change_is_accepted_with_its_event_and_records_the_actor(server):
    answer = server.client.post("/v1/instances/minimax-m25/stop", {"now": True})
    assert answer == {"event": 1}
    [change] = server.service.changes
    assert change.verb == "stop"
    assert change.options == {"now": True}
    assert change.actor.uid == 0
    assert change.actor.pid > 0
    assert change.actor.command != "?"


def test_curl_works(server):
    output = subprocess.run(
        ["curl", "-sS", "--unix-socket", server.path, "http://localhost/v1/status"],
        capture_output=True,
        check=True,
    ).stdout
    assert json.loads(output)["schema"] == 1
