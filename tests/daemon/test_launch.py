"""A launch that fails, at whatever step and however late, leaves nothing behind."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.groups import FakeGroups
from tests.fakes.log_backend import FakeLog
from vllm_warden.adapters.systemd.notify import SystemdNotifier
from vllm_warden.core.lifecycle.effects import Announce, Launch
from vllm_warden.core.lifecycle.events import Launched, LaunchFailed
from vllm_warden.core.lifecycle.states import Instance
from vllm_warden.core.model import ProcessIdentity
from vllm_warden.core.plan.spec import InstanceSpec, LaunchPlan
from vllm_warden.daemon.directories import temporary_prefixes
from vllm_warden.daemon.launch import launch
from vllm_warden.daemon.live_attempt import LiveAttempt
from vllm_warden.daemon.loop import Loop
from vllm_warden.daemon.record import Recorder
from vllm_warden.daemon.shell import Lanes, Ports, Shell
from vllm_warden.daemon.sweep import sweep_temporary
from vllm_warden.daemon.threads import Lane

SPEC = InstanceSpec("tiny", "/m", ())


class Child:
    """Ends as soon as its group is killed."""

    def __init__(self) -> None:
        self.identity = ProcessIdentity(1234, 1, "boot")

    def signal(self, number: int) -> bool:
        return True

    def watch_exit(self, on_exit: Callable[[int | None], None]) -> None:
        on_exit(-9)


@dataclass
class Spawner:
    """Answers when it may, with a process in the group or an error."""

    error: Exception | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    spawned: int = 0

    def spawn(self, plan: LaunchPlan, group: Any, output_fd: int) -> Child:
        self.gate.wait(20)
        if self.error is not None:
            raise self.error
        self.spawned += 1
        group.members.add(1234)
        return Child()


class Scene:
    def __init__(self, state: Path) -> None:
        self.groups = FakeGroups()
        self.log = FakeLog()
        self.spawner = Spawner()
        self.posted: list[Any] = []
        nothing: Any = None
        rest = len(fields(Ports)) - 4
        ports = Ports(FakeClock(), self.log, self.groups, self.spawner, *[nothing] * rest)
        ports = replace(ports, notifier=SystemdNotifier(""))
        loop = Loop([Instance(SPEC)])
        recorder: Any = nothing
        self.shell = Shell(
            ports, loop, nothing, recorder, {}, state, 2, {"PATH": "/bin"}, lanes=Lanes()
        )
        self.shell.lanes.launches = Lane("the launch", 0.1, threads=4)
        setattr(loop, "post", lambda _, event: self.posted.append(event))  # noqa: B010

    async def launch(self) -> None:
        await launch(self.shell, "tiny", Launch(1, {}, ()))

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not reached():
                await asyncio.sleep(0.005)

    def nothing_is_left(self) -> bool:
        return (
            temporary_prefixes(self.shell.state_directory) == set()
            and all(group.removed for group in self.groups.made)
            and all(stream._closed for stream in self.log.streams.values())
            and not self.shell.live
        )


@pytest.fixture
def state() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="x1") as short:
        yield Path(short)


@asynccontextmanager
async def scene_in(state: Path) -> AsyncIterator[Scene]:
    scene = Scene(state)
    try:
        yield scene
    finally:
        scene.spawner.gate.set()
        await scene.shell.cancel_tasks()
        scene.shell.lanes.close()


def fail(*_: object) -> Any:
    raise OSError("no room")


@pytest.mark.parametrize("step", ["open_stream", "create", "oom_kills"])
def test_a_step_that_fails_undoes_those_before_it(state: Path, step: str) -> None:
    async def main() -> None:
        async with scene_in(state) as scene:
            setattr(scene.log if step == "open_stream" else scene.groups, step, fail)

            await scene.launch()

            (failed,) = scene.posted
            assert isinstance(failed, LaunchFailed)
            assert "no room" in failed.reason
            assert scene.nothing_is_left()

    asyncio.run(main())


def test_an_error_that_nobody_foresaw_is_an_answer_too(state: Path) -> None:
    async def main() -> None:
        async with scene_in(state) as scene:

            def surprise(*_: object) -> Any:
                raise KeyError("surprise")

            setattr(scene.groups, "create", surprise)  # noqa: B010
            await scene.launch()
            assert [type(event) for event in scene.posted] == [LaunchFailed]
            assert scene.nothing_is_left()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("surprise"), "internal error: KeyError: 'surprise'"),
        (OSError(30, "Read-only file system", "/cg/x"), "/cg/x: read-only file system"),
        (OSError("no room"), "no room"),
    ],
)
def test_the_reason_is_told_in_words(state: Path, error: Exception, reason: str) -> None:
    def refuse(*_: object) -> Any:
        raise error

    async def main() -> None:
        async with scene_in(state) as scene:
            setattr(scene.groups, "create", refuse)  # noqa: B010
            await scene.launch()
            (failed,) = scene.posted
            assert failed.reason == reason

    asyncio.run(main())


def test_a_log_that_nobody_can_read_is_a_failed_launch(state: Path) -> None:
    async def main() -> None:
        async with scene_in(state) as scene:
            opened = scene.log.open_stream

            def unreadable(*words: Any) -> Any:
                stream = opened(*words)
                setattr(stream, "start_reading", no_threads)  # noqa: B010
                return stream

            def no_threads(_: object) -> None:
                raise RuntimeError("can't start new thread")

            setattr(scene.log, "open_stream", unreadable)  # noqa: B010
            await scene.launch()
            (failed,) = scene.posted
            assert isinstance(failed, LaunchFailed)
            assert "can't start new thread" in failed.reason
            assert scene.nothing_is_left()
            assert scene.spawner.spawned == 0

    asyncio.run(main())


def test_a_program_that_cannot_be_started_leaves_nothing(state: Path) -> None:
    async def main() -> None:
        async with scene_in(state) as scene:
            scene.spawner.gate.set()
            scene.spawner.error = RuntimeError("no such program")
            await scene.launch()
            assert [type(event) for event in scene.posted] == [LaunchFailed]
            assert scene.nothing_is_left()

    asyncio.run(main())


def test_preparing_that_ends_after_it_was_given_up_is_undone(state: Path) -> None:
    async def main() -> None:
        async with scene_in(state) as scene:
            gate = threading.Event()
            create = scene.groups.create

            def slow(*words: Any) -> Any:
                gate.wait(20)
                return create(*words)

            setattr(scene.groups, "create", slow)  # noqa: B010
            await scene.launch()
            assert [type(event) for event in scene.posted] == [LaunchFailed]
            assert not scene.nothing_is_left()

            gate.set()

            await scene.until(lambda: bool(scene.groups.made) and scene.nothing_is_left())
            assert scene.spawner.spawned == 0

    asyncio.run(main())


@pytest.mark.parametrize("error", [None, RuntimeError("no such program")])
def test_a_process_that_starts_after_it_was_given_up_is_ended(
    state: Path, error: Exception | None
) -> None:
    async def main() -> None:
        async with scene_in(state) as scene:
            scene.spawner.error = error
            await scene.launch()
            assert [type(event) for event in scene.posted] == [LaunchFailed]
            (stream,) = scene.log.streams.values()
            assert not stream._closed  # the thread may still hand its descriptor to a process

            scene.spawner.gate.set()

            await scene.until(scene.nothing_is_left)
            assert scene.groups.made[0].members == set()
            assert not any(isinstance(event, Launched) for event in scene.posted)

    asyncio.run(main())


def test_what_an_earlier_daemon_left_goes_unless_a_living_group_uses_it(state: Path) -> None:
    async def main() -> None:
        async with scene_in(state) as scene:
            for name in ("aaaaaaaa", "bbbbbbbb", "stray"):
                (state / "t" / name / "below").mkdir(parents=True)
            (state / "t" / "file").write_text("x")
            scene.groups.create("tiny", 1, "bbbbbbbb" + "0" * 8).members.add(99)

            await sweep_temporary(scene.shell)

            await scene.until(lambda: temporary_prefixes(state) == {"bbbbbbbb"})

    asyncio.run(main())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_suspect_caches_are_put_aside_unless_another_start_uses_them(
    state: Path, tmp_path: Path, elsewhere: bool
) -> None:
    cache = tmp_path / ".cache" / "vllm" / "torch_compile_cache"
    cache.mkdir(parents=True)
    told: list[Announce] = []

    async def main() -> None:
        async with scene_in(state) as scene:
            scene.shell.environment = {"HOME": str(tmp_path)}
            scene.shell.recorder = cast(
                "Recorder",
                SimpleNamespace(
                    announce=lambda _, one: told.append(one), save_attempt=lambda *_: None
                ),
            )
            if elsewhere:
                plan = SimpleNamespace(environment={"HOME": str(tmp_path)})
                other = SimpleNamespace(plan=plan, ready=False)
                scene.shell.live["other"] = cast("LiveAttempt", other)
            scene.spawner.gate.set()
            await launch(scene.shell, "tiny", Launch(1, {}, (), without_caches=True))
            scene.shell.live.pop("other", None)

    asyncio.run(main())
    assert cache.exists() is elsewhere
    assert [one.event for one in told] == ([] if elsewhere else ["caches-put-aside"])
    if not elsewhere:
        (aside,) = cache.parent.iterdir()
        assert str(aside) in told[0].text
