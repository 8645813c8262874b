"""Numbers of a model come from its directory or the download cache, never from the network."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model_directories import write
from tests.model_directories.models import MODELS
from vllm_warden.adapters.model_directory.probe import ModelDirectory
from vllm_warden.adapters.model_directory.read import read_model_directory
from vllm_warden.core.plan.memory_model.checkpoint import WeightSource
from vllm_warden.core.plan.spec import ModelFacts

CONFIG = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "vocab_size": 200064,
    "hidden_size": 3072,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_hidden_layers": 62,
    "max_position_embeddings": 196608,
}


def write_model(directory, config):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    return directory


@pytest.fixture
def probe(tmp_path):
    return ModelDirectory(tmp_path / "hub")


def test_a_local_model_is_read(probe, tmp_path):
    model = write_model(tmp_path / "m", CONFIG)
    for part in (1, 2):
        (model / f"model-0000{part}.safetensors").write_bytes(b"\0" * 1000)
    facts = replace(probe.facts(str(model)), for_memory=None)
    assert facts == ModelFacts(
        config_hash=hashlib.sha256((model / "config.json").read_bytes()).hexdigest(),
        weight_bytes=2000,
        vocab_size=200064,
        max_position=196608,
        layers=62,
        kv_heads=8,
        head_dim=128,
        architecture="MiniMaxM2ForCausalLM",
    )


def test_the_index_says_the_weights_of_a_model_that_is_not_all_here(probe, tmp_path):
    model = write_model(tmp_path / "m", CONFIG)
    (model / "model-00001.safetensors").write_bytes(b"\0")
    index = {"metadata": {"total_size": 230_000_000_000}, "weight_map": {}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert probe.facts(str(model)).weight_bytes == 230_000_000_000


def test_a_multimodal_model_keeps_its_numbers_one_level_down(probe, tmp_path):
    top = {"architectures": ["Llama4ForConditionalGeneration"], "vocab_size": 7}
    nested = {**top, "text_config": CONFIG}
    facts = probe.facts(str(write_model(tmp_path / "m", nested)))
    assert facts.vocab_size == 200064
    assert facts.layers == 62


def test_missing_head_numbers_follow_from_the_others(probe, tmp_path):
    config = {"hidden_size": 256, "num_attention_heads": 8}
    facts = probe.facts(str(write_model(tmp_path / "m", config)))
    assert (facts.kv_heads, facts.head_dim) == (8, 32)
    assert facts.vocab_size is None


def test_a_downloaded_model_is_found_in_the_cache(probe, tmp_path):
    repository = tmp_path / "hub" / "models--MiniMaxAI--MiniMax-M2"
    write_model(repository / "snapshots" / "0123456789abcdef", CONFIG)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123456789abcdef")
    assert probe.facts("MiniMaxAI/MiniMax-M2").vocab_size == 200064


@pytest.mark.parametrize("model", ["org/never-downloaded", "/no/such/dir", "../../etc", "", "a b"])
def test_a_model_that_is_not_here_is_unknown(probe, model):
    assert probe.facts(model) == ModelFacts()


@pytest.mark.parametrize(
    "content", ["", "[1]", '{"vocab_size": "many", "num_hidden_layers": true}']
)
def test_a_strange_config_is_no_error(probe, tmp_path, content):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text(content)
    facts = probe.facts(str(tmp_path / "m"))
    assert facts.vocab_size is None
    assert facts.layers is None


NUMBERS = st.sampled_from(
    ["1e999", "-1e999", "NaN", "1e300", "-1", "0", "true", "9" * 4000, '"7"', "[]", "{}", "null"]
)
KEYS = st.sampled_from(
    ["vocab_size", "hidden_size", "num_attention_heads", "head_dim", "architectures"]
)
HOSTILE = st.one_of(
    st.binary(max_size=50),
    st.sampled_from([b"[" * 200_000, b'{"text_config":' * 100_000, b'{"a":"\\ud800"}', b"7"]),
    st.dictionaries(KEYS, NUMBERS).map(
        lambda made: ("{" + ",".join(f'"{k}":{v}' for k, v in made.items()) + "}").encode()
    ),
    NUMBERS.map(lambda number: b'{"metadata":{"total_size":' + number.encode() + b"}}"),
    NUMBERS.map(lambda number: b'{"metadata":' + number.encode() + b"}"),
)


@given(config=HOSTILE, index=HOSTILE)
@settings(max_examples=60, deadline=None)
def test_no_file_of_a_model_makes_the_probe_fail(tmp_path_factory, config, index):
    model = tmp_path_factory.mktemp("m")
    (model / "config.json").write_bytes(config)
    (model / "model.safetensors.index.json").write_bytes(index)
    facts = ModelDirectory(model / "hub").facts(str(model))
    numbers = (facts.weight_bytes, facts.vocab_size, facts.head_dim, facts.kv_heads)
    assert all(number is None or 0 < number < 1 << 54 for number in numbers)


@pytest.mark.parametrize("model", ["x" * 5000, "a\0b", "/proc/1/root/m", "\ud800"])
def test_no_name_of_a_model_makes_the_probe_fail(probe, model):
    assert probe.facts(model) == ModelFacts()


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(probe, tmp_path):
    model = write_model(tmp_path / "m", CONFIG)
    os.mkfifo(model / "model.safetensors.index.json")
    assert probe.facts(str(model)).weight_bytes is None


def test_the_shape_and_the_tensors_come_with_the_numbers(probe, tmp_path):
    model = write.write_model(tmp_path / "m", MODELS["llama-3.1-8b"])
    facts = probe.facts(str(model))
    assert facts.for_memory.shape.layers == facts.layers == 32
    assert facts.for_memory.checkpoint.source is WeightSource.HEADERS
    assert facts.for_memory.checkpoint.total_bytes == facts.weight_bytes == 16_060_522_496


def test_files_are_read_again_only_when_one_has_changed(probe, tmp_path):
    model = write.write_model(tmp_path / "m", MODELS["llama-3.1-8b"])
    first = probe.facts(str(model))
    assert probe.facts(str(model)).for_memory is first.for_memory
    write_model(model, {**CONFIG, "vocab_size": 7})
    assert probe.facts(str(model)).vocab_size == 7


def test_a_slow_disk_costs_the_tensors_and_not_the_numbers(tmp_path):
    model = write.write_model(tmp_path / "m", MODELS["llama-3.1-8b"])
    files = read_model_directory(model, -1.0)
    assert files.checkpoint.source is WeightSource.INDEX
    assert files.checkpoint.total_bytes == 16_060_522_496
    assert files.problems == ("reading the headers of the weights takes too long",)


GROWTH = """
import sys
from vllm_warden.adapters.model_directory.probe import ModelDirectory
from vllm_warden.daemon.wiring import open_ports
def resident_kib():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
probe = ModelDirectory()
probe.facts(sys.argv[1])
before = resident_kib()
assert probe.facts(sys.argv[2]).for_memory.checkpoint.groups
print(resident_kib() - before)
"""


def test_what_is_kept_of_125_shards_is_less_than_a_mebibyte(tmp_path):
    small = write.write_model(tmp_path / "small", MODELS["llama-3.1-8b"])
    large = write.write_model(tmp_path / "large", MODELS["minimax-m2.5"])
    words = (sys.executable, "-c", GROWTH, str(small), str(large))
    grown = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(grown.stdout) < 1024
