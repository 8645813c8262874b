"""What the kernel said of an attempt joins its evidence, and never holds the verdict up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.daemon.test_launch import Scene
from vllm_warden.core.lifecycle.effects import Launch
from vllm_warden.core.lifecycle.events import EvidenceGathered
from vllm_warden.core.model import Failure, GpuReading
from vllm_warden.daemon.launch import launch
from vllm_warden.daemon.release import collect
from vllm_warden.daemon.shell import GpuView
from vllm_warden.daemon.threads import Lane

KILLED = "Memory cgroup out of memory: Killed process 1234 (vllm) total-vm:9kB"
LOST = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


class Recorder:
    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_args, **_more: None


class Kernel:
    def __init__(self, say: Callable[[], Sequence[str]]) -> None:
        self.say = say
        self.asked_since: list[float] = []

    def lines(self, since_seconds: float) -> Sequence[str]:
        self.asked_since.append(since_seconds)
        return self.say()


def gathered(state: Path, kernel: Kernel, gpus: tuple[GpuReading, ...] = ()) -> EvidenceGathered:
    """An engine is launched, dies at once, and its evidence is gathered."""

    async def main() -> EvidenceGathered:
        scene = Scene(state)
        recorder: Any = Recorder()
        scene.shell.recorder = recorder
        scene.shell.lanes.kernel_log = Lane("the kernel's log", 0.1)
        scene.shell.ports = replace(scene.shell.ports, kernel_log=kernel)
        scene.shell.gpu_view = GpuView(gpus, None)
        name = scene.shell.loop.instances["tiny"]
        scene.shell.loop.instances["tiny"] = replace(
            name, gpu_indices=tuple(gpu.index for gpu in gpus if gpu.index == 0)
        )
        scene.spawner.gate.set()
        try:
            await launch(scene.shell, "tiny", Launch(1, {}, ()))
            kernel.launched = scene.shell.live["tiny"].launched_seconds  # type: ignore[attr-defined]
            await collect(scene.shell, "tiny", 1)
            return next(one for one in scene.posted if isinstance(one, EvidenceGathered))
        finally:
            await scene.shell.cancel_tasks()
            scene.shell.lanes.close()

    return asyncio.run(main())


def card(index: int, pci: str) -> GpuReading:
    return GpuReading(index, f"GPU-{index}", "H100", 80 << 30, 80 << 30, pci=pci)


def test_an_oom_kill_of_its_own_process_is_the_verdict(tmp_path: Path) -> None:
    kernel = Kernel(lambda: [KILLED])
    event = gathered(tmp_path, kernel)
    assert event.evidence.kernel_lines == (KILLED,)
    assert event.diagnosis.failure is Failure.HOST_OUT_OF_MEMORY
    assert kernel.asked_since == [kernel.launched]  # type: ignore[attr-defined]


def test_an_oom_kill_of_another_process_is_not(tmp_path: Path) -> None:
    event = gathered(tmp_path, Kernel(lambda: [KILLED.replace("1234", "77")]))
    assert event.diagnosis.failure is not Failure.HOST_OUT_OF_MEMORY


def test_a_lost_gpu_counts_for_the_instance_that_had_it(tmp_path: Path) -> None:
    ours = (card(0, "00000000:3B:00.0"), card(1, "00000000:AF:00.0"))
    theirs = (card(0, "00000000:AF:00.0"), card(1, "00000000:3B:00.0"))
    assert gathered(tmp_path, Kernel(lambda: [LOST]), ours).diagnosis.failure is Failure.GPU_FAULT
    other = gathered(tmp_path, Kernel(lambda: [LOST]), theirs)
    assert other.diagnosis.failure is not Failure.GPU_FAULT
    assert gathered(tmp_path, Kernel(lambda: [LOST])).diagnosis.failure is not Failure.GPU_FAULT


def test_a_kernel_log_that_fails_or_hangs_is_done_without(tmp_path: Path) -> None:
    def fail() -> Sequence[str]:
        raise OSError(5, "broken journal")

    def hang() -> Sequence[str]:
        time.sleep(0.5)
        return [KILLED]

    for say in (fail, hang):
        event = gathered(tmp_path, Kernel(say))
        assert event.evidence.kernel_lines == ()
        assert not event.evidence.incomplete
