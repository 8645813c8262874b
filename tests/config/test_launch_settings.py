"""Settings for one launch obey the rules of the settings file, and admins' ones stay narrow."""

from __future__ import annotations

import pytest

from vllm_warden.config.launch_settings import (
    given_settings_problem,
    launchable,
    unknown_option_problem,
)
from vllm_warden.core.model import SettingValue
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec

SPEC = InstanceSpec(
    "a", "/m", (0,), engine={"max_num_seqs": 1024}, extra_args=("--served-model-name", "x")
)


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no setting"),
        ({"port": 9000}, "port: it has a key of its own"),
        ({"api_key": "x"}, "api_key: a secret in argv"),
        ({"ssl_keyfile_password": "x"}, "ssl_keyfile_password: a secret in argv"),
        ({"max-num-seqs": 4}, "underscores"),
        ({"--x": 1}, "cannot set --x: engine options are written with underscores; write x"),
        ({"_x": 1}, "written with letters"),
        ({"\u00e9": 1}, "written with letters"),
        ({"": 1}, "written with letters"),
        ({"served_model_name": "y"}, "given"),
        ({"gpu_memory_utilization": 1.4}, "out of bounds"),
        ({"gpu_memory_utilization": "nan"}, "out of bounds"),
        ({"max_num_seqs": 10**400}, "max_num_seqs: out of bounds (allowed: 1 to 281474976710656)"),
        ({"max_num_seqs": "1" + "0" * 400}, "max_num_seqs: this is no number"),
        ({"max_num_seqs": "many"}, "max_num_seqs: this is no number"),
        ({"max_num_seqs": [4]}, "max_num_seqs: this is no number"),
        ({"max_num_seqs": True}, "max_num_seqs: this is no number"),
        ({"max_num_seqs": 1.5}, "max_num_seqs: no whole number"),
        ({"max_num_seqs": "64.0"}, "max_num_seqs: this is no number"),
        ({"tensor_parallel_size": 0}, "out of bounds (allowed: 1 to 281474976710656)"),
        ({"pipeline_parallel_size": "x"}, "cannot set pipeline_parallel_size: this is no number"),
        ({"data_parallel_size": 1.5}, "no whole number"),
        ({"cpu_offload_gb": -1}, "0 to 281474976710656"),
        ({"max_num_seqs": None}, "max_num_seqs: not a value"),
        ({"enable_fault_tolerance": True}, "enable_fault_tolerance"),
        ({"dtype": "a\0b"}, "dtype: it holds a NUL character"),
        ({"dtype": "\ud800"}, "dtype: it holds half a character"),
        ({"hf_overrides": {"a": [{"\ud800": 1}]}}, "hf_overrides: it holds half a character"),
        ({"hf_overrides": {"a": float("nan")}}, "hf_overrides: it is no finite number"),
        ({"hf_overrides": nested(2_000)}, "hf_overrides: it is nested deeper than 32"),
    ],
)
def test_what_the_file_may_not_say_may_nobody_give(given: dict[str, object], words: str) -> None:
    problem = given_settings_problem(SPEC, given, may_all=True)

    assert problem is not None
    assert words in problem


def test_options_that_the_engine_does_not_have_are_refused_where_its_options_are_known() -> None:
    all_have = {"--max-num-seqs", "--max-model-len", "--gpu-memory-utilization"}
    flags = frozenset({*all_have, "--served-model-name", "--no-x", "--y-z"})
    known = EngineFacts(version="0.15.1", flags=flags)

    problem = unknown_option_problem({"max_num_seqs": 4, "w": 1}, known)
    assert problem == (
        "cannot set w: vLLM 0.15.1 has no option --w",
        "vllm serve --help lists them",
    )
    close = unknown_option_problem({"max_num_sequs": 4}, known)
    assert close is not None
    assert close[1] == "did you mean max_num_seqs?"
    assert unknown_option_problem({"no_x": True, "y_z.depth": 3}, known) is None
    assert unknown_option_problem({"w": 1}, EngineFacts()) is None
    partial = EngineFacts(version="0.99.0", flags=flags - {"--max-model-len"})
    assert unknown_option_problem({"w": 1}, partial) is None


def test_root_may_give_any_option_and_an_admin_those_that_load_nothing() -> None:
    code = {"trust_remote_code": True, "max_num_seqs": 4}

    assert given_settings_problem(SPEC, code, may_all=True) is None
    assert given_settings_problem(SPEC, {"max_num_seqs": 4}, may_all=False) is None
    problem = given_settings_problem(SPEC, code, may_all=False)
    assert problem == "cannot set trust_remote_code: only root may"


@pytest.mark.parametrize(
    "given",
    [{"gpu_memory_utilization": "0.9"}, {"max_model_len": "auto"}, {"max_model_len": "25.6k"}],
)
def test_numbers_that_vllm_reads_from_text_are_taken(given: dict[str, object]) -> None:
    assert given_settings_problem(SPEC, given, may_all=True) is None


def test_sizes_are_written_as_vllm_reads_them() -> None:
    given: dict[str, SettingValue] = {"kv_cache_memory_bytes": "16MiB", "max_num_seqs": 4}

    assert launchable(given) == {"kv_cache_memory_bytes": 16 << 20, "max_num_seqs": 4}


def test_a_count_is_handed_over_as_a_whole_number() -> None:
    given: dict[str, SettingValue] = {"max_num_seqs": 64.0, "gpu_memory_utilization": 1.0, "x": 2.0}

    assert repr(launchable(given)) == repr(
        {"max_num_seqs": 64, "gpu_memory_utilization": 1.0, "x": 2.0}
    )
