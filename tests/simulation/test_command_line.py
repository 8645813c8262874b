"""The stand-in's command line, without starting a process."""

from __future__ import annotations

import argparse

import pytest

from vllm_warden.simulation import flags
from vllm_warden.simulation.host import Gpu
from vllm_warden.simulation.physics import Shape
from vllm_warden.simulation.plan import read_knobs, visible_gpus

SHAPE = Shape(1 << 30, 32_000, 4096, 32, 32, 8, 128, 8192)


def serve(*words: str) -> argparse.Namespace:
    return flags.parse(["serve", "a/model", *words])


def test_underscores_and_equals_signs_are_taken() -> None:
    assert serve("--max_num_seqs=7").max_num_seqs == 7


@pytest.mark.parametrize(
    ("text", "tokens"), [("16384", 16_384), ("16k", 16_000), ("16K", 16_384), ("auto", -1)]
)
def test_lengths_may_have_a_unit(text: str, tokens: int) -> None:
    assert serve("--max-model-len", text).max_model_len == tokens


def test_switches_can_be_turned_off() -> None:
    assert serve("--no-enable-prefix-caching").enable_prefix_caching is False


def test_the_version_is_the_one_whose_log_is_imitated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        flags.parse(["--version"])
    assert (exit_.value.code, capsys.readouterr().out) == (0, "0.15.1\n")


def test_help_lists_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        flags.parse(["serve", "--help=all"])
    assert "--max-num-seqs" in capsys.readouterr().out


def test_without_a_gpu_the_defaults_are_those_of_the_cpu() -> None:
    knobs = read_knobs(serve(), SHAPE, ())
    assert (knobs.max_num_seqs, knobs.max_num_batched_tokens) == (128, 2048)


def test_visible_devices_end_at_the_first_that_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("gpus")
    for index in range(3):
        (directory / f"gpu{index}").mkdir()
    monkeypatch.setenv("WARDEN_SIMULATED_GPUS", str(directory))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,7,1")
    assert visible_gpus() == (Gpu(directory / "gpu2"),)
