"""The picture and the verdict, from recorded documents and without a daemon."""

from __future__ import annotations

import pytest
from rich.console import Console

from vllm_warden.api.client import Json
from vllm_warden.cli.demo.lines import summary
from vllm_warden.cli.demo.state import (
    DemoState,
    see_event,
    see_incidents,
    see_memory,
    see_status,
)
from vllm_warden.cli.demo.verdict import shortcomings
from vllm_warden.cli.demo.view import frame

GIB = 1 << 30
TOTAL = 97_887 << 20
CHANGES = [{"setting": "gpu_memory_utilization", "from": 0.95, "to": 0.9411}]
PROOF = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.29 GiB."


def event(kind: str, text: str = "", **data: object) -> Json:
    return {"number": 1, "instance": "m", "event": kind, "text": text or kind, "data": data}


def died(site: str = "sampler", changes: list[Json] | None = None) -> list[Json]:
    return [
        event("engine-exited", "attempt 1 exited with status 1"),
        event("failure-diagnosed", "no room", phase="warmup", site=site, proof=PROOF),
        event("decision-made", "x", reason="too little room", changes=changes or []),
    ]


def launched(number: int, *phases: str) -> list[Json]:
    entered = [event("phase-entered", attempt=number, phase=phase) for phase in phases]
    return [event("attempt-launched", attempt=number, settings={}), *entered]


def status(used_gib: float, state: str = "starting", *, owned: bool = True) -> Json:
    gpus = [
        {
            "index": index,
            "total_bytes": TOTAL,
            "free_bytes": TOTAL - int((used_gib if index < 4 else 0.6) * GIB),
            "holders": [],
        }
        for index in range(8)
    ]
    engine = {str(100 + rank): f"VLLM::Worker_TP{rank}" for rank in range(4)} if owned else {}
    instance = {
        "name": "m",
        "state": state,
        "reason": "because",
        "gpus": [0, 1, 2, 3],
        "pids": {"parent": 99, "engine": engine},
        "gate": None,
        "phase": None,
        "attempt": 1,
    }
    return {"gpus": gpus, "instances": [instance]}


def told(*events: Json) -> DemoState:
    state = DemoState("m")
    for number, each in enumerate(events):
        state.now_seconds = float(number)
        see_event(state, each)
    return state


def whole_story() -> DemoState:
    state = told(
        *launched(1, "init_device", "load", "profile", "warmup"),
        *died(changes=CHANGES),
        event("gate-waiting", "GPU 0 has 49 GiB free, 90 GiB are needed"),
        event("gate-opened"),
        *launched(2, "load", "warmup"),
        event("engine-ready", attempt=2),
    )
    state.completion = "'ready?' was answered: 'ready'"
    return state


def drawn(state: DemoState) -> str:
    console = Console(width=100, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(frame(state, 100))
    return captured.get()


def test_the_picture_says_that_the_gpus_are_simulated() -> None:
    assert "the GPUs are simulated" in drawn(DemoState("m"))


def test_a_running_attempt_shows_its_phase_and_its_workers_memory() -> None:
    state = told(*launched(1, "init_device", "load"))
    see_status(state, status(56.2))
    picture = drawn(state)
    assert "attempt 1  ✔ ✔" in picture
    assert "weights" in picture
    assert "GPU 2" in picture
    assert "56.2 of 95.6 GiB VLLM::Worker_TP2 (102)" in picture
    assert "GPU 4-7 idle" in picture


def test_a_dead_attempt_shows_where_it_died_and_why() -> None:
    picture = drawn(told(*launched(1, "load", "warmup"), *died(changes=CHANGES)))
    assert "✘ sampler" in picture
    assert "no room" in picture
    assert PROOF in picture
    assert "gpu_memory_utilization 0.95 → 0.9411" in picture


def test_memory_of_the_dead_is_shown_as_nobodys_while_the_gate_waits() -> None:
    state = told(*launched(1, "warmup"), *died(), event("gate-waiting", "GPU 0 is not free"))
    see_status(state, status(70.0, "waiting", owned=False))
    state.gate = "GPU 0 is not free"
    picture = drawn(state)
    assert "▒▒▒" in picture
    assert "owner dead, driver gives it back" in picture
    assert "closed for" in picture


def test_the_whole_story_fits_a_terminal_of_24_lines() -> None:
    state = whole_story()
    see_status(state, status(95.0, "ready"))
    see_memory(state, {"samples": [{"phase": "load", "used_bytes": {"0": GIB}}]})
    console = Console(width=100, height=24, force_terminal=False)
    with console.capture() as captured:
        console.print(frame(state, 100, 24))
    assert len(captured.get().splitlines()) <= 24


def test_log_text_cannot_move_the_cursor() -> None:
    state = told(*launched(1, "warmup"), event("failure-diagnosed", proof="\x1b[2Jgone"))
    assert "\x1b[2J" not in drawn(state)


def test_the_incident_of_the_daemon_wins_over_the_event() -> None:
    state = whole_story()
    price = {"sequences_before": 1024, "sequences_after": 512, "kv_bytes_lost": GIB}
    see_incidents(
        state,
        [
            {
                "attempt": 1,
                "diagnosis": {
                    "summary": "the sampler did not fit",
                    "phase": "warmup",
                    "site": "sampler",
                    "evidence": [{"line": 53, "text": PROOF}],
                },
                "decision": {"changes": CHANGES, "price": price, "reason": "r"},
            }
        ],
    )
    picture = drawn(state)
    assert "the sampler did not fit" in picture
    assert "log line 53" in picture
    assert "512 sequences at once instead of 1024; 1.0 GiB of KV cache on each GPU" in picture


def test_the_timeline_grows_with_memory() -> None:
    state = whole_story()
    see_status(state, status(90))
    samples = [
        {"at_seconds": at, "phase": "load", "used_bytes": {"0": at * 10 * GIB}} for at in range(10)
    ]
    see_memory(state, {"samples": samples})
    assert "memory ▁▁▂▃▄▅▆▆▇█" in drawn(state)


def test_a_phase_is_never_left_backwards() -> None:
    state = told(*launched(1, "load", "profile"))
    late = status(1)
    late["instances"][0]["phase"] = "load"  # type: ignore[index]
    see_status(state, late)
    assert state.attempts[1].phase == "profile"


def test_the_whole_story_has_no_shortcomings() -> None:
    state = whole_story()
    assert shortcomings(state) == []
    assert any("0.95 → 0.9411; ready after" in line for line in summary(state, []))


@pytest.mark.parametrize(
    ("events", "completion", "shortcoming"),
    [
        ([*launched(1)], "yes", "no death of attempt 1 was diagnosed"),
        ([*launched(1), *died("weights", CHANGES), *launched(2)], "yes", "site weights"),
        ([*launched(1), *died()], "yes", "there were 1 attempts, not two"),
        ([*launched(1), *died(), *launched(2)], "yes", "the relaunch had unchanged settings"),
        (
            [*launched(1), *died(changes=CHANGES), *launched(2), *launched(3)],
            "yes",
            "there were 3 attempts, not two",
        ),
        (
            [*launched(1), *died(changes=CHANGES), *launched(2)],
            None,
            "no completion was answered",
        ),
    ],
)
def test_everything_less_is_a_shortcoming(
    events: list[Json], completion: str | None, shortcoming: str
) -> None:
    state = told(*events)
    state.completion = completion
    assert any(shortcoming in each for each in shortcomings(state))


def test_the_gates_wait_is_counted_once() -> None:
    state = whole_story()
    assert state.gate_wait_seconds == 1.0
