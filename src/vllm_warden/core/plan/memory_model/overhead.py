"""What a rank holds beside tensors: the CUDA context, NCCL, libraries, CUDA graphs."""

from __future__ import annotations

from vllm_warden.core.model import GIB, MIB
from vllm_warden.core.plan.memory_model.engine_options import EngineOptions
from vllm_warden.core.plan.memory_model.era import CAPTURE_LIMIT_SINCE, Era
from vllm_warden.core.plan.memory_model.model_shape import ModelShape
from vllm_warden.core.plan.memory_model.term import Source, Term

CONTEXT_BYTES = 520 * MIB
"""CUDA context with the kernels of torch and vLLM: 450 to 600 MiB on Ampere and newer."""
NCCL_BYTES = 700 * MIB
"""Channel buffers of NCCL and of vLLM's own all-reduce: 0.4 to 1.1 GiB from 2 ranks on."""
LIBRARIES_BYTES = 256 * MIB
"""cuBLAS and attention workspaces outside torch: logs of 0.6 to 0.8 print 0.16 to 0.39 GiB."""
GRAPH_BASE_BYTES = 200 * MIB
GRAPH_BYTES_PER_LAYER_AND_SIZE = 650_000
"""Logs of 0.8 to 0.16 print 0.5 GiB (32 layers, 67 sizes) to 3 GiB (62 layers, 51 sizes)."""
CAPTURE_LIMIT = 512


def context(options: EngineOptions) -> Term:
    """Context, and NCCL where there is more than one rank."""
    has_peers = options.layout.gpus > 1
    size = CONTEXT_BYTES + (NCCL_BYTES if has_peers else 0)
    note = "CUDA context and NCCL" if has_peers else "CUDA context"
    return Term("context", size, Source.ASSUMED, GIB // 2 if has_peers else 150 * MIB, note)


def libraries() -> Term:
    return Term("libraries", LIBRARIES_BYTES, Source.ASSUMED, 200 * MIB, "cuBLAS, attention")


def graphs(shape: ModelShape, options: EngineOptions, era: Era, layers: range) -> Term:
    """Real bytes of captured CUDA graphs; nothing when eager."""
    if options.enforce_eager:
        return Term("CUDA graphs", 0, Source.COMPUTED, 0, "enforce_eager")
    del shape
    count = len(capture_sizes(options, era))
    size = GRAPH_BASE_BYTES + GRAPH_BYTES_PER_LAYER_AND_SIZE * count * len(layers)
    return Term("CUDA graphs", size, Source.ASSUMED, int(size * 0.6), f"{count} batch sizes")


def capture_sizes(options: EngineOptions, era: Era) -> tuple[int, ...]:
    """Batch sizes that get a graph (``_set_cudagraph_sizes`` of 0.10 to 0.33)."""
    if era.version < CAPTURE_LIMIT_SINCE:
        sizes = [1, 2, 4, *range(8, CAPTURE_LIMIT + 1, 8)]
        return tuple(size for size in sizes if size <= options.max_num_batched_tokens)
    reach = 2 * options.max_num_seqs * (1 + options.speculative_tokens)
    largest = options.capture_max or min(reach, CAPTURE_LIMIT)
    largest = min(largest, options.max_num_batched_tokens)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)]
    return tuple(size for size in sizes if size <= largest)
