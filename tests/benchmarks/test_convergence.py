"""The simulator is neither easy nor unfair, and our policy keeps its hardest promises in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from benchmarks.convergence import acceptance, families, oracle, physics, run, score
from benchmarks.convergence.boot import boot
from benchmarks.convergence.eras import ERAS
from benchmarks.convergence.families import FAMILIES, scenario
from benchmarks.convergence.log_text import log_of
from benchmarks.convergence.physics import Others
from benchmarks.convergence.scenario import GIB, MIB, Truth, Wall
from benchmarks.convergence.score import Mark
from benchmarks.convergence.seen import evidence_of
from benchmarks.convergence.stress import STRESSES, stressed
from benchmarks.convergence.warden import played
from benchmarks.convergence.world import World
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.model import Failure, Phase

SEED = 1
EACH = 8
HERE = Path(run.__file__).parent
MEETS_OUR_CODE = {"warden.py", "seen.py"}


@pytest.fixture(scope="module")
def marks() -> list[Mark]:
    return run.Work(SEED, tuple(run.policies())).marks(range(EACH * len(FAMILIES)))


def test_others_fare_in_the_simulator_as_they_do_elsewhere(marks: list[Mark]) -> None:
    names = [*run.policies()]
    rows = [score.row(name, [one for one in marks if one.policy == name]) for name in names]
    found = acceptance.checks(rows, marks)
    assert [check for check in found if not check.holds] == []
    assert len(found) == len(acceptance.SOLVED) + 1


def test_families_have_equal_shares_and_all_but_a_few_can_be_cured(marks: list[Mark]) -> None:
    own = [one for one in marks if one.policy == run.OWN]
    assert set(Counter(one.family for one in own).values()) == {EACH}
    hopeless = {one.family for one in own if not one.feasible}
    assert hopeless >= families.INFEASIBLE
    assert hopeless <= families.INFEASIBLE | set(families.MAY_BE_INFEASIBLE)


def test_our_policy_never_moves_the_wrong_way_nor_out_of_bounds(marks: list[Mark]) -> None:
    own = [one for one in marks if one.policy == run.OWN]
    assert [(one.family, one.number) for one in own if one.wrong or one.out] == []


@pytest.mark.parametrize("family", sorted(families.INFEASIBLE))
def test_what_no_knob_helps_is_given_up_without_a_relaunch(marks: list[Mark], family: str) -> None:
    own = [one for one in marks if one.policy == run.OWN and one.family == family]
    assert [one.number for one in own if one.relaunches or not one.stopped] == []


@pytest.mark.parametrize("family", ["seed incident", "post-KV sampler"])
def test_one_relaunch_cures(marks: list[Mark], family: str) -> None:
    own = [one for one in marks if one.policy == run.OWN and one.family == family]
    assert [one.number for one in own if one.relaunches != 1 or not one.solved] == []


@pytest.mark.parametrize("family", ["neighbour leaves", "orphan lingers"])
def test_memory_that_comes_back_costs_nothing(marks: list[Mark], family: str) -> None:
    own = [one for one in marks if one.policy == run.OWN and one.family == family]
    assert [one.number for one in own if one.relaunches or one.changed or not one.solved] == []


def test_a_number_means_the_same_scenario_for_ever() -> None:
    assert scenario(SEED, 14) == scenario(SEED, 14)
    assert scenario(SEED, 14) != scenario(SEED + 1, 14)


def test_the_simulator_shares_no_code_with_what_it_judges() -> None:
    for path in HERE.glob("*.py"):
        if path.name not in MEETS_OUR_CODE:
            assert not re.search(r"(from|import) vllm_warden", path.read_text()), path.name


def test_room_at_each_wall_is_what_a_hand_computes() -> None:
    """100 GiB, 50 of weights, R 90: 90 - 50 - 8 = 32 for KV; 99 - 50 - 32 - 0.5 - 3 = 13.5."""
    truth = Truth(
        era=ERAS["0.15.1"],
        total=100 * GIB,
        ranks=1,
        weights=50 * GIB,
        context=GIB,
        nccl=0,
        act_fixed=0,
        act_per_token=MIB,
        vocab=100_000,
        row_factor=1.0,
        layers=32,
        kv_heads=8,
        head_dim=128,
        graphs_full=3 * GIB,
        estimate_factor=1.0,
        fragmentation=0.0,
        drift=GIB // 2,
        jitter=0,
    )
    asked = {
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.9,
        "max_model_len": 16384,
    }
    room = {wall: left / GIB for wall, left in physics.slacks(truth, asked, Others()).items()}
    sampler = 50 * 256 * 100_000 / GIB
    assert room[Wall.INIT] == pytest.approx(9)
    assert room[Wall.LOAD] == pytest.approx(49)
    assert room[Wall.PROFILE_FORWARD] == pytest.approx(41)
    assert room[Wall.KV_PLAN] == pytest.approx(32 - 2)
    assert room[Wall.CAPTURE] == pytest.approx(13.5)
    assert room[Wall.WARMUP] == pytest.approx(13.5 - sampler)
    assert room[Wall.FULL_BATCH] == pytest.approx(5.5)


def test_the_oracle_leaves_no_utilization_unused() -> None:
    below_the_bound = 0
    for number in range(EACH):
        found = scenario(SEED, number, "graph capture")
        best = oracle.best(found).settings
        assert best is not None
        assert oracle.stays_up(found, best)
        higher = round(float(best["gpu_memory_utilization"]) + 0.0001, 4)
        if higher > found.operator.ranges["gpu_memory_utilization"][1]:
            continue
        below_the_bound += 1
        assert not oracle.stays_up(found, {**best, "gpu_memory_utilization": higher})
    assert below_the_bound


EXPECTED = {
    Wall.FLAG: (Failure.CONFIGURATION_INVALID, Phase.ARGS),
    Wall.INIT: (Failure.GPU_MEMORY_TAKEN, Phase.INIT_DEVICE),
    Wall.LOAD: (Failure.GPU_OUT_OF_MEMORY, Phase.LOAD),
    Wall.PROFILE_FORWARD: (Failure.GPU_OUT_OF_MEMORY, Phase.PROFILE),
    Wall.PROFILE_SAMPLER: (Failure.GPU_OUT_OF_MEMORY, Phase.PROFILE),
    Wall.DISTURBED: (Failure.MEMORY_PROFILING_DISTURBED, Phase.PROFILE),
    Wall.KV_PLAN: (Failure.KV_CACHE_TOO_SMALL, Phase.KV_PLAN),
    Wall.STATE_BLOCKS: (Failure.KV_CACHE_TOO_SMALL, Phase.CUDAGRAPH),
    Wall.KV_ALLOC: (Failure.GPU_OUT_OF_MEMORY, Phase.KV_ALLOC),
    Wall.CAPTURE: (Failure.GPU_OUT_OF_MEMORY, Phase.CUDAGRAPH),
    Wall.WARMUP: (Failure.GPU_OUT_OF_MEMORY, Phase.WARMUP),
    Wall.FULL_BATCH: (Failure.GPU_OUT_OF_MEMORY, Phase.SERVING),
    Wall.SPIKE: (Failure.GPU_OUT_OF_MEMORY, Phase.SERVING),
    Wall.EXIT: (Failure.KILLED_BY_SIGNAL, Phase.SERVING),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_log_of_each_death_tells_what_it_was(family: str) -> None:
    for number in range(EACH):
        found = scenario(SEED, number, family)
        outcome = boot(found, World(found), found.operator.asked, 1)
        if outcome.wall is None:
            continue
        lines = log_of(found, outcome)
        diagnosis = diagnose(evidence_of(found, outcome, lines, outcome.settings))
        assert (diagnosis.failure, diagnosis.phase) == EXPECTED[outcome.wall], lines[-1]


def test_nothing_of_the_simulator_reaches_what_decides() -> None:
    """All that the state machine holds in the end are plain values and core's own types."""
    shell = played(scenario(SEED, 0, "seed incident"))
    assert len(shell.game.attempts) == 2
    assert shell.instance.diagnosis is not None
    assert {name for name in _modules(shell.instance) if "benchmarks" in name} == set()


def _modules(value: object) -> set[str]:
    found = {type(value).__module__}
    if is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, Mapping):
        inside = [*value.keys(), *value.values()]
    else:
        inside = list(value) if isinstance(value, list | tuple | set | frozenset) else []
    for one in inside:
        found |= _modules(one)
    return found


@pytest.mark.parametrize("name", sorted(STRESSES))
def test_a_broken_assumption_changes_the_truth_and_nothing_that_was_asked(name: str) -> None:
    plain = scenario(SEED, 4, "post-KV sampler")
    broken = stressed(plain, name)
    assert broken.operator == plain.operator
    assert (broken.truth, broken.load) != (plain.truth, plain.load)
    assert stressed(plain, name) == broken


def test_a_neighbour_takes_no_more_than_an_idle_engine_leaves() -> None:
    for number in range(2 * EACH):
        found = scenario(SEED, number, "neighbour grows")
        assert found.neighbour is not None
        start, grown = found.neighbour.start_bytes, found.neighbour.final_bytes
        room = physics.slacks(found.truth, found.operator.asked, Others(start, start, grown))
        peak = physics.needs(found.truth, found.operator.asked).peak
        assert room[Wall.FULL_BATCH] + peak * (1 + found.truth.fragmentation) >= 0
