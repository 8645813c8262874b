from __future__ import annotations

import json
import subprocess

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService
from vllm_warden.api.client import ApiError
from vllm_warden.api.routes import ROUTES
from vllm_warden.api.service import Refused


def curl(server, *words: str) -> tuple[int, str, str]:
    """Status, media type and body, as a person with curl sees them."""
    output = subprocess.run(
        [
            "curl",
            "-sS",
            "-m",
            "10",
            "--unix-socket",
            server.path,
            "-w",
            "\n%{http_code} %{content_type}",
        ]
        + [word.replace("API", "http://localhost/v1") for word in words],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    body, _, last = output.rpartition("\n")
    code, _, media = last.partition(" ")
    return int(code), media, body


def test_status_comes_back_as_the_daemon_made_it(server):
    assert server.client.get("/v1/status") == server.service.document


def test_half_a_character_in_one_reason_takes_no_status_away(start_server):
    broken = documents.status(documents.instance(reason="no such file: /m/\udcff"))
    server = start_server(lambda: FakeService(broken))

    (instance,) = server.client.get("/v1/status")["instances"]

    assert instance["reason"] == "no such file: /m/\udcff"


def test_curl_reads_and_changes(server):
    code, media, body = curl(server, "API/status")
    assert (code, media) == (200, "application/json")
    assert json.loads(body)["schema"] == 1
    code, _, body = curl(server, "-X", "POST", "API/instances/minimax-m25/restart")
    assert (code, json.loads(body)) == (202, {"event": 1})


def test_instances_incidents_memory_events_and_logs_can_be_read(start_server):
    def service():
        made = FakeService(
            documents.status(documents.instance()),
            incident_documents=[documents.sampler_incident()],
            log_lines=[{"attempt": 1, "line": n, "text": f"line {n}"} for n in (1, 2, 3)],
        )
        made.publish("minimax-m25", "attempt_launched", "attempt 1 launched")
        made.publish("minimax-m25", "became_ready", "ready")
        return made

    client = start_server(service).client
    assert client.get("/v1/instances")["instances"] == [documents.instance()]
    assert client.get("/v1/instances/minimax-m25")["attempts"] == []
    assert client.get("/v1/instances/minimax-m25/memory")["samples"] == []
    assert client.get("/v1/incidents/7") == documents.sampler_incident()
    assert len(client.get("/v1/instances/minimax-m25/incidents")["incidents"]) == 1
    assert [e["number"] for e in client.get("/v1/events", {"after": 1})["events"]] == [2]
    lines = client.get("/v1/instances/minimax-m25/logs", {"last": 2})["lines"]
    assert [line["text"] for line in lines] == ["line 2", "line 3"]


def test_an_unknown_instance_is_a_404_that_names_the_known_ones(server):
    for path in ("", "/memory", "/incidents", "/logs", "/logs?follow=1"):
        with pytest.raises(ApiError) as caught:
            server.client.get(f"/v1/instances/mini{path}")
        assert caught.value.status == 404
        assert "minimax-m25" in caught.value.hint
        assert caught.value.problem["known"] == ["minimax-m25"]
    with pytest.raises(ApiError) as caught:
        server.client.post("/v1/instances/mini/stop")
    assert "minimax-m25" in caught.value.hint


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/status/", 404),
        ("POST", "/v1/status", 405),
        ("GET", "/v1/instances/minimax-m25/stop", 405),
        ("GET", "/v1/incidents/99", 404),
        ("GET", "/v1/incidents/x", 404),
        ("GET", "/v1/incidents/" + "9" * 400, 404),
        ("GET", "/v1/events?after=-1", 400),
        ("GET", "/v1/events?after=" + "9" * 5000, 400),
        ("GET", "/v1/instances/minimax-m25/logs?last=many", 400),
        ("GET", "/v1/instances/minimax-m25/logs?attempt=99", 404),
    ],
)
def test_errors_are_problem_details_with_a_hint(server, method, path, status):
    code, media, body = curl(server, "-X", method, f"http://localhost{path}")
    problem = json.loads(body)
    assert (code, media) == (status, "application/problem+json")
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["hint"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{", 400),
        ("[" * 5000, 400),
        ("[1]", 400),
        ('{"noww": true}', 400),
        ('{"now": "yes"}', 400),
        ("x" * 70_000, 413),
    ],
)
def test_a_body_that_is_not_understood_changes_nothing(server, tmp_path, body, status):
    (tmp_path / "body").write_text(body)
    code, media, _ = curl(
        server, "--data-binary", f"@{tmp_path}/body", "API/instances/minimax-m25/stop"
    )
    assert (code, media) == (status, "application/problem+json")
    assert server.service.changes == []


def test_options_and_the_actor_reach_the_daemon(server):
    server.client.post("/v1/instances/minimax-m25/stop", {"now": True})
    [change] = server.service.changes
    assert (change.instance, change.verb, change.options) == ("minimax-m25", "stop", {"now": True})
    assert change.actor.pid > 0
    assert change.actor.command not in ("", "?")


def test_a_change_that_the_daemon_refuses_keeps_its_reason_and_hint(server):
    server.service.refusal = Refused(409, "it is being stopped", "wait for it")
    with pytest.raises(ApiError, match="it is being stopped") as caught:
        server.client.post("/v1/instances/minimax-m25/start")
    assert (caught.value.status, caught.value.hint) == (409, "wait for it")


def test_a_bug_in_the_daemon_is_a_500_without_its_text(server, caplog):
    server.service.document = None
    with pytest.raises(ApiError) as caught:
        server.client.get("/v1/instances")
    assert caught.value.status == 500
    assert caught.value.hint
    assert "cannot answer GET /v1/instances" in caplog.text


def test_the_openapi_document_lists_every_route(server):
    paths = server.client.get("/openapi.json")["paths"]
    assert {(m.upper(), p) for p, each in paths.items() for m in each} == {
        (route.method, route.path) for route in ROUTES
    }
    schema = paths["/v1/status"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["daemon", "gpus", "gpus_problem", "instances", "schema"]
