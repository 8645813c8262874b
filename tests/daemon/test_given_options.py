"""A setting that the engine does not have ends no engine: it is refused before the restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from vllm_warden.api.service import Accepted, ChangeRequest, Refused
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import Actor
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec
from vllm_warden.daemon import given_options
from vllm_warden.daemon.answers import Answers
from vllm_warden.daemon.threads import Lane

FLAGS = {"--max-num-seqs", "--max-model-len", "--gpu-memory-utilization", "--served-model-name"}
KNOWN = EngineFacts(version="0.15.1", flags=frozenset(FLAGS))


class Probe:
    """An engine's installation that is asked for its options."""

    def __init__(self, facts: EngineFacts = KNOWN, gate: threading.Event | None = None) -> None:
        self.known, self.gate, self.asked = facts, gate, 0

    def facts(self, command: Sequence[str], *, with_flags: bool = False) -> EngineFacts:
        assert with_flags
        self.asked += 1
        if self.gate is not None:
            self.gate.wait(20)
        return self.known


class Recorder:
    def announce(self, name: str, told: object) -> int:
        return 7

    async def state_written(self) -> None:
        return None


async def restart(probe: Probe, given: dict[str, object], uid: int = 0) -> Accepted | Refused:
    instance = Instance(InstanceSpec("m", "/m", ()), state=State.READY)
    posted: list[Any] = []

    async def settled() -> None:
        return None

    lane = Lane("the probe", 20.0)
    shell: Any = SimpleNamespace(
        loop=SimpleNamespace(instances={"m": instance}, settled=settled),
        closing=False,
        config=None,
        instance=lambda _: instance,
        now=lambda: 5.0,
        post=lambda _, event: posted.append(event),
        ports=SimpleNamespace(engine_probe=probe),
        lanes=SimpleNamespace(probes=lane),
        recorder=Recorder(),
    )
    request = ChangeRequest("m", "restart", Actor(uid, 7, "x"), {"set": given})
    try:
        answer = await Answers(shell, frozenset(), 1, 0.0).change(request)
    finally:
        if probe.gate is not None:
            probe.gate.set()
        lane.close()
    assert bool(posted) is isinstance(answer, Accepted)
    return answer


def test_an_option_that_the_engine_does_not_have_is_refused() -> None:
    answer = asyncio.run(restart(Probe(), {"x": 1}))

    assert isinstance(answer, Refused)
    assert answer.status == 400
    assert answer.reason == "cannot set x: vLLM 0.15.1 has no option --x"
    assert answer.hint


def test_an_engine_that_cannot_be_asked_refuses_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr(given_options, "ASK_SECONDS", 0.05)

    assert isinstance(asyncio.run(restart(Probe(EngineFacts()), {"x": 1})), Accepted)
    late = Probe(gate=threading.Event())
    assert isinstance(asyncio.run(restart(late, {"x": 1})), Accepted)


def test_nobody_is_asked_about_knobs_nor_for_who_may_not() -> None:
    probe = Probe()

    assert isinstance(asyncio.run(restart(probe, {"max_num_seqs": 4})), Accepted)
    assert isinstance(asyncio.run(restart(probe, {"x": 4}, uid=54321)), Refused)
    assert isinstance(asyncio.run(restart(probe, {"--x": 4})), Refused)
    assert probe.asked == 0
