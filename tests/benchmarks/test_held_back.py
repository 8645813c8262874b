"""The second simulator obeys its own laws, is judged fairly, and the real daemon copes with it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks.held_back import __main__ as bench
from benchmarks.held_back import oracle, table
from benchmarks.held_back.diary import Attempt, attempts
from benchmarks.held_back.families import FAMILIES, scenario
from benchmarks.held_back.laws import HiddenLaws
from benchmarks.held_back.needs import block_bytes, full_batch_tokens, knobs_of
from benchmarks.held_back.play import Played
from benchmarks.held_back.rooms import SAMPLER_FIRST, Wall, first_wall, rooms
from benchmarks.held_back.scenario import Scenario
from benchmarks.held_back.score import mark
from benchmarks.held_back.truth import Settings
from vllm_warden.simulation.models import read_shape, write_model
from vllm_warden.simulation.physics import Knobs, KvPlan, Memory, MemoryTaken, OutOfMemory, Shape

HERE = Path(bench.__file__).parent
WALLS = {
    "profiled sampler": Wall.SAMPLER,
    "profiled activations": Wall.FORWARD,
    "post-KV sampler": Wall.WARMUP,
    "capture before 0.20": Wall.CAPTURE,
    "capture after 0.20": Wall.CAPTURE,
    "KV short, headroom": Wall.KV_PLAN,
    "KV short, no headroom": Wall.KV_PLAN,
    "no cache blocks": Wall.KV_PLAN,
    "first full batch": Wall.FULL_BATCH,
    "weights too big": Wall.LOAD,
    "healthy": None,
}


def test_it_shares_no_code_with_what_it_judges_nor_with_the_first_simulator() -> None:
    forbidden = ("vllm_warden.core", "vllm_warden.config", "benchmarks.convergence")
    # The daemon's one shortened wait is set from outside; nothing is computed with it.
    allowed = {("daemon.py", "vllm_warden.core.plan")}
    found = {
        (file.name, name)
        for file in HERE.glob("*.py")
        for name in _imports(file)
        if name.startswith(forbidden)
    }
    assert found == allowed


def _imports(file: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        elif isinstance(node, ast.Import):
            names += [one.name for one in node.names]
    return names


@pytest.mark.parametrize("family", sorted(WALLS))
def test_what_was_asked_ends_where_the_family_says(family: str) -> None:
    for number in range(4):
        drawn = scenario(7, number, family)
        launches = {first_wall(drawn.truth, drawn.asked, 0, launch) for launch in (1, 2, 3)}
        assert launches == {WALLS[family]}, drawn


def test_the_same_seed_and_number_give_the_same_scenario() -> None:
    for number in range(len(FAMILIES)):
        assert scenario(3, number) == scenario(3, number)
    assert scenario(3, 0) != scenario(4, 0)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_what_the_engine_allocates_ends_where_the_sums_say(family: str, tmp_path: Path) -> None:
    """Room within what rounding of single tensors can amount to is left out."""
    diary = tmp_path / "diary"
    for number in range(3):
        drawn = scenario(5, number, family)
        shape = read_shape(write_model(tmp_path / "m", dict(drawn.model.config), 1 << 30))
        for settings in (drawn.asked, *list(oracle.candidates(drawn))[:400:80]):
            found = rooms(drawn.truth, settings, 0, 1)
            if min(abs(room) for room in found.values()) < 1 << 20:
                continue
            laws = [partial(HiddenLaws, drawn.truth, rank, 1, diary) for rank in _ranks(drawn)]
            walked = _walk(drawn, knobs_of(drawn.truth, settings), shape, [one() for one in laws])
            assert walked is first_wall(drawn.truth, settings, 0, 1), (drawn, settings)
    noted = {one.wall for one in attempts(diary)}
    assert noted <= set(Wall) | {None}


def _ranks(drawn: Scenario) -> range:
    return range(drawn.truth.ranks)


def _walk(drawn: Scenario, knobs: Knobs, shape: Shape, laws: list[HiddenLaws]) -> Wall | None:
    """The stages as the stand-in engine runs them, on all ranks."""
    memories = [Memory(drawn.truth.total) for _ in laws]

    def each(stage: str) -> Wall | None:
        for rank, law in enumerate(laws):
            try:
                memories[rank] = _stage(law, memories[rank], shape, knobs, stage)
            except MemoryTaken:
                return Wall.INIT
            except OutOfMemory as error:
                return _wall_of(stage, error)
        return None

    for stage in ("init", "load", "profile"):
        if (wall := each(stage)) is not None:
            return wall
    available = min(law.available_kv_bytes(memories[0], knobs, 0) for law in laws)
    block = block_bytes(drawn.truth)
    if available // block * 16 < knobs.max_model_len:
        return Wall.KV_PLAN
    blocks = available // block
    late = ["sampler", "graphs"] if drawn.truth.version in SAMPLER_FIRST else ["graphs", "sampler"]
    for stage in (f"kv {blocks}", "kernels", *late, "batch"):
        if (wall := each(stage)) is not None:
            return wall
    return None


def _stage(law: HiddenLaws, memory: Memory, shape: Shape, knobs: Knobs, stage: str) -> Memory:
    name, _, blocks = stage.partition(" ")
    if name == "init":
        return law.init_device(memory, knobs)
    if name == "load":
        return list(law.load(memory, shape, knobs))[-1]
    if name == "profile":
        law.profile(memory, shape, knobs)
    elif name == "kv":
        cache = KvPlan(int(blocks), int(blocks) * block_bytes(law.truth))
        return law.allocate_kv(memory, cache, shape, knobs)
    elif name == "kernels":
        return law.warm_up_kernels(memory)
    elif name == "graphs":
        return [memory, *law.capture_graphs(memory, shape, knobs)][-1]
    elif name == "sampler":
        law.run_sampler(memory, shape, knobs)
    else:
        law.run_batch(memory, shape, knobs, full_batch_tokens(knobs))
    return memory


def _wall_of(stage: str, error: OutOfMemory) -> Wall:
    if stage == "profile":
        return Wall.FORWARD if error.site == "activations" else Wall.SAMPLER
    return {
        "load": Wall.LOAD,
        "kernels": Wall.KERNELS,
        "graphs": Wall.CAPTURE,
        "sampler": Wall.WARMUP,
        "batch": Wall.FULL_BATCH,
    }.get(stage, Wall.KV_ALLOC)


def _played(drawn: Scenario, *changes: Settings, up: bool = True) -> Played:
    walked = [{**drawn.asked, **one} for one in ({}, *changes)]
    noted = tuple(
        Attempt(at + 1, settings, first_wall(drawn.truth, settings, 0, at + 1))
        for at, settings in enumerate(walked)
    )
    return Played(drawn, up, not up, "ready" if up else "held", "", noted, {}, (), 1.0)


def test_a_move_that_makes_it_worse_is_counted_as_wrong() -> None:
    drawn = scenario(1, 0, "capture before 0.20")
    asked = float(drawn.asked["gpu_memory_utilization"])
    worse: Mapping[str, float] = {"gpu_memory_utilization": round(asked + 0.004, 4)}
    better: Mapping[str, float] = {"gpu_memory_utilization": round(asked - 0.02, 4)}
    assert (mark(_played(drawn, worse)).wrong, mark(_played(drawn, better)).wrong) == (1, 0)
    assert (mark(_played(drawn, worse)).out, mark(_played(drawn, better)).out) == (True, False)
    assert (mark(_played(drawn, {})).idle, mark(_played(drawn, better)).idle) == (1, 0)


def test_giving_up_what_could_have_been_cured_and_going_on_for_ever_miss_the_goals() -> None:
    curable = mark(_played(scenario(1, 0, "capture before 0.20"), up=False))
    hopeless = mark(_played(scenario(1, 0, "bad flag"), up=False))
    assert curable.is_missed
    assert not hopeless.is_missed
    late = replace(hopeless, played=replace(hopeless.played, stopped=False))
    assert late.is_missed
    assert [goal.met for goal in table.goals([curable, hopeless])] == [False, True, True, True]
    assert [goal.met for goal in table.goals([late])] == [True, False, True, True]
    assert "relaunches are enough" in table.story(curable)


@pytest.mark.slow
def test_the_real_daemon_brings_engines_up_that_obey_other_laws() -> None:
    names = (
        "profiled sampler",
        "post-KV sampler",
        "capture after 0.20",
        "KV short, headroom",
        "first full batch",
        "weights too big",
        "neighbour leaves",
    )
    drawn = [scenario(11, number, name) for number, name in enumerate(names)]
    marks = bench.run(drawn, daemons=1)
    told = "\n".join(table.story(one) for one in marks if one.is_missed)
    assert all(goal.met for goal in table.goals(marks)), told
    assert len(marks) == len(names)
