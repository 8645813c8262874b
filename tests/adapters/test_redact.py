"""Secrets never leave the gathering; what diagnosis needs stays."""

import time

import pytest

from vllm_warden.core.diagnose.redact import _prove_plain, redact


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m --api-key SECRETVALUE --port 8000",
        "vllm serve m --api-key=SECRETVALUE --port 8000",
        "vllm serve m --api-key one SECRETVALUE --port 8000",
        "non-default args: {'api_key': ['SECRETVALUE'], 'port': 8000}",
        "non-default args: {'api_key': 'SECRETVALUE', 'port': 8000}",
        'config={"api_key": "SECRETVALUE"}',
        "HF_TOKEN=SECRETVALUE vllm serve",
        "export AWS_SECRET_ACCESS_KEY=SECRETVALUE",
        "VLLM_API_KEY: SECRETVALUE",
        "db_password = 'SECRET VALUE SECRETVALUE'",
        "Authorization: Bearer SECRETVALUE",
        "headers={'Authorization': 'Basic SECRETVALUE'}",
        "got bearer SECRETVALUE0123",
        "token hf_SECRETVALUEabcdef is not valid",
        "key sk-proj-SECRETVALUEabc rejected",
        "git+https://ghp_SECRETVALUE0123456789@github.com/x",
        "proxy http://user:SECRETVALUE@proxy:3128 refused",
        "s3 failed: redis://:SECRETVALUE@cache:6379/0",
        "hf_token='SECRETVALUE',",
        "MY_SERVICE_TOKEN=SECRETVALUE",
        "password=[one, SECRETVALUE",
        "\x1b[33mapi_key\x1b[0m=\x1b[32m'SECRETVALUE'\x1b[0m",
        "hf_\x1b[31mSECRETVALUEabc\x1b[0m",
        "HF_TOK\x1b[1mEN\x1b[0m\x1b[2m=\x1b[0mSECRETVALUE",
        "INFO [x.py:1] h\x1b]0;] x\x07f_SECRETVALUEabc",
        r'{"levelname": "ERROR", "message": "{\"api_key\": \"SECRETVALUE\", \"a\": 1}"}',
        r"b'{\'token\': \'SECRET VALUE SECRETVALUE\'}'",
        "headers: {b'HF_TOKEN': b'SECRETVALUE'}",
        "Set-Cookie: session=a; token=SECRETVALUE",
        "https://cdn.example/m?X-Amz-Date=1&X-Amz-Signature=SECRETVALUE&a=1",
        "url: /m/blob?Expires=17&Policy=x&Signature=SECRETVALUE~x&Key-Pair-Id=K",
        "using github_pat_11SECRETVALUE0123456789",
        "using glpat-SECRETVALUE01",
        "using nvapi-SECRETVALUE01",
        "got eyJhbGciOiJIUzI1NiJ9.SECRETVALUE.abc-def",
    ],
)
def test_secret_values_are_masked(line):
    assert "SECRETVALUE" not in redact(line)
    assert "***" in redact(line)
    assert redact(redact(line)) == redact(line)


@pytest.mark.parametrize(
    "line",
    [
        "INFO GPU KV cache size: 524,288 tokens, Maximum concurrency for 2,048 tokens: 256.00x",
        "non-default args: {'max_num_batched_tokens': 2048, 'api_key': None, 'port': 8000}",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB. GPU 0 has",
        'File "/opt/vllm/tokenizer.py", line 12, in get_tokenizer',
        "eos_token_id=2, max_tokens=16, num_tokens: 5, keys=3",
        "KeyError: 'layers.0.mlp'",
        "Starting vLLM server on http://127.0.0.1:8000",
        "basic attention backend, key/value heads: 8",
        "task-specific risk-free disk-space",
        "tokenizer='/models/x', skip_tokenizer_init=False, tokenizer_mode=auto",
    ],
)
def test_what_diagnosis_reads_is_kept(line):
    assert redact(line) == line


def test_flags_after_a_secret_are_kept():
    line = redact("serve --api-key SECRET --max-num-seqs 256 --hf-token SECRET --port 1")
    assert line == "serve --api-key *** --max-num-seqs 256 --hf-token *** --port 1"


def test_masking_hostile_lines_stays_fast():
    """A prompt must not be able to stall the reader: 48 KiB within a fifth of a second of work."""
    hostile = [
        "token" * 9000,
        "api_key_" * 6000,
        "secret-" * 7000,
        "a" * 48_000 + "@",
        "http://" * 7000 + "@",
        "--api-key " * 4800,
        "'" * 24_000 + "token='" + "\\" * 20_000,
        "password=[" * 4800,
        "_" * 24_000 + "token" + "_" * 24_000,
        "bearer " * 7000,
    ]
    for line in hostile:
        began = time.thread_time()
        redact(line)
        assert time.thread_time() - began < 0.2, line[:20]


HEAD = "(EngineCore_0 pid=7) ERROR 11-29 15:22:23 [core.py:487] "


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "message", ["api_key=SECRETVALUE", "Bearer SECRETVALUE0123", "prompt='SECRETVALUE'"]
)
def test_what_is_known_of_a_head_does_not_spare_what_follows_it(message, times):
    assert redact(HEAD + "all is well") == HEAD + "all is well"
    for _ in range(times):
        assert "SECRETVALUE" not in redact(HEAD + message)
        assert redact(HEAD + "all is well") == HEAD + "all is well"


def test_a_line_with_a_secret_is_not_remembered():
    redact(HEAD + "all is well")
    before = _prove_plain.cache_info().currsize
    redact(HEAD + "api_key=SECRETVALUE")
    assert _prove_plain.cache_info().currsize == before
    redact(HEAD + "all is better")
    assert _prove_plain.cache_info().currsize == before + 1
