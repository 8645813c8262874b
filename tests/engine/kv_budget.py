"""Runs vLLM's own GPU worker code on a ledger in the place of a GPU; writes what it computes.

Usage: python -m tests.engine.kv_budget VERSION OUTPUT, with the Python tree of that vLLM on the
path. ``Worker.determine_available_memory`` is real; torch's questions about memory are answered
from the ledger, and the model runner only books what a model would allocate.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import types
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

GIB = 1 << 30
MIB = 1 << 20


@dataclass
class Ledger:
    """One GPU: what others and the context hold, and what torch holds of it."""

    total: int
    used: int
    allocated: int = 0
    peak: int = 0
    outside_torch: int = 0

    def info(self, *_: object) -> tuple[int, int]:
        held = self.used + self.allocated + self.outside_torch
        return self.total - held, self.total

    def stats(self, *_: object) -> dict[str, int]:
        return {
            "allocated_bytes.all.peak": max(self.peak, self.allocated),
            "allocated_bytes.all.current": self.allocated,
        }

    def reserved(self, *_: object) -> int:
        return self.allocated

    def forget_peak(self, *_: object) -> None:
        self.peak = self.allocated


def settings() -> list[dict[str, Any]]:
    """24 GPUs and models: small and large, sampler and graphs small and large, eager and not."""
    gpus = ((97_887 * MIB, 0.95), (80 * GIB, 0.9), (24 * GIB, 0.92), (141 * GIB, 0.8731))
    models = ((0.55, 4.3, 300, 1.7), (0.3, 9.54, 96, 2.9), (0.7, 0.2, 512, 0.4))
    return [
        {
            "total_bytes": total,
            "utilization": utilization,
            "weights_bytes": int(total * share) + 12_345,
            "peak_bytes": int(peak * GIB),
            "libraries_bytes": libraries * MIB,
            "graphs_bytes": int(graphs * GIB) if captures else 0,
        }
        for (total, utilization), (share, peak, libraries, graphs), captures in product(
            gpus, models, (True, False)
        )
    ]


def ask(worker: Any, setting: dict[str, Any]) -> int:
    """Bytes for the KV cache by the release's own code."""
    import torch
    from vllm.config import CUDAGraphMode

    ledger = Ledger(setting["total_bytes"], used=700 * MIB)
    # 0.15 asks its platform, later releases torch.accelerator
    platform = sys.modules["vllm.utils.mem_utils"].current_platform
    for place in (torch.cuda, torch.accelerator, platform):
        for name, answer in (
            ("mem_get_info", ledger.info),
            ("get_memory_info", ledger.info),
            ("memory_stats", ledger.stats),
            ("memory_reserved", ledger.reserved),
            ("reset_peak_memory_stats", ledger.forget_peak),
            ("empty_cache", lambda *_: None),
        ):
            setattr(place, name, answer)
    snapshot = worker.MemorySnapshot(device="cuda:0")
    cache = SimpleNamespace(
        gpu_memory_utilization=setting["utilization"], kv_cache_memory_bytes=None
    )

    def profile_run(**_: object) -> None:
        ledger.outside_torch += setting["libraries_bytes"]
        ledger.peak = ledger.allocated + setting["peak_bytes"]

    requested = worker.request_memory(snapshot, cache)
    ledger.allocated += setting["weights_bytes"]
    graphs = setting["graphs_bytes"]
    mode = CUDAGraphMode.FULL if graphs else CUDAGraphMode.NONE
    stub = SimpleNamespace(
        cache_config=cache,
        init_snapshot=snapshot,
        requested_memory=requested,
        randomize_dummy_inputs=False,
        model_config=SimpleNamespace(multimodal_config=None),
        parallel_config=SimpleNamespace(),
        vllm_config=SimpleNamespace(compilation_config=SimpleNamespace(cudagraph_mode=mode)),
        model_runner=SimpleNamespace(
            model_memory_usage=setting["weights_bytes"],
            profile_run=profile_run,
            profile_cudagraph_memory=lambda: graphs,
        ),
        _scoped_allocator_max_split=lambda **_: contextlib.nullcontext(),
    )
    return int(worker.Worker.determine_available_memory(stub))


class Absent(types.ModuleType):
    """A package that an old release imports and this code never calls."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def worker_module() -> Any:
    """The worker of the release on the path; packages that are not installed are left empty."""
    for _ in range(30):
        try:
            return importlib.import_module("vllm.v1.worker.gpu_worker")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("vllm"):
                raise
            absent = Absent(error.name)
            absent.__path__ = []
            sys.modules[error.name] = absent
    raise ImportError("too much is not installed")


def main() -> None:
    version, output = sys.argv[1], Path(sys.argv[2])
    worker = worker_module()
    real = worker.current_platform
    worker.current_platform = SimpleNamespace(
        is_cuda_alike=lambda: True,
        is_xpu=lambda: False,
        is_rocm=lambda: False,
        is_cuda=lambda: True,
    )
    del real
    for name in ("maybe_apply_startup_plan", "maybe_rocm_profiling_fallback"):
        if hasattr(worker, name):
            setattr(worker, name, lambda *_: None)
    if hasattr(worker, "set_current_vllm_config"):
        worker.set_current_vllm_config = lambda *_: contextlib.nullcontext()
    known = json.loads(output.read_text()) if output.exists() else {}
    known[version] = [{**one, "kv_bytes": ask(worker, one)} for one in settings()]
    output.write_text(json.dumps(known, indent=1) + "\n")
    print(version, [one["kv_bytes"] for one in known[version]][:4])


if __name__ == "__main__":
    main()
