"""The published models, written once for all tests and read back through the adapter."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from tests.model_directories.models import MODELS
from tests.model_directories.write import write_model
from vllm_warden.adapters.model_directory.read import read_model_directory
from vllm_warden.core.model import Settings
from vllm_warden.core.plan.memory_model.engine_options import read_options
from vllm_warden.core.plan.memory_model.era import era_of
from vllm_warden.core.plan.memory_model.estimate import GpuMemory, Setup
from vllm_warden.core.plan.memory_model.measured import Measured
from vllm_warden.core.plan.memory_model.model import Model
from vllm_warden.core.plan.memory_model.read_shape import read_shape
from vllm_warden.core.plan.spec import EngineFacts

SEED_GPU_BYTES = 97_887 << 20


@cache
def _root() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="warden-models-")


@cache
def directory_of(name: str) -> Path:
    return write_model(Path(_root().name) / name, MODELS[name])


@cache
def model_of(name: str) -> Model:
    files = read_model_directory(directory_of(name))
    assert not files.problems
    return Model(read_shape(files.config), files.checkpoint)


def setup_of(
    name: str,
    settings: Settings,
    *,
    version: str = "0.15.1",
    gpu_bytes: int = SEED_GPU_BYTES,
    measured: Measured | None = None,
) -> Setup:
    """The setup that ``plan`` would look at."""
    model, engine = model_of(name), EngineFacts(version=version)
    options = read_options(settings, model.shape, engine, gpu_bytes)
    return Setup(model, options, GpuMemory(gpu_bytes), era_of(engine), measured or Measured())
