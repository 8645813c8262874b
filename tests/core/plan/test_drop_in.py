"""A vllm serve line as people have it is understood, and passed on word by word."""

from __future__ import annotations

import pytest

from vllm_warden.core.plan.drop_in import (
    DropInError,
    instance_name,
    question_for_the_engine,
    read_line,
)


def test_model_and_options() -> None:
    line = read_line(["/m", "--max-num-seqs", "512", "--enforce-eager", "--port=9000", "-tp", "4"])

    assert line.command == ("vllm", "serve")
    assert (line.model, line.port, line.host) == ("/m", 9000, None)
    assert line.engine == {"max_num_seqs": 512, "tensor_parallel_size": 4}
    assert line.extra == ("--enforce-eager",)


def test_a_whole_command_with_a_wrapper() -> None:
    words = "prlimit --as=6442450944 -- /opt/v/bin/vllm serve /m --kv-cache-memory-bytes 256M"
    line = read_line(words.split())

    assert line.command == ("prlimit", "--as=6442450944", "--", "/opt/v/bin/vllm", "serve")
    assert line.engine == {"kv_cache_memory_bytes": "256M"}


@pytest.mark.parametrize(
    ("option", "variable"), [("--api-key", "VLLM_API_KEY"), ("--hf-token", "HF_TOKEN")]
)
def test_secrets_leave_the_line_for_the_environment(option: str, variable: str) -> None:
    line = read_line(["/m", option, "s3cret", "--x"])

    assert line.secret_environment == {variable: "s3cret"}
    assert "s3cret" not in repr(line)


def test_a_second_api_key_is_refused_and_not_repeated() -> None:
    with pytest.raises(DropInError) as refused:
        read_line(["/m", "--api-key", "s3cret", "0ther", "--x"])
    assert "0ther" not in str(refused.value)


def test_unknown_options_keep_their_order_and_values() -> None:
    assert read_line(["/m", "--a", "1", "--b", "x y"]).extra == ("--a", "1", "--b", "x y")


@pytest.mark.parametrize(
    "words", [[], ["--port", "1"], ["/m", "--max-num-seqs"], ["/m", "--port", "x"],
              ["/m", "--max-num-seqs", "many"], ["/m", "--max-num-batched-tokens", "lots"],
              ["/m", "--gpu-memory-utilization", "nan"], ["--x", "1", "/m"], ["--model"]],
)  # fmt: skip
def test_what_cannot_be_understood_is_refused_with_a_reason(words: list[str]) -> None:
    with pytest.raises(DropInError, match="cannot read"):
        read_line(words)


@pytest.mark.parametrize(
    ("model", "name"),
    [("/srv/models/MiniMax-M2.5/", "minimax-m2-5"), ("org/Llama_3", "llama-3"), ("///", "engine")],
)
def test_names_of_instances_come_from_the_model(model: str, name: str) -> None:
    assert instance_name(model) == name


@pytest.mark.parametrize("option", ["--max-num-batched-tokens", "--max-model-len"])
@pytest.mark.parametrize("size", ["8k", "8K", "1m", "25.6k"])
def test_a_size_stays_as_it_was_typed(option: str, size: str) -> None:
    name = option.removeprefix("--").replace("-", "_")

    assert read_line(["/m", option, size]).engine == {name: size}


def test_only_the_options_that_vllm_reads_as_sizes_take_one() -> None:
    with pytest.raises(DropInError, match="--max-num-seqs 8k: it is no number"):
        read_line(["/m", "--max-num-seqs", "8k"])


@pytest.mark.parametrize("word", ["-tp4", "-tp=4", "--tensor_parallel_size=4"])
def test_the_forms_of_a_parallel_size(word: str) -> None:
    line = read_line(["/m", word, "-dpn", "0"])

    assert line.engine == {"tensor_parallel_size": 4}
    assert line.extra == ("-dpn", "0")


def test_an_option_is_not_the_value_of_another() -> None:
    with pytest.raises(DropInError, match="--host: it needs a value"):
        read_line(["/m", "--host", "--port", "8000"])
    assert read_line(["/m", "--max-model-len", "-1"]).engine == {"max_model_len": -1}


@pytest.mark.parametrize("port", ["0", "65536", "99999999999"])
def test_a_port_that_does_not_exist_is_refused(port: str) -> None:
    with pytest.raises(DropInError, match=f"--port {port}"):
        read_line(["/m", "--port", port])


@pytest.mark.parametrize(
    "words",
    [
        ["--model", "/m", "--port", "9000"],
        ["--x", "1", "--model=/m", "--port=9000"],
        ["--port", "9000", "/m", "--x", "1"],
    ],
)
def test_the_model_may_have_a_flag_or_stand_behind_options_that_we_know(words: list[str]) -> None:
    line = read_line(words)

    assert (line.model, line.port) == ("/m", 9000)
    assert line.extra in ((), ("--x", "1"))


def test_a_line_that_asks_for_help_is_the_engines_to_answer() -> None:
    assert question_for_the_engine(["/m", "--max-num-seqs", "4"]) is None
    assert question_for_the_engine(["/m", "--help=all"]) == ("vllm", "serve", "--help=all")
    assert question_for_the_engine(["-h"]) == ("vllm", "serve", "-h")
    assert question_for_the_engine(["nice", "/v/vllm", "serve", "--version"]) == (
        "nice", "/v/vllm", "--version",
    )  # fmt: skip
