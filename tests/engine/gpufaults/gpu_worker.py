"""Lets the CPU worker run the GPU worker's own code on CPU tensors, with a GPU's figures.

Loading, profiling, KV planning, kernel warm-up, graph capture and sampler warm-up are then those of
a GPU run of the same version (V1 runner): its lines, frames and line numbers.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import math
import re
import sys
import types
from pathlib import Path
from typing import Any
from unittest import mock

from tests.engine.gpufaults.ledger import Ledger


def behave_like_gpu(ledger: Ledger) -> None:
    _answer_memory_queries(ledger)
    _take_the_parents_code()
    _size_the_cache_by_profiling()
    _snapshot_from(ledger)
    _leave_out_missing_warm_ups()


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _answer_memory_queries(ledger: Ledger) -> None:
    import torch
    from vllm.platforms import current_platform

    answers = {
        "get_memory_info": ledger.get_memory_info,
        "memory_stats": ledger.memory_stats,
        "memory_reserved": ledger.memory_reserved,
        "memory_allocated": ledger.memory_reserved,
        "max_memory_allocated": ledger.memory_reserved,
        "reset_peak_memory_stats": _nothing,
        "empty_cache": _nothing,
        "synchronize": _nothing,
    }
    for name, answer in answers.items():
        # dynamo refuses one function object below two names of torch
        setattr(torch.accelerator, name, lambda *given, _answer=answer, **__: _answer(*given))
    platform = type(current_platform)
    platform.get_current_memory_usage = staticmethod(ledger.get_current_memory_usage)
    platform.current_device = staticmethod(lambda: "cpu")
    platform.synchronize = staticmethod(_nothing)


def _take_the_parents_code() -> None:
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner
    from vllm.v1.worker.cpu_worker import CPUWorker

    for name in ("determine_available_memory", "compile_or_warm_up_model"):
        delattr(CPUWorker, name)
    delattr(CPUModelRunner, "load_model")


def _size_the_cache_by_profiling() -> None:
    """Not by VLLM_CPU_KVCACHE_SPACE, which is only there for the CPU worker's own first check."""
    from vllm.v1.worker.cpu_worker import CPUWorker

    original = CPUWorker.__init__

    def start(worker: Any, *given: Any, **named: Any) -> None:
        original(worker, *given, **named)
        worker.cache_config.kv_cache_memory_bytes = None

    CPUWorker.__init__ = start


def _snapshot_from(ledger: Ledger) -> None:
    from vllm.utils.mem_utils import MemorySnapshot
    from vllm.v1.worker.gpu_worker import Worker

    taken: list[Any] = []

    def init_snapshot(_: Any) -> Any:
        if not taken:
            taken.append(MemorySnapshot(device="cpu"))
        return taken[0]

    def requested(worker: Any) -> int:
        fraction: float = worker.cache_config.gpu_memory_utilization
        return math.ceil(ledger.total * fraction)

    Worker.init_snapshot = property(init_snapshot, _nothing)
    Worker.requested_memory = property(requested, _nothing)


class _Nothing(types.ModuleType):
    """A module all of whose functions do nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock(return_value=None)


class _NoTorchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """``import torchvision`` succeeds: kernel warm-ups of unrelated models import it."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".", maxsplit=1)[0] == "torchvision":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Nothing(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _leave_out_missing_warm_ups() -> None:
    """Kernel warm-ups that cannot even be imported without packages for CUDA do nothing."""
    sys.meta_path.append(_NoTorchvision())
    from vllm.model_executor.warmup import jit_warmup, kernel_warmup

    source = Path(kernel_warmup.__file__).read_text("utf-8")
    for name in re.findall(r"from (vllm\.[\w.]+) import", source):
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - whatever an import without CUDA comes to
            sys.modules[name] = _Nothing(name)
    jit_warmup.JitWarmupRegistry.warmup = _nothing
