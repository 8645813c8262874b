"""Fault injection for real vLLM on the CPU: a vLLM general plugin.

Put this folder on PYTHONPATH (its dist-info registers the plugin) and set

  OOMSIM_AT      what fails: load | profile | kv | sampler | runtime | nccl
  OOMSIM_BUDGET  bytes; sampler and profile fail only where the logits of the
                 dummy batch (requests x vocabulary x 4) exceed it (default 0)
  OOMSIM_AFTER   runtime: fail after that many model steps (default 20)

The error is a real torch.OutOfMemoryError raised inside vLLM's own call
stack, so the log shows vLLM's real wrapping, traceback and exit path.
"""

import os

GIB = 2**30


def printed(size: int) -> str:
    """As torch prints sizes (c10's format_size)."""
    for unit, name in ((GIB, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size > unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


def oom(size: int) -> Exception:
    import torch

    error: Exception = torch.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {printed(size)}. GPU 0 has a total "
        "capacity of 79.19 GiB of which 1.06 GiB is free. Including non-PyTorch memory, "
        "this process has 78.12 GiB memory in use. Of the allocated memory 76.20 GiB is "
        "allocated by PyTorch, and 412.51 MiB is reserved by PyTorch but unallocated. If "
        "reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  "
        "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )
    return error


def register() -> None:
    where = os.environ.get("OOMSIM_AT")
    if not where:
        return
    budget = int(os.environ.get("OOMSIM_BUDGET", "0"))
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if where == "sampler":
        from vllm.v1.sample.sampler import Sampler

        original = Sampler.forward

        def forward(self, logits, sampling_metadata, *args, **kwargs):
            size = logits.numel() * 4
            if size > budget:
                raise oom(size)
            return original(self, logits, sampling_metadata, *args, **kwargs)

        Sampler.forward = forward
    elif where == "load":
        from vllm.model_executor.model_loader.base_loader import BaseModelLoader

        def load_model(self, *args, **kwargs):
            raise oom(2 * GIB)

        BaseModelLoader.load_model = load_model
    elif where == "profile":

        def _dummy_run(self, *args, **kwargs):
            raise oom(4 * GIB)

        GPUModelRunner._dummy_run = _dummy_run
    elif where == "kv":

        def initialize_kv_cache_tensors(self, *args, **kwargs):
            raise oom(8 * GIB)

        GPUModelRunner.initialize_kv_cache_tensors = initialize_kv_cache_tensors
    elif where == "runtime":
        left = int(os.environ.get("OOMSIM_AFTER", "20"))
        original = GPUModelRunner.execute_model

        def execute_model(self, *args, **kwargs):
            nonlocal left
            left -= 1
            if left < 0:
                raise oom(1 * GIB)
            return original(self, *args, **kwargs)

        GPUModelRunner.execute_model = execute_model
    elif where == "nccl":
        from vllm.v1.worker.cpu_worker import CPUWorker

        def init_device(self):
            import torch

            raise torch.distributed.DistBackendError(
                "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled "
                "system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3"
            )

        CPUWorker.init_device = init_device
