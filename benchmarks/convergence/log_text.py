"""Writes the log of one attempt in the words of its version, and nothing else than vLLM would."""

from __future__ import annotations

from benchmarks.convergence import frames
from benchmarks.convergence.boot import Outcome
from benchmarks.convergence.eras import Era
from benchmarks.convergence.log_failures import MESSAGES, figures_text
from benchmarks.convergence.scenario import GIB, Scenario, Wall

ORDER = list(Wall)
STAMP = "11-29 15:24:37"
PIDS = {"api": 900, "core": 901, "worker": 910}


class Writer:
    """Lines with the prefixes of one era; TP 1 runs the model inside the engine core."""

    def __init__(self, scenario: Scenario) -> None:
        self.era: Era = scenario.truth.era
        self.ranks = scenario.truth.ranks
        self.lines: list[str] = []

    def say(self, process: str, level: str, place: str, *messages: str) -> None:
        head = f"{self.prefix(process)}{level} {STAMP} [{place}] "
        self.lines += [head + message for message in messages]

    def raw(self, process: str, *messages: str) -> None:
        bare = self.era.version >= "0.31"
        head = "" if bare else self.prefix(process)
        self.lines += [head + message for message in messages]

    def prefix(self, process: str) -> str:
        if process == "worker" and self.ranks == 1:
            process = "core"
        if not self.era.tagged:
            many = process == "worker"
            return f"(VllmWorker rank=0 pid={PIDS['worker']}) " if many else ""
        name = {"api": "APIServer", "core": self.era.core, "worker": "Worker_TP0"}[process]
        return f"({name} pid={PIDS[process]}) "


def log_of(scenario: Scenario, outcome: Outcome) -> list[str]:
    """All lines of the attempt, first to last."""
    writer = Writer(scenario)
    if outcome.wall is Wall.FLAG:
        writer.lines += [
            "usage: vllm serve [model_tag] [options]",
            f"vllm serve: error: unrecognized arguments: {scenario.operator.bad_flag}",
        ]
        return writer.lines
    _begin(writer, scenario, outcome)
    reached = len(ORDER) if outcome.wall is None else ORDER.index(outcome.wall)
    for wall, part in _STARTING:
        if reached > ORDER.index(wall):
            part(writer, scenario, outcome)
    if outcome.ready_at is not None:
        _serving(writer, scenario)
    if outcome.wall is not None:
        _die(writer, scenario, outcome)
    return writer.lines


def _begin(writer: Writer, scenario: Scenario, outcome: Outcome) -> None:
    version, model = writer.era.version, scenario.truth.model
    settings = outcome.settings
    words = ", ".join(f"{name!r}: {value!r}" for name, value in settings.items())
    if version < "0.14":
        writer.say("api", "INFO", "api_server.py:1395", f"vLLM API server version {version}")
    writer.say("api", "INFO", "utils.py:261", f"non-default args: {{'model': {model!r}, {words}}}")
    length, tokens = settings["max_model_len"], settings["max_num_batched_tokens"]
    writer.say("api", "INFO", "model.py:1561", f"Using max model len {length}")
    writer.say(
        "api",
        "INFO",
        "scheduler.py:226",
        f"Chunked prefill is enabled with max_num_batched_tokens={tokens}.",
    )
    writer.say(
        "core",
        "INFO",
        "core.py:96",
        f"Initializing a V1 LLM engine (v{version}) with config: model='{model}', "
        f"speculative_config=None, tokenizer='{model}', dtype=torch.bfloat16, "
        f"max_seq_len={length}, tensor_parallel_size={writer.ranks}, "
        f"enforce_eager={settings.get('enforce_eager', False)}, kv_cache_dtype=auto",
    )


def _loading(writer: Writer, scenario: Scenario, _: Outcome) -> None:
    if writer.era.second_runner:
        if writer.era.version >= "0.16":
            writer.say("worker", "INFO", "gpu_worker.py:240", "Using V2 Model Runner")
        writer.say("worker", "INFO", "model_runner.py:392", "Loading model from scratch...")
    else:
        text = f"Starting to load model {scenario.truth.model}..."
        writer.say("worker", "INFO", "gpu_model_runner.py:4033", text)


def _loaded(writer: Writer, scenario: Scenario, _: Outcome) -> None:
    gib = scenario.truth.weights / GIB
    old = writer.era.version in ("0.9.2", "0.11.2", "0.13.0")
    size = f"{gib:.4f}" if old else str(round(gib, 2))
    word = " " if writer.era.version == "0.9.2" or writer.era.second_runner else " memory "
    text = f"Model loading took {size} GiB{word}and 212.332110 seconds"
    writer.say("worker", "INFO", "gpu_model_runner.py:4130", text)


def _profiled(writer: Writer, scenario: Scenario, outcome: Outcome) -> None:
    era = writer.era
    if era.version >= "0.11":
        text = "Dynamo bytecode transform time: 9.10 s"
        writer.say("worker", "INFO", "backends.py:704", text)
    if era.graphs_budgeted and outcome.need.graphs:
        estimate = outcome.need.estimate / GIB
        if not era.second_runner:
            text = f"Estimated CUDA graph memory: {estimate:.2f} GiB total"
            writer.say("worker", "INFO", "gpu_model_runner.py:6475", text)
    fixed = outcome.settings.get("kv_cache_memory_bytes")
    gib = outcome.available / GIB
    if fixed is None:
        size = f"{gib:.2f}" if era.version < "0.14" else str(round(gib, 2))
        text = f"Available KV cache memory: {size} GiB"
    else:
        free = (scenario.truth.total - outcome.others.init - scenario.truth.context) / GIB
        text = (
            f"Initial free memory {free:.2f} GiB, reserved {gib:.2f} GiB memory for KV Cache as "
            "specified by kv_cache_memory_bytes config and skipped memory profiling."
        )
    writer.say("worker", "INFO", "gpu_worker.py:356", text)
    if era.graphs_budgeted and outcome.need.graphs:
        utilization = float(outcome.settings["gpu_memory_utilization"])
        share = outcome.need.estimate / scenario.truth.total
        writer.say(
            "worker",
            "INFO",
            "gpu_worker.py:371",
            "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
            f"--gpu-memory-utilization={utilization:.4f} is equivalent to "
            f"--gpu-memory-utilization={utilization - share:.4f} without CUDA graph memory "
            "profiling. To maintain the same effective KV cache size as before, increase "
            f"--gpu-memory-utilization to {min(1.0, utilization + share):.4f}. To disable, set "
            "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0.",
        )


def _planned(writer: Writer, _: Scenario, outcome: Outcome) -> None:
    tokens, length = outcome.tokens, int(outcome.settings["max_model_len"])
    size = f"GPU KV cache size: {tokens:,} tokens"
    most = f"Maximum concurrency for {length:,} tokens per request: {tokens / length:.2f}x"
    if writer.era.one_kv_line:
        writer.say("core", "INFO", "kv_cache_utils.py:2235", f"{size}, {most}")
    else:
        writer.say("core", "INFO", "kv_cache_utils.py:1307", size, most)


def _captured(writer: Writer, _: Scenario, outcome: Outcome) -> None:
    if not outcome.need.graphs:
        return
    gib = outcome.need.graphs / GIB
    text = f"Graph capturing finished in 24 secs, took {gib:.2f} GiB"
    writer.say("worker", "INFO", "gpu_model_runner.py:5063", text)
    if writer.era.graphs_budgeted:
        estimate = outcome.need.estimate / GIB
        off = abs(gib - estimate)
        writer.say(
            "worker",
            "INFO",
            "gpu_worker.py:972",
            f"CUDA graph pool memory: {round(gib, 2)} GiB (actual), {round(estimate, 2)} GiB "
            f"(estimated), difference: {round(off, 2)} GiB ({100 * off / max(gib, 0.01):.1f}%).",
        )


def _warmed(writer: Writer, _: Scenario, __: Outcome) -> None:
    text = "init engine (profile, create kv cache, warmup model) took 84.20 seconds"
    writer.say("core", "INFO", "core.py:272", text)


_STARTING = (
    (Wall.INIT, _loading),
    (Wall.LOAD, _loaded),
    (Wall.DISTURBED, _profiled),
    (Wall.KV_PLAN, _planned),
    (Wall.CAPTURE, _captured),
    (Wall.WARMUP, _warmed),
)


def _serving(writer: Writer, scenario: Scenario) -> None:
    version = writer.era.version
    word = "vLLM API server 0" if version < "0.18" else "vLLM server"
    writer.say("api", "INFO", "api_server.py:1500", f"Starting {word} on http://127.0.0.1:8000")
    writer.raw("api", "INFO:     Application startup complete.")
    for prompt in scenario.load.prompts:
        writer.say(
            "api",
            "INFO",
            "logger.py:40",
            f"Received request chatcmpl-77: prompt: {prompt!r}, params: SamplingParams(n=1)",
        )


def _die(writer: Writer, scenario: Scenario, outcome: Outcome) -> None:
    wall = outcome.wall
    if wall is Wall.EXIT:
        _exit(writer)
        return
    if wall is None:
        return
    if wall is Wall.CAPTURE and outcome.need.sizes:
        _bar(writer, outcome)
    message = MESSAGES[wall](scenario, outcome)
    if wall is Wall.KV_PLAN:
        lines = frames.traceback(frames.CORE_PLAN, f"ValueError: {message}")
        _core_failed(writer, lines)
        return
    lines = _worker_traceback(writer, scenario, outcome, message)
    serving = wall in (Wall.FULL_BATCH, Wall.SPIKE)
    if writer.ranks > 1:
        _worker_failed(writer, wall, lines)
        short = message.split("\n")[0]
        if wall in (Wall.INIT, Wall.LOAD):
            relayed = frames.traceback(
                frames.CORE_WAITS,
                "Exception: WorkerProc initialization failed due to an exception in a background "
                "process. See stack trace for root cause.",
            )
        else:
            profiles = ORDER.index(wall) <= ORDER.index(Wall.DISTURBED)
            starting = frames.CORE_PROFILES if profiles else frames.CORE_WARMS_UP
            relayed = frames.traceback(
                frames.CORE_SERVES if serving else starting,
                f"RuntimeError: Worker failed with error '{short}', please check the stack trace "
                "above for the root cause",
            )
        lines = relayed
    else:
        outer = frames.CORE_SERVES if serving else frames.CORE
        lines = [lines[0], *frames.traceback(outer, "")[1:-1], *lines[1:]]
    if serving:
        _core_died(writer, lines)
    else:
        _core_failed(writer, lines)


def _worker_traceback(
    writer: Writer, scenario: Scenario, outcome: Outcome, message: str
) -> list[str]:
    wall, era = outcome.wall, writer.era
    assert wall is not None
    outer = () if writer.ranks == 1 else frames.RPC
    if wall in (Wall.INIT, Wall.LOAD) and writer.ranks > 1:
        outer = frames.WORKER_INIT
    rows = (*outer, *frames.frames_of(era, wall))
    if outcome.torch is None:
        kind = "AssertionError" if wall is Wall.DISTURBED else "ValueError"
        return frames.traceback(rows, f"{kind}: {message}")
    oom = f"torch.OutOfMemoryError: {figures_text(scenario, outcome)}"
    if wall in (Wall.PROFILE_SAMPLER, Wall.WARMUP) and not era.second_runner:
        if outcome.part == 0:
            return frames.traceback((*rows, *frames.SAMPLER_LOGITS), oom)
        return [
            *frames.traceback(frames.SAMPLER_CAUSE, oom),
            "",
            "The above exception was the direct cause of the following exception:",
            "",
            *frames.traceback((*rows, *frames.RAISES_SAMPLER), f"RuntimeError: {message}"),
        ]
    if wall is Wall.LOAD and era.friendly_load:
        writer.say(
            "worker",
            "ERROR",
            "gpu_model_runner.py:4120",
            "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization "
            "to free memory for weights, increasing --tensor-parallel-size, or using "
            f"--quantization. See https://docs.vllm.ai (original error: "
            f"{figures_text(scenario, outcome)})",
        )
    return frames.traceback(rows, oom)


def _worker_failed(writer: Writer, wall: Wall, lines: list[str]) -> None:
    place = "multiproc_executor.py:852"
    if wall in (Wall.INIT, Wall.LOAD):
        writer.say("worker", "ERROR", place, "WorkerProc failed to start.", *lines)
    else:
        writer.say("worker", "ERROR", place, "WorkerProc hit an exception.", *lines)


def _core_failed(writer: Writer, lines: list[str]) -> None:
    writer.say("core", "ERROR", "core.py:946", "EngineCore failed to start.", *lines)
    writer.raw("core", f"Process {writer.era.core}:", *lines)
    failed = f"{{'{writer.era.core}': 1}}" if writer.ranks == 1 else "{}"
    writer.raw(
        "api",
        *frames.traceback(
            frames.API,
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
            f"proc(s): {failed}",
        ),
    )


def _core_died(writer: Writer, lines: list[str]) -> None:
    writer.say("core", "ERROR", "core.py:955", "EngineCore encountered a fatal error.", *lines)
    writer.say("api", "ERROR", "async_llm.py:540", "AsyncLLM output_handler failed.")
    writer.say(
        "api",
        "ERROR",
        "async_llm.py:540",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack "
        "trace (above) for the root cause.",
    )
    writer.raw("api", "INFO:     Shutting down", "INFO:     Application shutdown complete.")


def _exit(writer: Writer) -> None:
    if writer.era.version < "0.20":
        text = f"Engine core proc {writer.era.core} died unexpectedly, shutting down client."
        writer.say("api", "ERROR", "core_client.py:600", text)
    else:
        text = "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup"
        writer.say("api", "WARNING", "core_client.py:610", text)
    writer.say("api", "ERROR", "async_llm.py:540", "AsyncLLM output_handler failed.")
    writer.raw("api", "INFO:     Shutting down", "INFO:     Application shutdown complete.")


def _bar(writer: Writer, outcome: Outcome) -> None:
    done, sizes = outcome.captured, outcome.need.sizes
    name = "Capturing CUDA graph shapes"
    if writer.era.tagged:
        name = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)"
    line = f"{name}: {done / sizes:4.0%}|{'█' * (10 * done // sizes):<10}| {done}/{sizes}"
    writer.raw("worker", f"{line} [00:09<00:06,  2.31it/s]")
