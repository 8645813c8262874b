"""Settings become argv and environment by the stated rules."""

from __future__ import annotations

import pytest

from vllm_warden.core.model import SettingValue
from vllm_warden.core.plan.command_line import (
    LaunchContext,
    build_argv,
    build_environment,
    option_words,
    printable,
)
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec

SPEC = InstanceSpec("tiny", "/srv/m", (), command=("nice", "vllm", "serve"))
CONTEXT = LaunchContext((2, 3), {}, "/var/lib/w/t/ab", "/var/lib/w/cache/vllm")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("enforce_eager", True, ["--enforce-eager"]),
        ("enable_prefix_caching", False, ["--no-enable-prefix-caching"]),
        ("enforce_eager", False, []),
        ("max_num_seqs", 256, ["--max-num-seqs", "256"]),
        ("gpu_memory_utilization", 0.9183, ["--gpu-memory-utilization", "0.9183"]),
        ("served_model_name", ["a", "b"], ["--served-model-name", "a", "b"]),
        ("hf_overrides", {"a": {"b": 1}}, ["--hf-overrides", '{"a":{"b":1}}']),
    ],
)
def test_options_become_words(name: str, value: SettingValue, words: list[str]) -> None:
    known = frozenset({"--no-enable-prefix-caching"})

    assert list(option_words(name, value, known)) == words


def test_argv_is_command_model_address_options_and_extras() -> None:
    spec = InstanceSpec("t", "/m", (), command=("vllm", "serve"), extra_args=("--x", "y z"))

    assert build_argv(spec, {"max_num_seqs": 8}, EngineFacts()) == (
        *("vllm", "serve", "/m", "--host", "127.0.0.1", "--port", "8000"),
        *("--max-num-seqs", "8", "--x", "y z"),
    )


@pytest.mark.parametrize(
    ("version", "expected"), [("0.17.1", False), ("0.18.0", True), ("0.32.0+cpu", True)]
)
def test_the_drain_is_passed_on_where_the_version_has_it(version: str, expected: bool) -> None:
    assert ("--shutdown-timeout" in build_argv(SPEC, {}, EngineFacts(version))) is expected


def test_an_operators_own_drain_wins() -> None:
    argv = build_argv(SPEC, {"shutdown_timeout": 5}, EngineFacts("0.32.0"))

    assert argv.count("--shutdown-timeout") == 1


def test_the_environment_is_an_allow_list_with_our_own_last() -> None:
    context = LaunchContext(
        (2, 3),
        {
            "PATH": "/bin",
            "NOTIFY_SOCKET": "/run/n",
            "LISTEN_FDS": "1",
            "CREDENTIALS_DIRECTORY": "/c",
            "WARDEN_X": "1",
            "AWS_SECRET_ACCESS_KEY": "s",
            "HF_HOME": "/hf",
            "CUDA_VISIBLE_DEVICES": "7",
        },
        "/t",
        "/c",
    )
    environment = build_environment(SPEC, context)

    assert environment["PATH"] == "/bin"
    assert environment["HF_HOME"] == "/hf"
    assert environment["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["NO_COLOR"] == "1"
    assert environment["TMPDIR"] == "/t"
    assert not {
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
        "CREDENTIALS_DIRECTORY",
        "WARDEN_X",
        "AWS_SECRET_ACCESS_KEY",
    } & set(environment)


def test_what_the_operator_wrote_wins_over_defaults_but_not_over_ours() -> None:
    spec = InstanceSpec(
        "t", "/m", (), environment={"PYTHONUNBUFFERED": "0", "TMPDIR": "/mine", "X": "1"}
    )
    environment = build_environment(spec, CONTEXT)

    assert environment["PYTHONUNBUFFERED"] == "0"
    assert environment["X"] == "1"
    assert environment["TMPDIR"] == "/var/lib/w/t/ab"


def test_secrets_reach_the_environment_and_never_argv_or_repr() -> None:
    spec = InstanceSpec("t", "/m", (), secret_environment={"VLLM_API_KEY": "s3cret"})

    assert build_environment(spec, CONTEXT)["VLLM_API_KEY"] == "s3cret"
    assert "s3cret" not in " ".join(build_argv(spec, {}, EngineFacts()))
    assert "s3cret" not in repr(spec)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (("env", "HF_TOKEN=s3cret", "vllm"), "env 'HF_TOKEN=***' vllm"),
        (("env", "db_password=s3cret and more s3cret"), "env 'db_password=***'"),
        (
            ("vllm", "--api-key", "s3cret", "s3cret", "--port", "1"),
            "vllm --api-key '***' '***' --port 1",
        ),
        (("vllm", "--hf-token=s3cret"), "vllm '--hf-token=***'"),
        (("env", "https_proxy=http://me:s3cret@p:1"), "env 'https_proxy=http://***@p:1'"),
        (("vllm", '{"api_key":"s3cret"}'), "vllm '{\"api_key\":***}'"),
        (("vllm", "--tokenizer", "m", "--max-num-seqs=4"), "vllm --tokenizer m --max-num-seqs=4"),
    ],
)
def test_a_printed_command_shows_no_secret(argv: tuple[str, ...], shown: str) -> None:
    assert printable(argv) == shown


def test_a_printed_command_can_be_pasted_into_a_shell() -> None:
    assert printable(("vllm", "--x", "it's a {json}")) == "vllm --x 'it'\\''s a {json}'"
