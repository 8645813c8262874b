"""Reads the command line as vLLM 0.15.1 does, and refuses what that version refuses."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NoReturn

INTEGERS = (
    "port tensor-parallel-size pipeline-parallel-size data-parallel-size data-parallel-rank "
    "data-parallel-size-local data-parallel-rpc-port decode-context-parallel-size nnodes node-rank "
    "max-num-seqs max-num-partial-prefills max-long-partial-prefills long-prefill-token-threshold "
    "max-cudagraph-capture-size block-size num-gpu-blocks-override seed max-logprobs "
    "api-server-count max-loras max-lora-rank max-cpu-loras max-parallel-loading-workers "
    "stream-interval max-log-len h11-max-incomplete-event-size h11-max-header-count "
    "prefill-context-parallel-size mamba-block-size"
)
SIZES = "max-model-len max-num-batched-tokens kv-cache-memory-bytes"
FRACTIONS = (
    "gpu-memory-utilization swap-space cpu-offload-gb kv-offloading-size mm-processor-cache-gb"
)
WORDS = (
    "host uds model runner convert tokenizer tokenizer-mode dtype quantization load-format "
    "download-dir revision code-revision tokenizer-revision config-format hf-config-path hf-token "
    "kv-cache-dtype distributed-executor-backend data-parallel-address data-parallel-backend "
    "attention-backend reasoning-parser reasoning-parser-plugin tool-call-parser "
    "tool-parser-plugin chat-template chat-template-content-format response-role root-path "
    "ssl-keyfile ssl-certfile ssl-ca-certs guided-decoding-backend scheduling-policy "
    "prefix-caching-hash-algo generation-config logits-processor-pattern model-impl "
    "master-addr master-port config uvicorn-log-level log-config-file otlp-traces-endpoint "
    "optimization-level kv-offloading-backend mamba-cache-dtype mamba-ssm-cache-dtype "
    "mm-encoder-tp-mode mm-processor-cache-type all2all-backend cudagraph-capture-sizes "
    "allowed-local-media-path lora-dtype safetensors-load-strategy performance-mode"
)
TABLES = (
    "compilation-config speculative-config kv-transfer-config kv-events-config hf-overrides "
    "override-generation-config limit-mm-per-prompt mm-processor-kwargs media-io-kwargs "
    "model-loader-extra-config rope-scaling additional-config eplb-config pooler-config "
    "structured-outputs-config default-chat-template-kwargs ec-transfer-config profiler-config "
    "attention-config"
)
SWITCHES = (
    "trust-remote-code enforce-eager enable-expert-parallel enable-prefix-caching "
    "enable-chunked-prefill enable-lora enable-sleep-mode enable-eplb enable-dbo "
    "enable-log-requests enable-log-outputs enable-log-deltas enable-auto-tool-choice "
    "enable-prompt-tokens-details enable-server-load-tracking enable-force-include-usage "
    "enable-request-id-headers enable-ssl-refresh enable-prompt-embeds enable-tokenizer-info "
    "enable-return-routed-experts exclude-tools-when-tool-choice-none headless "
    "async-scheduling disable-custom-all-reduce disable-sliding-window disable-cascade-attn "
    "disable-log-stats disable-uvicorn-access-log disable-fastapi-docs disable-hybrid-kv-cache-"
    "manager disable-chunked-mm-input calculate-kv-scales skip-tokenizer-init skip-mm-profiling "
    "language-model-only allow-credentials return-tokens-as-token-ids trust-request-chat-template "
    "use-tqdm-on-load data-parallel-hybrid-lb data-parallel-external-lb "
    "ray-workers-use-nsight interleave-mm-strings show-hidden-metrics kv-sharing-fast-prefill"
)
LISTS = "served-model-name api-key allowed-origins middleware lora-modules cudagraph-sizes"
PLAIN_SWITCHES = frozenset({"headless", "disable-log-stats", "enable-ssl-refresh"})
"""Switches without a ``--no-`` form: store_true in vLLM."""

SUBCOMMANDS = "chat,complete,serve,bench,collect-env,run-batch"
MULTIPLIERS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class _Parser(argparse.ArgumentParser):
    """``prog`` of the inner parser is ``vllm serve``, of the outer one ``vllm``."""

    def error(self, message: str) -> NoReturn:
        if self.prog.endswith("serve") and message.startswith("unrecognized arguments"):
            # Real vLLM's inner parser leaves unknown words to the outer one, which refuses them.
            _refuse(message)
        self.exit(2, f"usage: vllm serve [model_tag] [options]\nvllm serve: error: {message}\n")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments after ``vllm``; exits 0 for --version and --help, 2 for a usage error."""
    if words[:1] == ["--version"] or words[:1] == ["-v"]:
        sys.stdout.write("0.15.1\n")
        raise SystemExit(0)
    if not words or words[0] in {"-h", "--help"}:
        sys.stdout.write(f"usage: vllm [-h] [-v] {{{SUBCOMMANDS}}} ...\n")
        raise SystemExit(0)
    if words[0] not in SUBCOMMANDS.split(","):
        choices = ", ".join(f"'{name}'" for name in SUBCOMMANDS.split(","))
        _refuse(
            f"argument subparser: invalid choice: '{words[0]}' (choose from {choices})",
        )
    parser = serve_parser()
    if any(word == "-h" or word.startswith("--help") for word in words):
        sys.stdout.write(parser.format_help())
        raise SystemExit(0)
    return parser.parse_args([_dashes(word) for word in words[1:]])


def serve_parser() -> argparse.ArgumentParser:
    """All options of ``vllm serve`` that the stand-in knows; most have no effect on it."""
    parser = _Parser(prog="vllm serve", add_help=False)
    parser.add_argument("model_tag", nargs="?")
    for name in INTEGERS.split():
        _add(parser, name, type=int)
    for name in SIZES.split():
        _add(parser, name, type=human_readable_int)
    for name in FRACTIONS.split():
        _add(parser, name, type=float)
    for name in WORDS.split():
        _add(parser, name)
    for name in TABLES.split():
        _add(parser, name, type=json.loads)
    for name in LISTS.split():
        _add(parser, name, nargs="+")
    for name in SWITCHES.split():
        plain = name in PLAIN_SWITCHES
        _add(parser, name, action="store_true" if plain else argparse.BooleanOptionalAction)
    return parser


def human_readable_int(text: str) -> int:
    """``16384``, ``16k`` (decimal) or ``16K`` (binary), as vLLM reads sizes."""
    if text == "auto":
        return -1
    if text[-1:] in MULTIPLIERS:
        return int(float(text[:-1]) * MULTIPLIERS[text[-1]])
    return int(text)


def _add(parser: argparse.ArgumentParser, name: str, **options: object) -> None:
    short = {"tensor-parallel-size": ["-tp"], "pipeline-parallel-size": ["-pp"]}
    short |= {"data-parallel-size": ["-dp"], "quantization": ["-q"]}
    words = [f"--{name}", *short.get(name, [])]
    parser.add_argument(*words, default=None, **options)  # type: ignore[arg-type]


def _dashes(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def _refuse(message: str) -> NoReturn:
    sys.stderr.write(
        f"usage: vllm [-h] [-v] {{{SUBCOMMANDS}}} ...\nvllm: error: {message}\n",
    )
    raise SystemExit(2)
