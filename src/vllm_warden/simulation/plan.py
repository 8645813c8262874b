"""Turns a parsed command line and environment into what the stand-in engine will do."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

from vllm_warden.simulation.host import ENVIRONMENT, Gpu, gpu_count
from vllm_warden.simulation.laws import LawsOf, ordinary
from vllm_warden.simulation.models import read_shape
from vllm_warden.simulation.physics import Knobs, Shape

SPEED = "WARDEN_SIMULATED_SPEED"
"""Environment: simulated seconds that pass in one real second."""

SPEED_DEFAULT = 30.0
BIG_GPU_BYTES = 70 << 30
"""From this size on vLLM 0.15 defaults to 1024 sequences and 8192 batched tokens, except A100."""


class ConfigurationRefused(Exception):  # noqa: N818 - what pydantic's ValidationError says
    """A setting that vLLM's configuration classes refuse; ``lines`` is the text they print."""

    def __init__(self, owner: str, message: str) -> None:
        super().__init__(message)
        self.error = (
            f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {owner}\n"
            f"{message}"
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast simulated time passes."""

    speed: float = SPEED_DEFAULT

    def sleep(self, simulated_seconds: float) -> None:
        time.sleep(simulated_seconds / self.speed)

    def grace(self, real_seconds: float) -> float:
        """A real timeout of vLLM, shortened when time passes faster than in a demo."""
        return real_seconds / max(1.0, self.speed / SPEED_DEFAULT)


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: ``gpus`` are those that the engine may use, in CUDA's order; none = CPU."""

    model: str
    served_name: str
    host: str
    port: int
    api_keys: tuple[str, ...]
    shape: Shape
    knobs: Knobs
    gpus: tuple[Gpu, ...]
    pace: Pace
    laws: LawsOf = ordinary


def make_plan(args: argparse.Namespace, laws: LawsOf = ordinary) -> Plan:
    """Raises ConfigurationRefused. The model's folder has been checked before."""
    gpus = visible_gpus()
    model = str(args.model or args.model_tag or "Qwen/Qwen3-0.6B")
    shape = read_shape(Path(model))
    knobs = read_knobs(args, shape, gpus)
    check(knobs, shape, len(gpus))
    keys = [*(args.api_key or []), os.environ.get("VLLM_API_KEY") or ""]
    return Plan(
        model=model,
        served_name=(args.served_model_name or [model])[0],
        host=args.host or "0.0.0.0",  # noqa: S104 - what vLLM does without --host
        port=8000 if args.port is None else args.port,
        api_keys=tuple(key for key in keys if key),
        shape=shape,
        knobs=knobs,
        gpus=gpus,
        pace=Pace(float(os.environ.get(SPEED) or SPEED_DEFAULT)),
        laws=laws,
    )


def visible_gpus() -> tuple[Gpu, ...]:
    """The simulated GPUs that CUDA_VISIBLE_DEVICES leaves; like CUDA it ends at a bad one."""
    directory = os.environ.get(ENVIRONMENT)
    if not directory:
        return ()
    count = gpu_count(Path(directory))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    words = [str(index) for index in range(count)] if visible is None else visible.split(",")
    gpus: list[Gpu] = []
    for word in words:
        if not word.strip().isdigit() or int(word) >= count:
            break
        gpus.append(Gpu(Path(directory) / f"gpu{int(word)}"))
    return tuple(gpus)


def read_knobs(args: argparse.Namespace, shape: Shape, gpus: tuple[Gpu, ...]) -> Knobs:
    """Settings with vLLM's own defaults for this device."""
    big = bool(gpus) and gpus[0].total_bytes >= BIG_GPU_BYTES
    length = args.max_model_len
    length = shape.max_position if length in {None, -1} else length
    tokens = args.max_num_batched_tokens or (8192 if big else 2048)
    seqs = args.max_num_seqs
    if seqs is None:
        seqs = min((1024 if big else 256) if gpus else 128, tokens)
    utilization = args.gpu_memory_utilization
    return Knobs(
        max_model_len=length,
        tensor_parallel=args.tensor_parallel_size or 1,
        pipeline_parallel=args.pipeline_parallel_size or 1,
        expert_parallel=bool(args.enable_expert_parallel),
        gpu_memory_utilization=0.9 if utilization is None else utilization,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        enforce_eager=bool(args.enforce_eager),
        kv_cache_memory_bytes=args.kv_cache_memory_bytes,
        kv_value_bytes=1 if str(args.kv_cache_dtype or "").startswith("fp8") else 2,
    )


def check(knobs: Knobs, shape: Shape, gpus: int) -> None:
    """The configuration classes' checks that the warden has answers for."""
    utilization = knobs.gpu_memory_utilization
    if utilization > 1:
        raise ConfigurationRefused(
            "CacheConfig",
            "gpu_memory_utilization\n  Input should be less than or equal to 1 "
            f"[type=less_than_equal, input_value={utilization}, input_type=float]",
        )
    if knobs.max_num_seqs < 1:
        raise ConfigurationRefused(
            "SchedulerConfig",
            "max_num_seqs\n  Input should be greater than or equal to 1 "
            f"[type=greater_than_equal, input_value={knobs.max_num_seqs}, input_type=int]",
        )
    if knobs.max_model_len > shape.max_position:
        _refuse_value(
            "ModelConfig",
            f"User-specified max_model_len ({knobs.max_model_len}) is greater than the derived "
            f"max_model_len (max_position_embeddings={shape.max_position} or "
            "model_max_length=None in model's config.json). To allow overriding this maximum, "
            "set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1",
        )
    if knobs.max_num_batched_tokens < knobs.max_num_seqs:
        _refuse_value(
            "SchedulerConfig",
            f"max_num_batched_tokens ({knobs.max_num_batched_tokens}) must be greater than or "
            f"equal to max_num_seqs ({knobs.max_num_seqs}).",
        )
    if shape.heads % knobs.tensor_parallel:
        _refuse_value(
            "VllmConfig",
            f"Total number of attention heads ({shape.heads}) must be divisible by tensor "
            f"parallel size ({knobs.tensor_parallel}).",
        )
    if gpus and knobs.world_size > gpus:
        _refuse_value(
            "ParallelConfig",
            f"World size ({knobs.world_size}) is larger than the number of available GPUs "
            f"({gpus}) in this node. If this is intentional and you are using:\n"
            "- ray, set '--distributed-executor-backend ray'.\n"
            "- multiprocessing, set '--nnodes' appropriately.",
        )


def _refuse_value(owner: str, message: str) -> None:
    raise ConfigurationRefused(
        owner,
        f"  Value error, {message} [type=value_error, input_value=ArgsKwargs(...), "
        "input_type=ArgsKwargs]",
    )
