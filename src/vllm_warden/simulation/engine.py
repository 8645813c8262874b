"""The stand-in for the ``vllm`` program: ``python -m vllm_warden.simulation.engine``.

It never imports torch or vLLM; it holds memory of simulated GPUs only.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from vllm_warden.simulation import flags, frames
from vllm_warden.simulation.api_server import Server
from vllm_warden.simulation.era import current
from vllm_warden.simulation.laws import LawsOf, ordinary
from vllm_warden.simulation.log import Log
from vllm_warden.simulation.plan import ConfigurationRefused, Plan, make_plan

BANNER = (
    "",
    "       █     █     █▄   ▄█",
    " ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
    "  █▄█▀ █     █     █     █  model   {model}",
    "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
    "",
)


def main(words: Sequence[str] | None = None, laws: LawsOf = ordinary) -> int:
    """Exit status as vLLM's: 2 usage, 1 a failed start, 0 stopped or died while serving."""
    args = flags.parse(sys.argv[1:] if words is None else words)
    era = current()
    log = Log(era.api_tag)
    model = str(args.model or args.model_tag or "Qwen/Qwen3-0.6B")
    if era.has_banner:
        for line in BANNER:
            log.info_line("utils.py:325", line.format(version=era.version, model=model))
    else:
        log.info_line("api_server.py:1395", f"vLLM API server version {era.version}")
    log.info_line("utils.py:261", f"non-default args: {given(args)}")
    bound = bind(args, log)
    if bound is None:
        return 1
    plan = configure(args, model, log, laws)
    if plan is None:
        return 1
    status = Server(plan, log, bound).run()
    # Threads of open connections must not keep a server that has stopped.
    os._exit(status)


def given(args: argparse.Namespace) -> dict[str, object]:
    """The arguments that were set, as vLLM shows them, secrets included in neither."""
    shown = {key: value for key, value in vars(args).items() if value is not None}
    shown.pop("api_key", None)
    if args.model_tag:
        shown["model"] = args.model_tag
    return {key: shown[key] for key in ("model_tag", *shown) if key in shown}


def bind(args: argparse.Namespace, log: Log) -> socket.socket | None:
    """The HTTP port, taken before anything is loaded; None when it is in use."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port = 8000 if args.port is None else args.port
    try:
        bound.bind((args.host or "0.0.0.0", port))  # noqa: S104 - vLLM's default
    except OSError as error:
        text = f"OSError: [Errno {error.errno}] {os.strerror(error.errno or 0)}"
        log.plain(*frames.traceback(frames.API_BIND, text))
        return None
    return bound


def configure(args: argparse.Namespace, model: str, log: Log, laws: LawsOf) -> Plan | None:
    """None when the model's folder is missing or a setting is refused; the log says why."""
    if model.startswith("/") and not Path(model).is_dir():
        text = (
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' "
            f"or 'namespace/repo_name': '{model}'. Use `repo_type` argument if needed."
        )
        log.plain(*frames.traceback(frames.API_MODEL_PATH, text))
        return None
    try:
        plan = make_plan(args, laws)
    except ConfigurationRefused as refused:
        log.plain(*frames.traceback(frames.API_CONFIG, refused.error))
        return None
    log.info_line("model.py:541", f"Resolved architecture: {plan.shape.architecture}")
    log.info_line("model.py:1561", f"Using max model len {plan.knobs.max_model_len}")
    tokens = plan.knobs.max_num_batched_tokens
    log.info_line(
        "scheduler.py:226", f"Chunked prefill is enabled with max_num_batched_tokens={tokens}."
    )
    log.info_line("vllm.py:624", "Asynchronous scheduling is enabled.")
    if plan.gpus:
        plan.pace.sleep(5)
    return plan


if __name__ == "__main__":
    sys.exit(main())
