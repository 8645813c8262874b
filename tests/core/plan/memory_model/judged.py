"""How far the estimate of weights is from figures that were not made by it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from tests.core.plan.memory_model.models_read import setup_of
from tests.engine.loaded_weights import SHAPES, config_of, tensors_of
from tests.model_directories.definitions import Definition
from tests.model_directories.write import write_model
from vllm_warden.adapters.model_directory.read import read_model_directory
from vllm_warden.core.model import GIB, MIB
from vllm_warden.core.plan.memory_model.estimate import estimate_ranks
from vllm_warden.core.plan.memory_model.layout import Layout
from vllm_warden.core.plan.memory_model.overhead import context
from vllm_warden.core.plan.memory_model.rank_weights import Load
from vllm_warden.core.plan.memory_model.read_shape import read_shape
from vllm_warden.core.plan.memory_model.weights import rank_weights

HERE = Path(__file__).parent
FIGURES = tomllib.loads((HERE / "published_figures.toml").read_text("utf-8"))
LOADED: dict[str, dict[str, Any]] = json.loads((HERE / "loaded_weights.json").read_text("utf-8"))


def deviation_of(figure: dict[str, Any]) -> float:
    """Estimate over a published figure, less one."""
    names = ("tensor_parallel_size", "pipeline_parallel_size")
    settings = {name: figure[name] for name in names if name in figure}
    setup = setup_of(figure["model"], settings)
    ranks = estimate_ranks(setup)
    if "used_mib" in figure:
        estimate = ranks[0].weights.bytes + context(setup.options).bytes
        return float(estimate / (figure["used_mib"] * MIB) - 1)
    published = figure["weights_gib"] * GIB
    # which of the ranks printed it is not known
    return float(min((rank.weights.bytes / published - 1 for rank in ranks), key=abs))


def loaded_estimate(name: str, directory: Path) -> int:
    """Bytes of one rank, from a directory of the measured shape."""
    shape = SHAPES[name]
    definition = Definition(config_of(shape), lambda: iter(tensors_of(shape)), 1)
    files = read_model_directory(write_model(directory, definition))
    load = Load(Layout(shape.get("tp", 1)))
    (stage,) = rank_weights(files.checkpoint, read_shape(files.config), load)
    return stage.weights.bytes


def loaded_deviation(name: str) -> float:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        held = max(LOADED[name]["ranks_bytes"])
        return float(loaded_estimate(name, Path(directory)) / held - 1)
