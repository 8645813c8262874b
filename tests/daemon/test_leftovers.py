"""What an earlier daemon left is ended and told; what nobody can place is named and left alone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.groups import FakeAttemptGroup, FakeGroups
from tests.fakes.process_watch import FakeProcessWatch
from vllm_warden.core.lifecycle.effects import Announce
from vllm_warden.core.lifecycle.found import FoundEngine
from vllm_warden.daemon import leftovers, remains
from vllm_warden.daemon.leftovers import end_leftovers

GOES_ON = FoundEngine(
    attempt=3,
    launch_id="aaaaaaaa00000000",
    settings={},
    gpu_indices=(),
    launched_seconds=1.0,
    identity=None,
)


class Recorder:
    def __init__(self) -> None:
        self.conditions: dict[str, str | None] = {}
        self.told: list[tuple[str, Announce]] = []

    def set_condition(self, key: str, text: str | None) -> None:
        self.conditions[key] = text

    def announce(self, name: str, announcement: Announce) -> int:
        self.told.append((name, announcement))
        return len(self.told)


class Clock(FakeClock):
    def now_seconds(self) -> float:
        self.advance(0.1)
        return super().now_seconds()


class Scene:
    def __init__(self) -> None:
        self.watch = FakeProcessWatch()
        self.groups, self.recorder, clock = FakeGroups(), Recorder(), Clock()
        self.tasks: list[asyncio.Task[None]] = []
        self.shell: Any = SimpleNamespace(
            ports=SimpleNamespace(groups=self.groups, watch=self.watch),
            recorder=self.recorder,
            now=clock.now_seconds,
            start=lambda work: self.tasks.append(asyncio.ensure_future(work)),
        )

    def left(self, instance: str, attempt: int, launch_id: str, *pids: int) -> FakeAttemptGroup:
        group = self.groups.create(instance, attempt, launch_id)
        group.members.update(pids)
        return group

    def end(self, adopted: dict[str, FoundEngine]) -> list[tuple[str, str]]:
        async def main() -> None:
            await end_leftovers(self.shell, adopted)
            await asyncio.gather(*self.tasks)

        asyncio.run(main())
        return [(name, one.text) for name, one in self.recorder.told]


def test_each_attempt_that_is_ended_is_an_event_of_its_instance() -> None:
    scene = Scene()
    kept = scene.left("one", 3, GOES_ON.launch_id, 1)
    scene.left("one", 2, "bbbbbbbb", 2, 3)
    scene.left("gone", 7, "cccccccc", 4)

    told = scene.end({"one": GOES_ON})

    assert told == [
        ("one", "ended what an earlier daemon had left: 2 processes of attempt 2"),
        ("gone", "ended what an earlier daemon had left: 1 process of attempt 7"),
    ]
    assert kept.members == {1}
    assert scene.recorder.told[0][1].data["pids"] == [2, 3]


def test_a_second_group_with_the_number_of_the_one_that_goes_on_is_ended() -> None:
    scene = Scene()
    kept = scene.left("one", 3, GOES_ON.launch_id, 1)
    second = scene.left("one", 3, "dddddddd", 9)

    (told,) = scene.end({"one": GOES_ON})

    assert (kept.members, second.members) == ({1}, set())
    assert "1 process of attempt 3" in told[1]


def test_a_group_of_an_instance_without_an_attempts_name_is_ended() -> None:
    scene = Scene()
    nameless = scene.left("one", 0, "", 5)

    (told,) = scene.end({"one": GOES_ON})

    assert nameless.members == set()
    assert "no attempt by its name" in told[1]


def test_what_does_not_end_is_an_event_and_a_condition_until_it_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    group = scene.left("one", 2, "bbbbbbbb", 2, 3)
    group.unkillable = {3}
    scene.watch.titles, scene.watch.stuck = {3: "VLLM::Worker"}, {3: "nv_wait"}
    seen: list[str | None] = []

    def kept(key: str, text: str | None) -> None:
        if key == f"remains-{group.path}":
            seen.append(text)
            group.members.clear()  # it ends after it was named once

    monkeypatch.setattr(scene.recorder, "set_condition", kept)
    monkeypatch.setattr(remains, "LOOK_SECONDS", 0)
    (told,) = scene.end({})

    assert "1 of 2 processes of attempt 2" in told[1]
    named, gone = seen
    assert "one: killed, but still there: 3 (VLLM::Worker, waits in the kernel" in str(named)
    assert gone is None
    assert group.removed


def test_what_nobody_can_place_is_a_condition_as_long_as_it_is_there(monkeypatch: Any) -> None:
    monkeypatch.setattr(leftovers, "STRANGE_LOOK_SECONDS", 0.01)
    scene = Scene()
    looks = iter([["/cg/else: process 7"], ["/cg/else: process 7"], []])
    seen: list[str | None] = []
    keep = scene.recorder.set_condition

    def watch(key: str, text: str | None) -> None:
        seen.append(text)
        keep(key, text)

    monkeypatch.setattr(scene.groups, "strange", lambda: next(looks))
    monkeypatch.setattr(scene.recorder, "set_condition", watch)

    assert scene.end({}) == []
    assert "/cg/else: process 7" in str(seen[0])
    assert scene.recorder.conditions[leftovers.STRANGE] is None
