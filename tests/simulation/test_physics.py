"""The arithmetic of a start: what fails follows from settings and memory, always the same way."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_warden.simulation import physics
from vllm_warden.simulation.host import RESERVED_MIB, TOTAL_MIB
from vllm_warden.simulation.models import read_shape, write_minimax_m25
from vllm_warden.simulation.physics import (
    Knobs,
    KvPlan,
    Memory,
    MemoryTaken,
    ModelLenTooLong,
    NoCacheBlocks,
    OutOfMemory,
    Shape,
)

MIB = 1 << 20
EMPTY = Memory((TOTAL_MIB - RESERVED_MIB) * MIB)
INCIDENT = Knobs(max_model_len=131_072, tensor_parallel=4, gpu_memory_utilization=0.95)


@pytest.fixture(scope="module")
def shape(tmp_path_factory: pytest.TempPathFactory) -> Shape:
    return read_shape(write_minimax_m25(tmp_path_factory.mktemp("model") / "m"))


def start(shape: Shape, knobs: Knobs, memory: Memory = EMPTY) -> tuple[Memory, KvPlan]:
    """One rank from nothing to ready: memory after capture, and the cache."""
    memory = physics.init_device(memory, knobs)
    *_, memory = physics.load(memory, shape, knobs)
    peak = physics.profile(memory, shape, knobs)
    cache = physics.plan_kv(shape, knobs, physics.available_kv_bytes(memory, knobs, peak))
    memory = physics.warm_up_kernels(physics.allocate_kv(memory, cache, shape, knobs))
    *_, memory = (memory, *physics.capture_graphs(memory, shape, knobs))
    physics.run_sampler(memory, shape, knobs)
    return memory, cache


def death(shape: Shape, knobs: Knobs) -> OutOfMemory:
    with pytest.raises(OutOfMemory) as caught:
        start(shape, knobs)
    return caught.value


def identity(error: OutOfMemory, shape: Shape, knobs: Knobs) -> float:
    """Utilization that leaves room for the graphs and a margin, from the OOM text's numbers."""
    memory = error.memory
    usable = memory.free_bytes + memory.allocated_bytes
    peak = max(physics.activation_bytes(shape, knobs), physics.sampler_bytes(shape, knobs))
    margin = int(0.3 * (1 << 30)) + peak * 4 // 100
    return round((usable - memory.private_bytes - margin) / memory.total_bytes, 4)


def test_loading_the_model_of_the_incident_shows_56179_mib_on_each_gpu(shape: Shape) -> None:
    *_, loaded = physics.load(physics.init_device(EMPTY, INCIDENT), shape, INCIDENT)
    assert loaded.held_bytes // MIB == 56_179


def test_the_incident_dies_in_the_sampler_after_the_cache_and_the_graphs_exist(
    shape: Shape,
) -> None:
    error = death(shape, INCIDENT)
    assert error.site == "sampler"
    assert error.memory.private_bytes > 2 << 30
    assert error.memory.free_bytes < error.tried_bytes


def test_unchanged_settings_die_again_with_the_same_numbers(shape: Shape) -> None:
    first, second = death(shape, INCIDENT), death(shape, INCIDENT)
    assert (first.site, first.tried_bytes, first.memory) == (
        second.site,
        second.tried_bytes,
        second.memory,
    )


@pytest.mark.parametrize("seqs", [1024, 512, 256, 128])
def test_utilization_by_the_identity_starts_and_serves_a_full_batch(
    shape: Shape, seqs: int
) -> None:
    utilization = identity(death(shape, INCIDENT), shape, INCIDENT)
    knobs = replace(INCIDENT, gpu_memory_utilization=utilization, max_num_seqs=seqs)
    memory, cache = start(shape, knobs)
    physics.run_batch(memory, shape, knobs, 8192)
    assert cache.tokens > 131_072


def test_half_the_sequences_alone_die_again(shape: Shape) -> None:
    assert death(shape, replace(INCIDENT, max_num_seqs=512)).site == "sampler"


def test_a_quarter_of_the_sequences_alone_starts_and_dies_at_the_first_full_batch(
    shape: Shape,
) -> None:
    knobs = replace(INCIDENT, max_num_seqs=256)
    memory, _ = start(shape, knobs)
    physics.run_batch(memory, shape, knobs, 100)
    with pytest.raises(OutOfMemory):
        physics.run_batch(memory, shape, knobs, 100_000)


@pytest.mark.parametrize("utilization", [0.95, 0.5])
def test_half_the_gpus_die_in_weight_load_whatever_the_utilization(
    shape: Shape, utilization: float
) -> None:
    knobs = replace(INCIDENT, tensor_parallel=2, gpu_memory_utilization=utilization)
    assert death(shape, knobs).site == "weights"


def test_too_small_a_utilization_leaves_no_cache_blocks(shape: Shape) -> None:
    with pytest.raises(NoCacheBlocks):
        start(shape, replace(INCIDENT, gpu_memory_utilization=0.5))


def test_the_printed_estimate_is_a_length_that_starts(shape: Shape) -> None:
    small = replace(INCIDENT, gpu_memory_utilization=0.7)
    with pytest.raises(ModelLenTooLong) as caught:
        start(shape, small)
    _, cache = start(shape, replace(small, max_model_len=caught.value.estimate_tokens))
    assert cache.tokens == caught.value.estimate_tokens


def test_more_than_is_free_is_refused_at_once(shape: Shape) -> None:
    with pytest.raises(MemoryTaken):
        start(shape, INCIDENT, replace(EMPTY, others_bytes=8 << 30))


def test_far_too_many_sequences_die_in_profiling(shape: Shape) -> None:
    error = death(shape, replace(INCIDENT, max_num_seqs=8192))
    assert (error.site, error.memory.private_bytes) == ("sampler", 0)


def test_far_too_many_batched_tokens_die_in_the_forward_pass(shape: Shape) -> None:
    assert death(shape, replace(INCIDENT, max_num_batched_tokens=131_072)).site == "activations"


def test_without_graphs_the_incident_does_not_happen(shape: Shape) -> None:
    start(shape, replace(INCIDENT, enforce_eager=True))


@given(low=st.floats(0.1, 0.9), more=st.floats(0.001, 0.1), seqs=st.integers(1, 2048))
def test_more_utilization_is_more_cache(low: float, more: float, seqs: int) -> None:
    memory = replace(EMPTY, allocated_bytes=10 << 30)
    knobs = Knobs(max_model_len=4096, gpu_memory_utilization=low, max_num_seqs=seqs)
    higher = replace(knobs, gpu_memory_utilization=low + more)
    peak = 1 << 30
    assert physics.available_kv_bytes(memory, higher, peak) > physics.available_kv_bytes(
        memory, knobs, peak
    )


@given(size=st.integers(1, 200 << 30), others=st.integers(0, 90 << 30))
def test_nothing_is_ever_given_that_is_not_there(size: int, others: int) -> None:
    memory = replace(EMPTY, others_bytes=others)
    if size * 1.04 < memory.free_bytes:
        grown = memory.allocate(size, "weights", 0.04)
        assert grown.held_bytes + grown.others_bytes + grown.free_bytes == EMPTY.total_bytes
    elif size > memory.free_bytes:
        with pytest.raises(OutOfMemory) as caught:
            memory.allocate(size, "weights", 0.04)
        assert caught.value.memory == memory


def test_fewer_sequences_capture_fewer_graphs() -> None:
    many, few = Knobs(1024, max_num_seqs=256), Knobs(1024, max_num_seqs=64)
    assert len(physics.capture_sizes(many)) == 51
    assert physics.capture_sizes(few)[-1] == 128
