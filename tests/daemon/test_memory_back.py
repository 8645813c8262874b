"""A stop waits for memory as long as it comes back, and names what the driver keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.gpus import FakeGpus
from vllm_warden.daemon import memory_back
from vllm_warden.daemon.shell import GpuView, Lanes

GIB = 1 << 30


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, int]]:
    def run(
        *ownerless: int, error: str = "", wanted: bool = False, gpus: tuple[int, ...] = (0,)
    ) -> Any:
        """What is kept after looks that found so many GiB without an owner, one a second."""
        clock, fake = FakeClock(), FakeGpus(2)
        left = list(ownerless)
        fake.errors = {0: error} if error else {}

        def look() -> Any:
            clock.advance(1.0)
            fake.ownerless = (left.pop(0) if len(left) > 1 else left[0]) * GIB
            return FakeGpus.memory_with_holders(fake)

        monkeypatch.setattr(fake, "memory_with_holders", look)
        monkeypatch.setattr(memory_back, "LOOK_SECONDS", 0)
        instance = SimpleNamespace(gpu_indices=gpus, wanted=wanted)
        shell: Any = SimpleNamespace(
            lanes=Lanes(),
            live={},
            gpu_view=GpuView(),
            ports=SimpleNamespace(gpus=fake),
            instance=lambda _: instance,
            now=clock.now_seconds,
        )
        kept = asyncio.run(asyncio.wait_for(memory_back.memory_back(shell, "x"), 20))
        return kept, fake.reads

    return run


def test_memory_that_is_back_at_once_is_looked_at_once(waited: Any) -> None:
    assert waited(0) == ("", 1)


def test_it_waits_as_long_as_memory_comes_back(waited: Any) -> None:
    assert waited(*range(60, -1, -1)) == ("", 61)


def test_what_stays_is_named_with_what_would_free_it(waited: Any) -> None:
    kept, reads = waited(60, 50, 40)

    assert kept.startswith("GPU 0: the driver keeps 39.")
    assert "reset of the GPU or a reboot" in kept
    assert reads == 9


@pytest.mark.parametrize(
    "world", [{"error": "unknown"}, {"wanted": True}, {"gpus": ()}], ids=lambda one: next(iter(one))
)
def test_nothing_is_waited_for_where_nobody_knows_or_somebody_wants_a_start(
    waited: Any, world: dict[str, Any]
) -> None:
    kept, reads = waited(60, **world)

    assert (kept, reads <= 1) == ("", True)
