"""The end of an attempt is told, whatever readers of logs and leftovers of engines do."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from tests.fakes.groups import FakeAttemptGroup
from tests.fakes.log_backend import FakeStream
from vllm_warden.daemon.release import _finish_log, discard
from vllm_warden.daemon.shell import Lanes


class Shell(SimpleNamespace):
    """As much of a shell as tidying needs."""

    def start(self, work: Any) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


def made(tmp_path: Any, group: Any) -> tuple[Any, Any, dict[str, str | None]]:
    conditions: dict[str, str | None] = {}
    recorder = SimpleNamespace(set_condition=conditions.__setitem__)
    shell = Shell(lanes=Lanes(), live={}, recorder=recorder, state_directory=tmp_path)
    plan = SimpleNamespace(launch_id="0011223344556677", environment={"TMPDIR": "/t"})
    stream = FakeStream()
    stream.start_reading(lambda _: None)
    live = SimpleNamespace(
        instance="x", group=group, stream=stream, plan=plan, shared_files=frozenset()
    )
    return shell, live, conditions


def test_readers_of_old_logs_cannot_make_evidence_incomplete(tmp_path: Any) -> None:
    shell, live, _ = made(tmp_path, FakeAttemptGroup("x", 1, "00112233"))
    released = threading.Event()

    async def scenario() -> bool:
        readers = [
            asyncio.create_task(shell.lanes.old_logs.call(lambda: released.wait(20)))
            for _ in range(10)
        ]
        await asyncio.sleep(0.05)
        try:
            return await asyncio.wait_for(_finish_log(shell, live), 5)
        finally:
            released.set()
            await asyncio.gather(*readers)

    assert asyncio.run(scenario())


def test_a_directory_that_stays_is_a_condition_and_no_exception(tmp_path: Any) -> None:
    class Stubborn(FakeAttemptGroup):
        def remove(self) -> None:
            raise RecursionError

    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "00112233").symlink_to("/nonexistent")
    (tmp_path / "t" / "00112233.elsewhere").mkdir()  # a note that cannot be read
    shell, live, conditions = made(tmp_path, Stubborn("x", 1, "00112233"))

    asyncio.run(discard(shell, live))

    assert "remove it by hand" in (conditions["temporary-x"] or "")
