"""Reading model directories as they are found: whole, partial, opaque, odd."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path

import pytest

from tests.core.plan.memory_model.models_read import directory_of
from vllm_warden.adapters.model_directory.read import read_model_directory
from vllm_warden.core.plan.memory_model.checkpoint import WeightSource
from vllm_warden.core.plan.memory_model.engine_options import read_options
from vllm_warden.core.plan.memory_model.era import era_of
from vllm_warden.core.plan.memory_model.estimate import GpuMemory, Setup
from vllm_warden.core.plan.memory_model.layouts import all_layouts
from vllm_warden.core.plan.memory_model.limits import find_limits
from vllm_warden.core.plan.memory_model.model import Model
from vllm_warden.core.plan.memory_model.read_shape import read_shape
from vllm_warden.core.plan.memory_model.verdict import plan_memory
from vllm_warden.core.plan.spec import EngineFacts

CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "num_hidden_layers": 1}


def shard(path: Path, header: object, data_bytes: int = 64) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data_bytes))


def tensor(*shape: int) -> dict[str, object]:
    return {"dtype": "BF16", "shape": list(shape), "data_offsets": [0, 64]}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_headers_win_over_the_index(directory):
    shard(directory / "model.safetensors", {"a.weight": tensor(4, 8)})
    index = {"metadata": {"total_size": 999}, "weight_map": {"a.weight": "model.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))

    checkpoint = read_model_directory(directory).checkpoint

    assert (checkpoint.source, checkpoint.total_bytes) == (WeightSource.HEADERS, 64)


def test_a_header_written_with_spaces_counts_the_same(directory):
    header = {"__metadata__": {"note": 'tricky "},{" text'}, "a.weight": tensor(4, 8)}
    shard(directory / "model.safetensors", json.dumps(header, indent=3).encode())

    assert read_model_directory(directory).checkpoint.total_bytes == 64


def test_a_download_that_was_cut_off_is_said_and_its_headers_are_believed(directory):
    shard(directory / "model.safetensors", {"a.weight": tensor(4, 8)}, data_bytes=40)

    files = read_model_directory(directory)

    assert files.checkpoint.total_bytes == 64
    assert "hold 40 of the 64 bytes that their headers name" in " ".join(files.problems)


def test_weights_of_a_type_that_nobody_knows_are_counted_by_the_size_of_the_files(directory):
    header = {"a.weight": tensor(4, 8), "b.weight": {**tensor(1 << 20), "dtype": "F3"}}
    shard(directory / "model.safetensors", header, data_bytes=3 << 20)

    files = read_model_directory(directory)

    assert (files.checkpoint.source, files.checkpoint.total_bytes >> 20) == (WeightSource.FILES, 3)
    assert "of an unknown type" in " ".join(files.problems)


@pytest.mark.parametrize("shape", [(1 << 47,) * 64, (1 << 47,) * 20_000])
def test_shapes_beyond_any_disk_are_not_believed(shape, directory):
    shard(directory / "model.safetensors", {"a.weight": tensor(*shape)})

    files = read_model_directory(directory)

    assert files.checkpoint.source is WeightSource.FILES
    assert files.problems


def test_headers_too_large_to_be_any_are_not_kept_in_memory(directory, monkeypatch):
    monkeypatch.setattr("vllm_warden.adapters.model_directory.read.HEADERS_BYTES_MAX", 150)
    for name in ("a.safetensors", "b.safetensors"):
        shard(directory / name, {"a.weight": tensor(4, 8)})

    files = read_model_directory(directory)

    assert files.checkpoint.source is WeightSource.FILES
    assert files.problems == ("the headers of the shards are too large to be any",)


@pytest.mark.parametrize("shards", [[1], {"b": 2}, None, 5])
def test_an_index_that_names_no_file_names_none(shards, directory):
    shard(directory / "model.safetensors", {"a.weight": tensor(4, 8)})
    index = {"weight_map": {"a.weight": shards, "b.weight": "model.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))

    assert read_model_directory(directory).checkpoint.source is WeightSource.HEADERS


def test_more_files_than_are_looked_at_are_said(directory, monkeypatch):
    monkeypatch.setattr("vllm_warden.adapters.model_directory.read.FILES_MAX", 2)
    for name in ("README.md", "a.bin", "b.bin"):
        (directory / name).write_bytes(b"xx")

    assert read_model_directory(directory).problems == ()
    (directory / "c.bin").write_bytes(b"xx")
    assert "only the first 2 of its 3 weight files" in read_model_directory(directory).problems[0]


def test_the_name_of_a_file_cannot_write_to_a_terminal(directory):
    (directory / "a\x1b[31m\nb\udcff.safetensors").write_bytes(b"")

    problems = "".join(read_model_directory(directory).problems)

    assert problems.isprintable()
    assert r"'a\x1b[31m\nb\udcff.safetensors'" in problems


def test_experts_of_all_shards_are_counted(directory):
    for number in range(2):
        name = f"model.layers.0.mlp.experts.{number}.w1.weight"
        shard(directory / f"model-0000{number + 1}-of-00002.safetensors", {name: tensor(4, 8)})

    (group,) = read_model_directory(directory).checkpoint.groups

    assert (group.name, group.count, group.layers) == (
        "model.layers.#.mlp.experts.#.w1.weight",
        2,
        (0,),
    )


@pytest.mark.parametrize(
    "content",
    [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
        b"",
        b"\xff" * 40,
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 40) + b'{"a": 1}',
    ],
    ids=["pointer", "empty", "noise", "huge", "cut off"],
)
def test_an_unreadable_shard_leaves_the_size_to_the_index(directory, content):
    (directory / "model-00001-of-00001.safetensors").write_bytes(content)
    index = {"metadata": {"total_size": 999}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))

    files = read_model_directory(directory)

    assert (files.checkpoint.source, files.checkpoint.total_bytes) == (WeightSource.INDEX, 999)
    assert "cannot read the header of model-00001-of-00001.safetensors" in files.problems[0]


def test_missing_shards_leave_the_size_to_the_index(directory):
    shard(directory / "model-00001-of-00002.safetensors", {"a.weight": tensor(4, 8)})
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    index = {"metadata": {"total_size": 999}, "weight_map": dict(zip("ab", names, strict=True))}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))

    files = read_model_directory(directory)

    assert files.checkpoint.source is WeightSource.INDEX
    assert files.problems == ("1 of the 2 shards of the index are missing",)


@pytest.mark.parametrize("index", [None, {"weight_map": {"a": "model-00002-of-00002.safetensors"}}])
def test_a_part_of_the_shards_is_never_taken_for_the_whole(directory, index):
    shard(directory / "model-00001-of-00002.safetensors", {"a.weight": tensor(4, 8)})
    if index is not None:
        (directory / "model.safetensors.index.json").write_text(json.dumps(index))

    files = read_model_directory(directory)

    assert (files.checkpoint.source, files.checkpoint.total_bytes) == (WeightSource.NOTHING, 0)
    assert "1 of the" in files.problems[0]
    assert "missing" in files.problems[0]


@pytest.mark.parametrize("header", [b'{"nonsense', b"{\xff}", b'{"a":' + b"[" * 100_000])
def test_a_header_that_is_nonsense_names_the_file_and_what_the_engine_will_say(directory, header):
    shard(directory / "model-00001-of-00002.safetensors", {"a.weight": tensor(4, 8)})
    shard(directory / "model-00002-of-00002.safetensors", header)

    files = read_model_directory(directory)

    assert files.checkpoint.source is WeightSource.FILES
    (problem,) = files.problems
    assert problem.startswith("the header of model-00002-of-00002.safetensors is not JSON: ")
    assert "the engine will refuse it" in problem


def test_without_headers_and_index_the_files_are_weighed(directory):
    (directory / "pytorch_model.bin").write_bytes(bytes(123))

    checkpoint = read_model_directory(directory).checkpoint

    assert (checkpoint.source, checkpoint.total_bytes) == (WeightSource.FILES, 123)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "config.json is not JSON"),
        ("[" * 100_000, "config.json is not JSON"),
        ("[1]", "config.json is no JSON object"),
        (None, "there is no config.json"),
    ],
)
def test_an_odd_config_is_named(directory, text, problem):
    (directory / "config.json").unlink()
    if text is not None:
        (directory / "config.json").write_text(text)

    files = read_model_directory(directory)

    assert files.config == {}
    assert problem in files.problems


def test_a_pipe_for_a_shard_does_not_hang(directory):
    os.mkfifo(directory / "model.safetensors")

    files = read_model_directory(directory)

    assert "not a regular file" in files.problems[0]


def test_a_second_format_of_the_same_weights_is_not_counted(directory):
    shard(directory / "model.safetensors", {"a.weight": tensor(4, 8)})
    shard(directory / "consolidated.safetensors", {"a.weight": tensor(4, 8)})

    assert read_model_directory(directory).checkpoint.total_bytes == 64


def test_a_plan_of_125_shards_takes_a_moment():
    """0.3 s of processor time at most for 95,000 tensors; the clock is not ours alone."""
    directory = directory_of("minimax-m2.5")
    spent = []
    for _ in range(5):
        before = time.process_time()
        files = read_model_directory(directory)
        model = Model(read_shape(files.config), files.checkpoint)
        engine = EngineFacts(version="0.15.1")
        options = read_options({"tensor_parallel_size": 4}, model.shape, engine, 97_887 << 20)
        setup = Setup(model, options, GpuMemory(97_887 << 20), era_of(engine))
        find_limits(plan_memory(setup))
        all_layouts(setup, 8)
        spent.append(time.process_time() - before)

    assert files.checkpoint.files == 125
    assert min(spent) < 0.3
