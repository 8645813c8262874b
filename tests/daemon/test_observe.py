"""An attempt's processes are believed, named and missed as they really are."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.fakes.process_watch import FakeProcessWatch
from vllm_warden.core.lifecycle.events import EngineLost
from vllm_warden.daemon.observe import _scan
from vllm_warden.daemon.shell import Lanes

PARENT, WORKER = 10, 11


def test_a_lost_worker_is_named_by_the_title_that_it_wore_last() -> None:
    # vLLM names a worker "VLLM::Worker" until its process groups tell it its rank
    watch = FakeProcessWatch()
    watch.titles = {PARENT: "VLLM::EngineCore", WORKER: "VLLM::Worker"}
    posted: list[Any] = []
    live: Any = SimpleNamespace(
        instance="x",
        number=1,
        engine={},
        pids_seen=set(),
        exited=False,
        phase=None,
        address_space_seen_bytes=None,
        child=SimpleNamespace(identity=SimpleNamespace(pid=PARENT)),
        group=SimpleNamespace(pids=lambda: (PARENT, WORKER)),
    )
    shell: Any = SimpleNamespace(
        lanes=Lanes(),
        ports=SimpleNamespace(watch=watch),
        now=lambda: 0.0,
        post=lambda _, event: posted.append(event),
    )

    async def scenario() -> None:
        suspected = await _scan(shell, live, await _scan(shell, live, {}))
        assert live.engine == {WORKER: "VLLM::Worker"}
        watch.titles[WORKER] = "VLLM::Worker_TP1"
        await _scan(shell, live, suspected)
        assert live.engine == {WORKER: "VLLM::Worker_TP1"}
        watch.end(WORKER)
        await asyncio.sleep(0.01)

    asyncio.run(scenario())

    (event,) = posted
    assert isinstance(event, EngineLost)
    assert (event.process.title, event.process.rank) == ("VLLM::Worker_TP1", 1)
