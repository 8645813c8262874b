"""Lets graph capture run as far as the model's forward pass, on CPU tensors."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any, Self

_SIZES = [1, 2, 4, 8, 16]


class _Stand:
    """Takes the place of CUDA streams, events and graphs."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def capture_graphs() -> None:
    import torch
    from vllm.v1.attention.backend import AttentionCGSupport
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadataBuilder
    from vllm.v1.worker import gpu_model_runner
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner

    for name in ("Stream", "Event", "CUDAGraph"):
        setattr(torch.cuda, name, _Stand)
    torch.Event = torch.Stream = _Stand
    torch.cuda.current_stream = lambda *_: _Stand()
    torch.cuda.stream = lambda *_: contextlib.nullcontext()
    torch.cuda.graph_pool_handle = lambda: (0, 1)

    @contextlib.contextmanager
    def graph_capture(*_: Any, **__: Any) -> Iterator[types.SimpleNamespace]:
        yield types.SimpleNamespace(stream=_Stand())

    gpu_model_runner.graph_capture = graph_capture
    CPUAttentionMetadataBuilder._cudagraph_support = AttentionCGSupport.ALWAYS
    original = gpu_model_runner.GPUModelRunner.capture_model

    class Prepared:
        """Sets the runner up when ``capture_model`` is looked up, so that no frame is added."""

        def __get__(self, runner: Any, owner: Any = None) -> Any:
            if runner is None:
                return original
            _ask_for_graphs(runner, gpu_model_runner.CUDAGraphMode.FULL)
            return types.MethodType(original, runner)

    CPUModelRunner.capture_model = Prepared()


def _ask_for_graphs(runner: Any, mode: Any) -> None:
    """What the CUDA platform would have set when the configuration was made."""
    configuration = runner.compilation_config
    configuration.cudagraph_capture_sizes = _SIZES
    configuration.max_cudagraph_capture_size = _SIZES[-1]
    configuration.cudagraph_mode = mode
    configuration.post_init_cudagraph_sizes()
    runner.cudagraph_batch_sizes = _SIZES
    runner.use_cuda_graph = True
    dispatcher = runner.cudagraph_dispatcher
    dispatcher.keys_initialized = False
    dispatcher.cudagraph_mode = mode
    dispatcher.initialize_cudagraph_keys(mode, 1)
