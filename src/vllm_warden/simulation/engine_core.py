"""The engine core process: it starts the ranks in order, then serves requests."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass
from typing import NoReturn

from vllm_warden.simulation import frames, physics, texts
from vllm_warden.simulation.era import current
from vllm_warden.simulation.executor import (
    Executor,
    StageFailed,
    WorkerDied,
    make_executor,
)
from vllm_warden.simulation.log import Log
from vllm_warden.simulation.physics import KvPlan, ModelLenTooLong, NoCacheBlocks
from vllm_warden.simulation.plan import Plan
from vllm_warden.simulation.stacks import stacks
from vllm_warden.simulation.title import set_title
from vllm_warden.simulation.wire import Wire, number

WORKER_GRACE_SECONDS = 4.0
"""What a survivor gets after another worker died (0.15: 4 s, then SIGTERM)."""


def core_main(plan: Plan, front: Wire) -> NoReturn:
    """Never returns; exit status 1 after a failed start, as multiprocessing gives it."""
    set_title("VLLM::EngineCore")
    log = Log(current().core_tag)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = 70
    try:
        status = _Core(plan, front, log, make_executor(plan, log, (front,))).main()
    except Exception as error:  # noqa: BLE001 - the last stop of a forked process
        log.plain(f"the stand-in engine itself failed: {error!r}")
    finally:
        os._exit(status)


@dataclass(slots=True)
class _Core:
    plan: Plan
    front: Wire
    log: Log
    executor: Executor

    def main(self) -> int:
        signal.signal(signal.SIGTERM, self._terminated)
        try:
            cache = self._start()
        except (StageFailed, WorkerDied) as error:
            return self._give_up(self._lines(error))
        self.front.send(ready=True, blocks=cache.blocks, tokens=cache.tokens)
        return self._serve()

    def _start(self) -> KvPlan:
        plan, begun = self.plan, time.monotonic()
        self.log.info_line("core.py:96", engine_line(plan))
        for stage in ("init_device", "load_model"):
            self.executor.run(stage, 0)
        profiled = time.monotonic()
        available = min(self.executor.run("determine_available_memory", 0))
        cache = self._plan_kv(available)
        self.log.info_line("kv_cache_utils.py:1307", f"GPU KV cache size: {cache.tokens:,} tokens")
        length = plan.knobs.max_model_len
        self.log.info_line(
            "kv_cache_utils.py:1312",
            f"Maximum concurrency for {length:,} tokens per request: {cache.tokens / length:.2f}x",
        )
        self.executor.run("initialize_from_config", cache.blocks)
        for step in (0, 1, 2):
            self.executor.run("compile_or_warm_up_model", step)
        seconds = (time.monotonic() - (profiled if plan.gpus else begun)) * plan.pace.speed
        self.log.info_line(
            "core.py:272",
            f"init engine (profile, create kv cache, warmup model) took {seconds:.2f} seconds",
        )
        return cache

    def _plan_kv(self, available_bytes: int) -> KvPlan:
        knobs = self.plan.knobs
        if not self.plan.gpus:
            return KvPlan(max(32_768, knobs.max_model_len // 16 + 1), 0)
        try:
            return physics.plan_kv(self.plan.shape, knobs, available_bytes)
        except NoCacheBlocks:
            text = texts.no_cache_blocks()
        except ModelLenTooLong as error:
            text = texts.model_len_too_long(error, knobs.max_model_len)
        rows = (*frames.CORE_START, *stacks().plan_kv)
        raise StageFailed(frames.traceback(rows, f"ValueError: {text}"))

    def _lines(self, error: StageFailed | WorkerDied) -> list[str]:
        if isinstance(error, StageFailed):
            return error.lines
        self._say_died(error)
        rows = (*frames.CORE_START, *frames.CORE_WAIT_WORKERS)
        return frames.traceback(
            rows,
            "Exception: WorkerProc initialization failed due to an exception in a background "
            "process. See stack trace for root cause.",
        )

    def _give_up(self, lines: list[str]) -> int:
        """The order of a failed start: core's record, workers ended, core's raw traceback."""
        self.log.error_line("core.py:946", "EngineCore failed to start.", *lines)
        self.executor.stop(self.plan.pace.grace(WORKER_GRACE_SECONDS))
        time.sleep(self.plan.pace.grace(1.5))
        raw = frames.traceback(frames.CORE_PROCESS, "")[1:]
        self.log.plain(f"Process {current().core_name}:", lines[0], *raw, *lines[1:])
        return 1

    def _serve(self) -> int:
        wires = self.executor.wires()
        orphaned = False
        while True:
            watched = [*wires, *(() if orphaned else (self.front,))]
            ready = [self.front] if self.front.has_more else select.select(watched, [], [])[0]
            dead = [rank for rank, wire in enumerate(wires) if wire in ready]
            if dead:
                return self._die(WorkerDied(dead[0]))
            request = self.front.receive()
            if request is None:
                orphaned = True  # vLLM's engine core outlives its parent, memory and all
                continue
            try:
                self._answer(request)
            except (StageFailed, WorkerDied) as error:
                return self._die(error)

    def _answer(self, request: dict[str, object]) -> None:
        identity = number(request, "id")
        self.front.send(admitted=identity)
        self.executor.run("execute_model", number(request, "tokens"))
        self.front.send(done=identity)

    def _die(self, error: StageFailed | WorkerDied) -> int:
        grace = self.plan.pace.grace(WORKER_GRACE_SECONDS)
        if isinstance(error, WorkerDied):
            self._say_died(error)
            self.front.send(dead="worker")
            time.sleep(grace)
            self.executor.stop(grace)
            return 0
        self.log.error_line("core.py:955", "EngineCore encountered a fatal error.", *error.lines)
        self.front.send(dead="fatal")
        self.executor.stop(grace)
        raw = frames.traceback(frames.CORE_PROCESS, "")[1:]
        self.log.plain(f"Process {current().core_name}:", error.lines[0], *raw, *error.lines[1:])
        return 1

    def _say_died(self, error: WorkerDied) -> None:
        code = " (exit code: None)" if current().tells_exit_code else ""
        self.log.error_line(
            "multiproc_executor.py:246",
            f"Worker proc VllmWorker-{error.rank} died unexpectedly{code}, shutting down executor.",
        )

    def _terminated(self, _number: int, _frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.executor.stop(self.plan.pace.grace(WORKER_GRACE_SECONDS))
        os._exit(0)


def engine_line(plan: Plan) -> str:
    """The line that carries version and configuration."""
    knobs = plan.knobs
    device = "cuda" if plan.gpus else "cpu"
    return (
        f"Initializing a V1 LLM engine (v{current().version}) with config: model='{plan.model}', "
        f"speculative_config=None, tokenizer='{plan.model}', skip_tokenizer_init=False, "
        "tokenizer_mode=auto, revision=None, dtype=torch.bfloat16, "
        f"max_seq_len={knobs.max_model_len}, load_format=auto, "
        f"tensor_parallel_size={knobs.tensor_parallel}, "
        f"pipeline_parallel_size={knobs.pipeline_parallel}, data_parallel_size=1, "
        f"enforce_eager={knobs.enforce_eager}, kv_cache_dtype=auto, device_config={device}, "
        f"seed=0, served_model_name={plan.served_name}, enable_prefix_caching=True, "
        "enable_chunked_prefill=True, pooler_config=None"
    )
