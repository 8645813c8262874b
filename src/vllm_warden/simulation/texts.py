"""Holds the error texts of vLLM and torch by era, filled with the simulation's numbers."""

from __future__ import annotations

from vllm_warden.simulation.era import current
from vllm_warden.simulation.physics import MemoryTaken, ModelLenTooLong, OutOfMemory

MORE_TIPS = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"


def torch_size(size_bytes: int) -> str:
    """Sizes as torch's allocator prints them: two decimals, binary units."""
    if size_bytes <= 1024:
        return f"{size_bytes} bytes"
    if size_bytes <= 1 << 20:
        return f"{size_bytes / (1 << 10):.2f} KiB"
    if size_bytes <= 1 << 30:
        return f"{size_bytes / (1 << 20):.2f} MiB"
    return f"{size_bytes / (1 << 30):.2f} GiB"


def gib(size_bytes: int) -> str:
    """GiB as vLLM prints them: since 0.14 as a rounded Python float, before with two places."""
    if current().version == "0.9.2":
        return f"{size_bytes / (1 << 30):.2f}"
    return str(round(size_bytes / (1 << 30), 2))


def torch_out_of_memory(error: OutOfMemory, gpu: int, others: dict[int, int]) -> str:
    """The text of ``torch.OutOfMemoryError``; gpu is the ordinal that the engine sees."""
    memory = error.memory
    neighbours = "".join(
        f"Process {pid} has {torch_size(held)} memory in use. " for pid, held in others.items()
    )
    private = ""
    if memory.private_bytes:
        graphs = torch_size(memory.private_bytes)
        private = f" with {graphs} allocated in private pools (e.g., CUDA Graphs),"
    return (
        f"CUDA out of memory. Tried to allocate {torch_size(error.tried_bytes)}. "
        f"GPU {gpu} has a total capacity of {torch_size(memory.total_bytes)} "
        f"of which {torch_size(memory.free_bytes)} is free. {neighbours}"
        f"Including non-PyTorch memory, this process has {torch_size(memory.held_bytes)} "
        f"memory in use. Of the allocated memory {torch_size(memory.allocated_bytes)} is "
        f"allocated by PyTorch,{private} and {torch_size(memory.unallocated_bytes)} is reserved "
        "by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        f"{_ALLOCATOR.get(current().version, _ALLOCATOR_OF_2_10)}"
    )


_SEE = (
    "=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  "
)
_PAGES = "https://pytorch.org/docs/stable/notes/cuda.html#environment-variables"
_NEW_PAGES = (
    "https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf"
)
_ALLOCATOR_OF_2_10 = f"PYTORCH_ALLOC_CONF{_SEE}({_PAGES})"
_ALLOCATOR = {
    "0.9.2": f"PYTORCH_CUDA_ALLOC_CONF{_SEE}({_PAGES})",
    "0.32.0": f"PYTORCH_CUDA_ALLOC_CONF{_SEE}({_NEW_PAGES})",
}
"""The end of torch's text: each of torch 2.6, 2.10 and 2.11 names the variable in its own way."""


def load_failed(original: str) -> str:
    return (
        "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to "
        "free memory for weights, increasing --tensor-parallel-size, or using --quantization. "
        f"See {MORE_TIPS} for more tips. (original error: {original})"
    )


def sampler_failed(requests: int) -> str:
    return (
        f"CUDA out of memory occurred when warming up sampler with {requests} dummy requests. "
        "Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the "
        "engine."
    )


def memory_taken(error: MemoryTaken, gpu: int, utilization: float) -> str:
    memory = error.memory
    device = "" if current().version == "0.9.2" else f" cuda:{gpu}"
    return (
        f"Free memory on device{device} ({gib(memory.free_bytes)}/{gib(memory.total_bytes)} "
        f"GiB) on startup is less than desired GPU memory utilization ({utilization}, "
        f"{gib(error.requested_bytes)} GiB). Decrease GPU memory utilization or reduce GPU "
        "memory used by other processes."
    )


def no_cache_blocks() -> str:
    too_small = "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"
    also = ""
    if current().version == "0.32.0":
        also = (
            " (this flag also controls CPU memory reservation on the CPU backend, despite its name)"
        )
    return f"{too_small} when initializing the engine{also}.{_more_details()}"


def _more_details() -> str:
    return "" if current().version == "0.9.2" else f" See {MORE_TIPS} for more details."


def model_len_too_long(error: ModelLenTooLong, max_model_len: int) -> str:
    estimate = ""
    if error.estimate_tokens:
        estimate = (
            " Based on the available memory, the estimated maximum model length is "
            f"{error.estimate_tokens}."
        )
    is_new = current().version == "0.32.0"
    also = " (which also controls CPU memory on the CPU backend)" if is_new else ""
    return (
        f"To serve at least one request with the model{'' if is_new else 's'}'s max seq len "
        f"({max_model_len}), "
        f"({gib(error.needed_bytes)} GiB KV cache is needed, which is larger than the available "
        f"KV cache memory ({gib(error.available_bytes)} GiB).{estimate} Try increasing "
        f"`gpu_memory_utilization`{also} or decreasing `max_model_len` when initializing the "
        f"engine.{_more_details()}"
    )


def graph_estimate(utilization: float, share: float) -> str:
    """Printed since 0.21 beside the KV cache's size; ``share`` is the estimate by the total."""
    return (
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
        f"--gpu-memory-utilization={utilization:.4f} is equivalent to "
        f"--gpu-memory-utilization={utilization - share:.4f} without CUDA graph memory "
        "profiling. To maintain the same effective KV cache size as before, increase "
        f"--gpu-memory-utilization to {min(1.0, utilization + share):.4f}. To disable, set "
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0."
    )


def graph_pool(taken_bytes: int, estimated_bytes: int) -> str:
    off = abs(taken_bytes - estimated_bytes)
    return (
        f"CUDA graph pool memory: {gib(taken_bytes)} GiB (actual), {gib(estimated_bytes)} GiB "
        f"(estimated), difference: {gib(off)} GiB ({100 * off / max(1, taken_bytes):.1f}%)."
    )
