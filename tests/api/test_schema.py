from __future__ import annotations

from typing import cast

import pytest

from tests.api import documents
from vllm_warden.api.schema import (
    IncidentDocument,
    InstanceDetailDocument,
    InstanceDocument,
    StatusDocument,
)
from vllm_warden.api.shape import json_schema, mismatches


def test_the_documents_used_in_tests_are_of_the_published_shape():
    full = documents.status(
        documents.instance(
            last_incident={"number": 7, "failure": "gpu_out_of_memory", "phase": "warmup",
                           "site": "sampler", "at": 1.0, "summary": ""},
            gate={"text": "waits", "since": None},
            decision=documents.sampler_incident()["decision"],
            settings=[{"name": "max_num_seqs", "asked": 1024, "in_force": 512, "why": ""}],
        ),
        gpus=[documents.gpu(0, holders=[{"pid": 1, "used_bytes": None, "user": "a",
                                         "command": "b", "ours": False}])],
    )  # fmt: skip
    assert list(mismatches(full, StatusDocument)) == []
    assert list(mismatches(documents.sampler_incident(), IncidentDocument)) == []


def test_the_detail_of_an_instance_is_its_status_entry_and_more(server):
    detail = server.client.get("/v1/instances/minimax-m25")
    assert list(mismatches(detail, InstanceDetailDocument)) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"attempt": "2"}, "$.attempt is '2', expected int"),
        ({"attempt": True}, "$.attempt is True, expected int"),
        ({"degraded": 0}, "$.degraded is 0, expected bool"),
        ({"gpus": [0, None]}, "$.gpus[1] is None, expected int"),
        ({"pids": {"parent": 1, "engine": {"1": 2}}}, "$.pids.engine.1 is 2, expected str"),
        ({"memory": {}}, "$.memory.used_bytes is missing"),
        ({"gate": 3}, "$.gate is 3, expected GateDocument | None"),
    ],
)
def test_a_departure_from_the_shape_is_named(change, sentence):
    [found] = mismatches(documents.instance(**change), InstanceDocument)
    assert found.replace("vllm_warden.api.schema.", "").startswith(sentence.split(" | ")[0])


def test_a_member_that_is_not_published_is_named():
    document = {**documents.status(), "extra": 1}
    assert list(mismatches(document, StatusDocument)) == ["$.extra is not part of StatusDocument"]


def test_a_member_that_may_be_absent_may_be_absent():
    incident = documents.sampler_incident()
    del incident["excerpt"]
    assert list(mismatches(incident, IncidentDocument)) == []
    assert "excerpt" not in cast("list[str]", json_schema(IncidentDocument)["required"])


def test_types_become_json_schema():
    schema = json_schema(StatusDocument)
    assert schema["type"] == "object"
    assert json_schema(list[int]) == {"type": "array", "items": {"type": "integer"}}
    assert json_schema(str | None) == {"anyOf": [{"type": "string"}, {"type": "null"}]}
