"""A compiler that fails may have a damaged cache: it is put aside, once."""

from __future__ import annotations

import pytest

from tests.core.lifecycle.machine_room import PROFILE_SAMPLER_OOM, MachineRoom
from vllm_warden.core.plan.spec import InstanceSpec

SPEC = InstanceSpec("tiny", "/m", (), engine={"max_num_seqs": 1024})
_HEAD = "(Worker_TP0 pid=9) ERROR 11-29 12:00:00 [multiproc_executor.py:900] "
COMPILER_FAILED = tuple(
    _HEAD + line
    for line in (
        "Traceback (most recent call last):",
        '  File "/s/vllm/v1/worker/gpu_worker.py", line 300, in determine_available_memory',
        '  File "/s/vllm/compilation/backends.py", line 200, in compile',
        '  File "/s/torch/_inductor/compile_fx.py", line 800, in _compile_fx_inner',
        "torch._inductor.exc.InductorError: RuntimeError: cannot load the cached artifact",
    )
)


@pytest.fixture
def room() -> MachineRoom:
    made = MachineRoom(SPEC)
    made.start()
    return made


def without_caches(room: MachineRoom) -> list[bool]:
    return [one.without_caches for one in room.launches]


def test_the_next_launch_is_without_what_was_compiled_before_and_only_that(
    room: MachineRoom,
) -> None:
    for _ in range(2):
        room.die(1, *COMPILER_FAILED)
        room.advance(120)
        room.open_gate()

    assert without_caches(room) == [False, True, False]


@pytest.mark.parametrize("incomplete", [False, True])
def test_no_other_death_costs_the_caches(room: MachineRoom, incomplete: bool) -> None:
    lines = COMPILER_FAILED if incomplete else PROFILE_SAMPLER_OOM
    room.die(1, *lines, incomplete=incomplete)
    room.advance(120)
    room.open_gate()

    assert without_caches(room) == [False, False]


def test_a_serving_engine_that_compiles_late_keeps_them(room: MachineRoom) -> None:
    room.ready()
    room.die(1, *COMPILER_FAILED)
    room.open_gate()

    assert without_caches(room) == [False, False]
