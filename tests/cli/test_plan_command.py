"""``vllm-warden plan`` as a person and as a script sees it."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from tests.core.plan.memory_model.models_read import directory_of
from vllm_warden.cli.main import main

SEED = (
    *("--tensor-parallel-size", "4", "--max-model-len", "131072", "--gpus", "8"),
    *("--gpu-memory", "97887MiB", "--vllm", "0.15.1"),
)


def test_the_incidents_model_is_planned_in_80_columns(capsys):
    code = main(["plan", str(directory_of("minimax-m2.5")), *SEED])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "214.3 GiB in 125 files" in text
    assert "TP8+EP" in text
    assert "1536/8 = 192 is no multiple of 128" in " ".join(text.split())


def test_what_does_not_fit_is_exit_1_and_says_by_how_much(capsys):
    words = [str(directory_of("minimax-m2.5")), "-tp", "2", "--enable-expert-parallel", *SEED[2:]]

    assert main(["plan", *words]) == 1
    assert "does not fit: weights do not fit; 12.9 GiB short" in capsys.readouterr().out


def test_json_holds_every_term_with_its_source(capsys):
    assert main(["plan", str(directory_of("minimax-m2.5")), *SEED, "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert (answer["schema"], answer["fits"], answer["layout"]) == (1, True, "TP4")
    terms = {term["name"]: term for term in answer["stages"][0]["terms"]}
    assert terms["weights"]["source"] == "read"
    assert terms["sampler peak"]["bytes"] == 50 * 1024 * 200_064
    layouts = {layout["name"]: layout for layout in answer["layouts"]}
    assert layouts["TP2+EP"]["valid"] is False
    assert layouts["TP8+EP"]["fits"] is True


def test_a_refused_layout_is_exit_1(capsys):
    words = [str(directory_of("minimax-m2.5")), "--tensor-parallel-size", "8", *SEED[2:]]

    assert main(["plan", *words]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "vLLM refuses this layout: experts: 1536/8 = 192" in text


def test_an_instance_is_planned_by_its_name(tmp_path, capsys):
    config = tmp_path / "config.toml"
    config.write_text(
        f"""
[instance.llama]
model = "{directory_of("llama-3.1-8b")}"
gpus = [0, 1]
[instance.llama.engine]
tensor_parallel_size = 2
"""
    )

    code = main(["plan", "llama", "--config", str(config), "--gpu-memory", "24", "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert (answer["layout"], answer["gpus"]) == ("TP2", 2)
    assert code == (0 if answer["fits"] else 1)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["no-such-model-anywhere"], "neither an instance nor a model on this disk"),
        (["/no/such/model"], "neither an instance nor a model on this disk"),
        (["{here}", "--gpu-memory", "much"], "cannot read --gpu-memory much"),
        (["{here}", "--vllm", "new"], "cannot read --vllm new"),
        (["--tensor-parallel-size", "2"], "no model"),
    ],
)
def test_what_cannot_be_read_is_exit_2_with_a_hint(words, reason, tmp_path, capsys):
    config = tmp_path / "config.toml"
    config.write_text('[instance.other]\nmodel = "/m"\ngpus = []\nport = 1\n')
    filled = [word.replace("{here}", str(tmp_path)) for word in words]

    assert main(["plan", *filled, "--config", str(config)]) == 2
    assert reason in capsys.readouterr().err


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("files", "source", "gib"),
    [
        ({"model.safetensors": 2000}, "config.json alone", 15.0),
        ({"model.safetensors": 3 << 29}, "config.json alone", 15.0),
        ({"model.safetensors": 9 << 28}, "config.json alone", 15.0),
        ({"model.safetensors": 8 << 30}, "sizes of the weight files", 8.0),
        ({"model-00001-of-00004.safetensors": 4 << 30}, "config.json alone", 15.0),
        ({"pytorch_model.bin": 133}, "config.json alone", 15.0),
        ({}, "config.json alone", 15.0),
    ],
)
def test_weights_that_are_only_estimated_are_said_to_be_and_from_what(
    files: dict[str, int], source: str, gib: float, tmp_path: Path, capsys
):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    for name, held_bytes in files.items():
        (tmp_path / name).write_bytes(struct.pack("<Q", 10) + b'{"nonsense')
        os.truncate(tmp_path / name, held_bytes)
    words = ["plan", str(tmp_path), "--gpu-memory", "80GiB"]

    assert main(words) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"stay free, with weights of {gib} GiB estimated from {source}" in text
    main([*words, "--json"])
    weights = json.loads(capsys.readouterr().out)["weights"]
    assert (weights["source"], weights["estimated"]) == (source, True)
    assert abs(weights["total_bytes"] / (1 << 30) - gib) < 0.1


def test_weights_whose_headers_were_read_are_not_called_estimated(capsys):
    words = ["plan", str(directory_of("minimax-m2.5")), *SEED]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weights"]["estimated"] is False
    main(words)
    assert "estimated" not in capsys.readouterr().out


def test_an_empty_directory_cannot_be_planned(tmp_path: Path, capsys):
    assert main(["plan", str(tmp_path), "--gpu-memory", "80GiB"]) == 2
    assert "there is no config.json; there are no weight files" in capsys.readouterr().err


def test_weights_alone_are_judged_and_the_rest_is_called_unknown(tmp_path: Path, capsys):
    (tmp_path / "pytorch_model.bin").touch()
    os.truncate(tmp_path / "pytorch_model.bin", 200 << 30)

    assert main(["plan", str(tmp_path), "--gpu-memory", "80GiB"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "does not fit: weights do not fit" in text
    assert "KV cache: unknown" in text


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-model-len", "0"),
        ("--max-model-len", "-5"),
        ("--max-num-seqs", "0"),
        ("--max-num-batched-tokens", "-1"),
        ("--gpu-memory-utilization", "2"),
        ("--kv-cache-memory-bytes", "-1"),
        ("--tensor-parallel-size", "0"),
        ("--tensor-parallel-size", "1.5"),
        ("--tensor-parallel-size", "9" * 30),
        ("--vllm", "9" * 5000 + ".1"),
        ("--pipeline-parallel-size", "8000"),
        ("--data-parallel-size", "65"),
        ("--block-size", "0"),
        ("--cpu-offload-gb", "NaN"),
        ("--cpu-offload-gb", "1e400"),
    ],
)
def test_what_no_engine_takes_is_refused_and_not_planned_without_it(option, value, capsys):
    assert (
        main(["plan", str(directory_of("minimax-m2.5")), "--gpu-memory", "80GiB", option, value])
        == 2
    )
    assert "cannot " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "/" + "x" * 5000, "a/" + "x" * 300])
def test_a_name_that_is_too_long_for_any_file_is_none(name, capsys):
    assert main(["plan", name]) == 2
    assert "cannot " in capsys.readouterr().err


def test_what_config_json_holds_cannot_fill_or_steer_the_screen(tmp_path: Path, capsys):
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 8}
    names = ["A\x1b[31m\ud800\n" + "A" * 10_000]
    config = {**shape, "max_position_embeddings": 8, "architectures": names}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "pytorch_model.bin").write_bytes(b"x" * 64)

    assert main(["plan", str(tmp_path), "--gpu-memory", "80GiB"]) == 0
    text = capsys.readouterr().out
    assert len(text) < 5_000
    assert "\x1b" not in text


def test_what_is_no_size_is_told_from_what_is_missing(tmp_path: Path, capsys):
    (tmp_path / "config.json").write_text('{"hidden_size": 1e300}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")

    assert main(["plan", str(tmp_path), "--gpu-memory", "80GiB"]) == 2
    error = capsys.readouterr().err
    assert "config.json has no hidden_size that can be one" in error
    assert "config.json has no vocab_size;" in error


def test_the_longest_context_that_fits_may_be_asked_for(capsys):
    assert main(
        ["plan", str(directory_of("minimax-m2.5")), "--gpus", "8", "--max-model-len", "-1"]
    ) in {0, 1}


@pytest.mark.parametrize("text", [None, "{", '{"num_hidden_layers": -3}'])
def test_weights_whose_shape_is_unknown_are_never_said_to_fit(text, tmp_path: Path, capsys):
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    if text is not None:
        (tmp_path / "config.json").write_text(text)

    assert main(["plan", str(tmp_path), "--gpu-memory", "80GiB"]) == 2
    shown = capsys.readouterr()
    assert "cannot plan" in shown.err
    assert "config.json" in shown.err
    assert "fits" not in shown.out


def test_a_settings_file_that_was_named_and_is_not_there_is_said(tmp_path, capsys) -> None:
    assert main(["plan", "x", "--config", str(tmp_path / "missing.toml")]) == 2
    assert "missing.toml" in capsys.readouterr().err
