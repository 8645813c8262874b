"""The end of an attempt is told, whatever readers of logs and leftovers of engines do."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.groups import FakeAttemptGroup
from tests.fakes.log_backend import FakeStream
from tests.fakes.process_watch import FakeProcessWatch
from vllm_warden.core.plan.spec import LaunchPlan
from vllm_warden.daemon import release, remains
from vllm_warden.daemon.live_attempt import LiveAttempt
from vllm_warden.daemon.release import _ended, _finish_log, discard
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


async def _removal(group: FakeAttemptGroup) -> None:
    while not group.removed:
        await asyncio.sleep(0.001)


def test_what_no_signal_ends_holds_up_no_incident_and_is_named_until_it_has_ended(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = FakeAttemptGroup("x", 1, "00112233")
    group.members, group.unkillable = {11, 12}, {12}
    shell, _, conditions = made(tmp_path, group)
    watch = FakeProcessWatch()
    watch.titles, watch.stuck = {12: "VLLM::Worker"}, {12: "nv_wait"}
    clock = FakeClock()
    nothing: Any = None
    plan = LaunchPlan("x", 1, "0011223344556677", ("vllm",), {}, {"TMPDIR": "/t"})
    live = LiveAttempt("x", 1, nothing, plan, group, FakeStream(), 0.0, 0.0, 0)
    shell.live["x"], shell.launching = live, {}
    shell.ports = SimpleNamespace(watch=watch)

    def now() -> float:
        clock.advance(0.5)
        return clock.now_seconds()

    monkeypatch.setattr(release, "EMPTY_POLL_LATER_SECONDS", 0.001)
    monkeypatch.setattr(remains, "LOOK_SECONDS", 0.001)
    shell.now = now

    async def scenario() -> None:
        assert await asyncio.wait_for(_ended(shell, "x", 1), 10) is live
        assert clock.now_seconds() - 1000 >= 15
        await discard(shell, live)
        assert group.removed is False
        text = conditions[f"remains-{group.path}"] or ""
        assert "x: killed, but still there: 12 (VLLM::Worker, waits in the kernel nv_wait)" in text
        assert "11" not in text
        group.members.clear()
        await asyncio.wait_for(_removal(group), 10)
        assert conditions[f"remains-{group.path}"] is None

    asyncio.run(scenario())
