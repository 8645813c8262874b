"""GPU memory reaches the status, the event loop is left alone at rest, and a hang is named."""

import asyncio
import threading
import time
from types import SimpleNamespace

from tests.fakes.gpus import FakeGpus
from vllm_warden.daemon.sample import Pace, sample_gpus
from vllm_warden.daemon.shell import GpuView

QUICK = Pace(sample_seconds=0.002, late_seconds=0.1, retry_seconds=0.01, repeat_seconds=60)


class CountingView(GpuView):
    """Counts how often the event loop was given readings."""

    given = 0

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name == "readings":
            object.__setattr__(self, "given", self.given + 1)


def shell_with(gpus, view=None):
    ports = SimpleNamespace(gpus=gpus)
    return SimpleNamespace(ports=ports, live={}, gpu_view=view or GpuView(), now=time.monotonic)


async def until(holds):
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.005)


def sampling(shell, scenario):
    async def both():
        task = asyncio.create_task(sample_gpus(shell, QUICK))
        try:
            await scenario()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(both())


def test_memory_that_changes_is_seen():
    gpus = FakeGpus(count=2)
    shell = shell_with(gpus)

    async def scenario():
        await until(lambda: len(shell.gpu_view.readings) == 2)
        assert shell.gpu_view.problem is None
        before = shell.gpu_view.readings[1].free_bytes
        gpus.used[1] = {7: 1 << 30}
        await until(lambda: shell.gpu_view.readings[1].free_bytes == before - (1 << 30))

    sampling(shell, scenario)


def test_the_loop_is_not_woken_while_nothing_changes():
    gpus = FakeGpus()
    view = CountingView()

    async def scenario():
        await until(lambda: gpus.reads > 20)

    sampling(shell_with(gpus, view), scenario)
    assert view.given == 2  # the field's default, then the first readings


def test_every_sample_is_taken_while_an_attempt_starts():
    gpus = FakeGpus()
    view = CountingView()
    shell = shell_with(gpus, view)
    shell.live["a"] = SimpleNamespace(
        ready=False,
        gpu_total_bytes={},
        gpu_cuda_total_bytes={},
        take_sample=lambda _at, _used: False,
    )
    shell.instance = lambda _name: SimpleNamespace(gpu_indices=(0,))

    async def scenario():
        await until(lambda: view.given > 10)

    sampling(shell, scenario)


def test_an_attempt_knows_the_size_of_its_own_gpus_only():
    shell = shell_with(FakeGpus(count=3))
    live = SimpleNamespace(
        ready=False,
        gpu_total_bytes={},
        gpu_cuda_total_bytes={},
        take_sample=lambda _at, _used: False,
    )
    shell.live["a"] = live
    shell.instance = lambda _name: SimpleNamespace(gpu_indices=(1,))

    async def scenario():
        await until(lambda: live.gpu_total_bytes)

    sampling(shell, scenario)
    assert set(live.gpu_total_bytes) == {1}
    assert set(live.gpu_cuda_total_bytes) == {1}


def test_a_driver_that_cannot_be_used_is_named_and_asked_again():
    gpus = FakeGpus()
    gpus.unavailable = RuntimeError("cannot start NVML: Driver Not Loaded")
    shell = shell_with(gpus)

    async def scenario():
        await until(lambda: shell.gpu_view.problem == "cannot start NVML: Driver Not Loaded")
        assert shell.gpu_view.readings == ()
        gpus.unavailable = None
        await until(lambda: shell.gpu_view.problem is None)
        assert len(shell.gpu_view.readings) == 1

    sampling(shell, scenario)


def test_a_driver_that_hangs_is_late_until_it_answers():
    answers = threading.Event()
    answers.set()

    class Hanging(FakeGpus):
        def memory(self):
            answers.wait(10)
            return super().memory()

    shell = shell_with(Hanging())

    async def scenario():
        await until(lambda: shell.gpu_view.problem is None)
        answers.clear()
        await until(lambda: shell.gpu_view.problem == "NVML did not answer within 0.1 s")
        answers.set()
        await until(lambda: shell.gpu_view.problem is None)

    sampling(shell, scenario)
