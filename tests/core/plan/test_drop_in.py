"""A vllm serve line as people have it is understood, and passed on word by word."""

from __future__ import annotations

import pytest

from vllm_warden.core.plan.drop_in import DropInError, instance_name, read_line


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


def test_the_api_key_leaves_the_line() -> None:
    line = read_line(["/m", "--api-key", "s3cret", "--x"])

    assert line.api_key == "s3cret"
    assert "s3cret" not in line.extra


def test_unknown_options_keep_their_order_and_values() -> None:
    assert read_line(["/m", "--a", "1", "--b", "x y"]).extra == ("--a", "1", "--b", "x y")


@pytest.mark.parametrize(
    "words", [[], ["--port", "1"], ["/m", "--max-num-seqs"], ["/m", "--port", "x"],
              ["/m", "--max-num-seqs", "many"]],
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
