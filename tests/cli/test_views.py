"""Golden outputs at 80 columns. After a wanted change: UPDATE_GOLDEN=1 pytest tests/cli."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api import documents as d
from vllm_warden.api.service import Document
from vllm_warden.cli.commands.incidents import incident_table
from vllm_warden.cli.detail import detail
from vllm_warden.cli.overview import overview, urgency
from vllm_warden.cli.render import Style, value
from vllm_warden.cli.story import incident_story, price_in_words, story

GOLDEN = Path(__file__).parent / "golden"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GIB = d.GIB

DEGRADED = d.instance(
    degraded=True,
    settings=[
        {"name": "max_num_seqs", "asked": 1024, "in_force": 512,
         "why": "the sampler ran out of memory in warm-up"},
        {"name": "gpu_memory_utilization", "asked": 0.95, "in_force": 0.9183, "why": ""},
        {"name": "max_model_len", "asked": 131072, "in_force": 131072, "why": ""},
    ],
    last_incident={"number": 7, "failure": "gpu_out_of_memory", "phase": "warmup",
                   "site": "sampler", "at": d.NOW - 8000, "summary": ""},
)  # fmt: skip
FORESEEN = d.instance(
    foreseen={
        "text": "the start is healthy, but the first full batch will die for want of GPU memory: "
        "beside the budget 380 MiB are missing; it would hold with "
        "gpu_memory_utilization 0.98 -> 0.9661",
        "slack_bytes": -380 * (1 << 20),
        "changes": [{"setting": "gpu_memory_utilization", "from": 0.98, "to": 0.9661}],
        "arithmetic": ["free at launch 94.97 GiB - CUDA context and peers 1.19 GiB = 93.78 GiB"],
    },
)
PROMISING = {
    **DEGRADED,
    "retry_promising": ["they were learned with vLLM 0.15.1, and 0.20.0 runs now"],
}
TRIED = {**DEGRADED, "trial": {"kind": "retry-capacity", "by": "uid 0 (vllm-warden, pid 812)"}}
HELD = d.instance(
    "qwen3-tp2",
    state="held",
    phase=None,
    gpus=[4, 5],
    attempt=1,
    since=d.NOW - 100,
    memory={"used_bytes": {}},
    pids={"parent": None, "engine": {}},
    reason="the weights need 115.0 GiB on each of 2 GPUs and a GPU has 95.6 GiB: no setting can "
    "help, 4 GPUs would do",
    restart_pending=True,
)
WAITING = d.instance(
    "small",
    state="waiting",
    phase=None,
    gpus=[6],
    attempt=0,
    since=d.NOW - 45,
    memory={"used_bytes": {}},
    gate={"text": "GPU 6 has 60.0 of 86.1 GiB free; pid 812 (alice, python) holds 35.6 GiB",
          "since": d.NOW - 45},
)  # fmt: skip
PORT_TAKEN = {
    **WAITING,
    "gpus": [],
    "gate": {"text": "port 8000 is taken: pid 77 (python -m http.server)", "since": d.NOW - 45},
}
NO_MODEL = {
    **WAITING,
    "gpus": [],
    "gate": {
        "text": "instance.small.model = /mnt/m: there is no such directory",
        "since": d.NOW - 45,
    },
}
BACKOFF = d.instance("small", state="backoff", phase=None, since=d.NOW - 3, next_try=d.NOW + 40,
                     reason="nothing explains it", memory={"used_bytes": {}})  # fmt: skip
UNREADY = d.instance(state="unready", since=d.NOW - 30, reason="/health answers 500")
STARTING = d.instance("cpu-model", state="starting", phase="load", gpus=[], since=d.NOW - 75,
                      memory={"used_bytes": {}})  # fmt: skip
STOPPED = d.instance("old", state="stopped", wanted="stopped", gpus=[7], since=None, attempt=0,
                     memory={"used_bytes": {}}, phase=None)  # fmt: skip
HOLDER = {"pid": 812, "used_bytes": int(35.6 * GIB), "user": "alice", "command": "python train.py",
          "ours": False}  # fmt: skip
GPUS = [
    *(d.gpu(index, used_gib=60, instances=["minimax-m25"]) for index in range(4)),
    d.gpu(4),
    d.gpu(6, used_gib=35.6, holders=[HOLDER]),
    d.gpu(7, error="NVML does not answer"),
]
DETAILS = {
    "attempts": [
        {"number": 1, "launched": d.NOW - 8500, "ended": d.NOW - 8000, "phase": "warmup",
         "outcome": "out of GPU memory", "settings": {}, "changes": [], "command": ""},
        {"number": 2, "launched": d.NOW - 8000, "ended": None, "phase": "serving", "outcome": None,
         "settings": {}, "changes": [{"setting": "max_num_seqs", "from": 1024, "to": 512}],
         "command": ""},
    ],
    "launch_command": "/opt/vllm/bin/vllm serve /srv/models/minimax-m2.5 --tensor-parallel-size 4 "
    "--max-num-seqs 512",
    "explanation": ["It runs with less than asked since incident 7."],
    "incident": d.sampler_incident(),
}  # fmt: skip
GAVE_UP = {
    **d.sampler_incident()["decision"],  # type: ignore[dict-item]
    "remedy": "give_up",
    "changes": [],
    "price": None,
    "reason": "the weights need 115.0 GiB on each of 2 GPUs",
    "options": ["tensor_parallel_size = 4", "a model quantized to 4 bits"],
}
NOTHING: Document = {"attempts": [], "launch_command": "", "explanation": [], "incident": None}
HOSTILE_TEXT = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202eevil\x00 " + "x" * 90
HOSTILE = d.sampler_incident(
    incomplete=True,
    exit_status=None,
    decision=None,
    recovered=None,
    resolved=None,
    resolution=None,
    diagnosis={
        **d.sampler_incident()["diagnosis"],  # type: ignore[dict-item]
        "evidence": [{"line": 9, "text": HOSTILE_TEXT}],
    },
)

AGAIN = {
    "attempt": 2,
    "at": d.NOW - 600,
    "exit_status": -9,
    "diagnosis": {
        **d.sampler_incident()["diagnosis"],  # type: ignore[dict-item]
        "failure": "killed_by_signal", "phase": "serving", "site": None, "signature": None,
        "evidence": [], "consequences": [], "summary": "signal 9",
    },
    "decision": {"remedy": "relaunch", "changes": [], "useless": [], "price": None,
                 "reason": "nothing points at a setting", "arithmetic": []},
    "settings_before": {}, "settings_after": None, "incomplete": False, "excerpt": [],
}  # fmt: skip
GOES_ON = d.sampler_incident(
    further=[AGAIN, AGAIN], failures=4, recovered=d.NOW - 300, resolved=None, resolution=None
)

View = Callable[[Any, float, Style], list[str]]
VIEWS: dict[str, tuple[View, Document]] = {
    "nothing configured": (overview, d.status()),
    "everything at once": (
        overview,
        d.status(STOPPED, DEGRADED, STARTING, WAITING, HELD, gpus=GPUS,
                 conditions=["history is in memory only: the disk is full"]),
    ),
    "gpus unknown": (overview, d.status(STARTING, gpus_problem="no NVIDIA driver is loaded")),
    "long name": (
        overview,
        d.status(d.instance("x" * 32, state="starting", phase="kv_alloc", wanted="stopped",
                            degraded=True)),
    ),
    "one healthy": (overview, d.status(d.instance(), gpus=GPUS[:4])),
    "detail degraded": (detail, {**DEGRADED, **DETAILS}),
    "detail held": (detail, {**HELD, **NOTHING}),
    "why degraded": (story, {**DEGRADED, **DETAILS}),
    "why held": (story, {**HELD, **NOTHING}),
    "why given up": (story, {**HELD, **NOTHING, "state": "failed", "decision": GAVE_UP}),
    "why on hold": (story, {**d.instance(wanted="held"), **NOTHING}),
    "detail on hold": (detail, {**d.instance(wanted="held"), **NOTHING}),
    "why waiting": (story, {**WAITING, **NOTHING}),
    "why waiting for a port": (story, {**PORT_TAKEN, **NOTHING}),
    "why waiting for a model": (story, {**NO_MODEL, **NOTHING}),
    "why backoff": (story, {**BACKOFF, **NOTHING}),
    "detail backoff": (detail, {**BACKOFF, **NOTHING}),
    "why unready": (story, {**UNREADY, **NOTHING}),
    "why healthy": (story, {**d.instance(), **NOTHING}),
    "why foreseen": (story, {**FORESEEN, **NOTHING}),
    "detail foreseen": (detail, {**FORESEEN, **NOTHING}),
    "why promising": (story, {**PROMISING, **NOTHING}),
    "detail promising": (detail, {**PROMISING, **NOTHING}),
    "why tried once": (story, {**TRIED, **NOTHING}),
    "detail tried once": (detail, {**TRIED, **NOTHING}),
    "incident with hostile text": (incident_story, HOSTILE),
    "incident that goes on": (incident_story, GOES_ON),
    "list of incidents": (
        lambda found, now, style: incident_table(found["incidents"], now, style),
        {"incidents": [GOES_ON, d.sampler_incident()]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_reads_as_agreed_and_fits_80_columns(name):
    view, document = VIEWS[name]
    text = "\n".join(view(document, d.NOW, Style())) + "\n"
    path = GOLDEN / f"{name.replace(' ', '_')}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


@pytest.mark.parametrize("name", VIEWS)
def test_colour_changes_no_letter(name):
    view, document = VIEWS[name]
    coloured = "\n".join(view(document, d.NOW, Style(colour=True)))
    assert ESCAPE.sub("", coloured) == "\n".join(view(document, d.NOW, Style()))


def test_advice_at_the_gate_speaks_of_gpus_only_where_it_waits_for_them():
    for entry in (PORT_TAKEN, NO_MODEL):
        document: Any = {**entry, **NOTHING}
        assert "GPU" not in "\n".join(story(document, d.NOW, Style()))


def test_vllm_is_spelled_as_it_spells_itself():
    diagnosis: Any = {**d.sampler_incident()["diagnosis"], "failure": "configuration_invalid"}  # type: ignore[dict-item]
    incident: Any = d.sampler_incident(diagnosis=diagnosis)
    text = "\n".join(incident_story(incident, d.NOW, Style()))
    assert "vLLM refuses the configuration" in text


def test_a_whole_number_is_shown_as_one():
    assert [value(each) for each in (8192.0, 1048576.0, 0.9183)] == ["8192", "1048576", "0.9183"]


@pytest.mark.parametrize(
    ("price", "words"),
    [
        ({}, ""),
        ({"sequences_before": 4, "sequences_after": 4, "note": ""}, ""),
        ({"max_model_len_before": 8192, "max_model_len_after": 4096, "note": "paid by long ones"},
         "context length 8192 -> 4096, paid by long ones"),
        ({"kv_bytes_lost": -GIB, "concurrency_fraction": 0.5},
         "1.0 GiB of KV cache more, 50% of the usable concurrency is left"),
    ],
)  # fmt: skip
def test_a_price_is_told_from_what_is_known(price, words):
    assert price_in_words(price) == words


def test_what_needs_a_person_comes_first():
    entries: list[Any] = [STOPPED, d.instance(), DEGRADED, STARTING, HELD]
    order = sorted(entries, key=urgency)
    assert [each["name"] for each in order] == [
        "qwen3-tp2", "cpu-model", "minimax-m25", "minimax-m25", "old",
    ]  # fmt: skip
    assert order[2]["degraded"] is True
