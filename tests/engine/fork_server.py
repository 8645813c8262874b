"""Imports vLLM once and runs ``vllm serve`` in a forked child for each request on its input.

Usage, with the engine's own interpreter: python -m tests.engine.fork_server BUILD_DIRECTORY
Starting vLLM is mostly imports, three times over; forked, a run takes a few seconds. In a child
``bin/vllm`` runs as ``__main__`` and forks the engine's processes in turn. Requests and answers are
JSON, one a line: {"argv", "environment", "log", "directory", "fault", "seconds"}; {"pid"}, and when
it has ended (or was killed after so many seconds) {"exit_status", "cpu_seconds"}.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from multiprocessing import resource_tracker
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).parent
PROGRAM = str(Path(sys.executable).with_name("vllm"))
TIDYING_SECONDS = 10
PRELOADED = [
    "compressed_tensors.compressors",
    "setproctitle",
    "transformers.models.llama",
    "uvicorn",
    "vllm.entrypoints.cli.benchmark.main",
    "vllm.entrypoints.cli.collect_env",
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.cli.openai",
    "vllm.entrypoints.cli.run_batch",
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.openai.api_server",
    "vllm.model_executor.model_loader.default_loader",
    "vllm.model_executor.model_loader.dummy_loader",
    "vllm.model_executor.models.llama",
    "vllm.model_executor.warmup.kernel_warmup",
    "vllm.v1.attention.backends.cpu_attn",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.engine.core_client",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.sample.sampler",
    "vllm.v1.worker.cpu_model_runner",
    "vllm.v1.worker.cpu_worker",
    "vllm.v1.worker.gpu_model_runner",
    "vllm.v1.worker.gpu_worker",
]


def preload() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    # vLLM looks into a model class in a process of its own, with all imports; here once for all
    registry: Any = importlib.import_module("vllm.model_executor.models.registry")
    registry._run_in_subprocess = lambda look: look()
    models = registry.ModelRegistry.models
    registry._try_inspect_model_cls("LlamaForCausalLM", models["LlamaForCausalLM"])
    gc.collect()
    gc.freeze()  # or each of vLLM's collections walks through all that was imported here


def build_hook(directory: Path) -> None:
    source, include = HERE / "gpufaults" / "hook.c", sysconfig.get_path("include")
    library = directory / "hook.so"
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", f"-I{include}", source, "-o", library], check=True
    )
    sys.path.append(str(directory))


def fork_engine_processes() -> None:
    """The CPU platform asks for spawned processes; a child then starts without line prefixes."""
    original = multiprocessing.get_context

    def get_context(method: str | None = None) -> Any:
        return original("fork" if method == "spawn" else method)

    def without_the_parents_prefix() -> None:
        for stream in (sys.stdout, sys.stderr):
            for name in ("write", "start_new_line"):
                stream.__dict__.pop(name, None)

    multiprocessing.get_context = get_context
    os.register_at_fork(after_in_child=without_the_parents_prefix)


def print_from_program(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """An uncaught error without the frames of this file."""
    step = trace
    while step is not None and step.tb_frame.f_code.co_filename != PROGRAM:
        step = step.tb_next
    traceback.print_exception(kind, error, step or trace)


def become(request: dict[str, Any]) -> None:
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    os.closerange(3, 64)
    os.chdir(request["directory"])
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # TMPDIR is one of them
    from vllm import logger

    logger._configure_vllm_root_logger()
    sys.excepthook = print_from_program
    sys.argv = [PROGRAM, *request["argv"]]
    sys.path.append(str(HERE / "oomsim"))
    if request.get("fault"):
        from tests.engine.gpufaults.install import install

        install(request["fault"])
    resource_tracker.ensure_running()  # one for all, as with spawned processes: it tidies up
    runpy.run_path(PROGRAM, run_name="__main__")


def main() -> None:
    build_hook(Path(sys.argv[1]))
    preload()
    fork_engine_processes()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps({"ready": os.getpid()}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            become(request)
            return
        print(json.dumps({"pid": pid}), file=answers)
        print(json.dumps(until_ended(pid, request["seconds"])), file=answers)


def until_ended(pid: int, seconds: int) -> dict[str, Any]:
    """Wait for the run's first process and a little for the others, then end those still there."""

    def kill(*_: object) -> None:
        os.killpg(pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.alarm(seconds)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # so that the number stays its own
    signal.alarm(0)
    patience = time.monotonic() + TIDYING_SECONDS
    while left_in_session(pid) and time.monotonic() < patience:
        time.sleep(0.05)
    kill()
    _, status, used = os.wait4(pid, 0)
    return {
        "exit_status": os.waitstatus_to_exitcode(status),
        "cpu_seconds": used.ru_utime + used.ru_stime,
    }


def left_in_session(pid: int) -> list[int]:
    """Processes of its session that still run, itself apart; one of them removes shared memory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text("utf-8").rpartition(")")[2].split()[:4]
            if int(session) == pid and state != "Z":
                found.append(int(path.parent.name))
    return found


if __name__ == "__main__":
    main()
