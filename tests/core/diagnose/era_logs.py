"""Places a failure's text in a log as vLLM of some era would have written it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

STARTED = (
    ("args", "server", "non-default args: {'model_tag': 'm', 'tensor_parallel_size': 2}"),
    ("init_device", "core", "Initializing a V1 LLM engine (v{version}) with config: model='m'"),
    ("load", "worker", "Starting to load model m..."),
    ("profile", "worker", "Model loading took 38.4012 GiB and 21.220712 seconds"),
    ("kv_plan", "worker", "Available KV cache memory: 21.07 GiB"),
    ("kv_alloc", "core", "GPU KV cache size: 137,984 tokens"),
    ("cudagraph", "worker", "Graph capturing finished in 21 secs, took 0.62 GiB"),
    ("serving", "server", "Starting vLLM API server 0 on http://0.0.0.0:8000"),
)
SOURCES = {"server": "api_server.py:1805", "core": "core.py:718", "worker": "gpu_worker.py:298"}


@dataclass(frozen=True)
class Era:
    """How lines look. A tag is written for lines without a record only where ``tags_all``."""

    version: str
    server: str
    core: str
    worker: str
    tags_all: bool = True
    colour: bool = False
    carriage_return: bool = False
    stacked: str = ""

    def tag(self, process: str) -> str:
        tag = {"server": self.server, "core": self.core, "worker": self.worker}[process]
        if not tag:
            return ""
        shown = f"\x1b[1;36m({tag})\x1b[0;0m" if self.colour else f"({tag})"
        return f"{self.stacked if process == 'worker' else ''}{shown} "

    def record(self, process: str, level: str, source: str, text: str) -> Iterator[str]:
        """The lines of one record: vLLM's formatter repeats the head on each."""
        end = "\r" if self.carriage_return else ""
        for line in text.split("\n"):
            yield f"{self.tag(process)}{level} 03-14 09:26:53 [{source}] {line}{end}"

    def uncaught(self, process: str, text: str) -> Iterator[str]:
        """What Python prints at the end of a process."""
        for line in text.split("\n"):
            yield (self.tag(process) if self.tags_all else "") + line


ERAS = (
    Era("0.8.5", "", "", "VllmWorker rank=1 pid=31"),
    Era("0.9.2", "", "", "VllmWorker rank=1 pid=31", colour=True, carriage_return=True),
    Era("0.10.1.1", "APIServer pid=10", "EngineCore_0 pid=20", "VllmWorker TP1 pid=31"),
    Era(
        "0.11.2",
        "APIServer pid=10",
        "EngineCore_DP0 pid=20",
        "Worker_TP1 pid=31",
        colour=True,
        stacked="\x1b[1;36m(EngineCore_DP0 pid=20)\x1b[0;0m ",
    ),
    Era("0.17.1", "APIServer pid=10", "EngineCore_DP0 pid=20", "Worker_TP1_EP1 pid=31"),
    Era("0.22.1", "APIServer pid=10", "EngineCore pid=20", "Worker_TP1 pid=31"),
    Era("0.30.0", "ApiServer_0 pid=10", "EngineCore_DP1 pid=20", "Worker_DP1_TP1_EP3 pid=31"),
    Era("0.33.0", "APIServer pid=10", "EngineCore pid=20", "Worker_TP1 pid=31", tags_all=False),
)


def started(era: Era, reached: str | None) -> Iterator[str]:
    """The records of a start up to the one that begins the phase; with None no record at all."""
    if reached is None:
        return
    yield from era.record(
        "server", "INFO", SOURCES["server"], f"vLLM API server version {era.version}"
    )
    for phase, process, text in STARTED:
        yield from era.record(
            process, "INFO", SOURCES[process], text.replace("{version}", era.version)
        )
        if phase == reached:
            break
    if reached == "serving":
        yield from era.uncaught("server", "INFO:     Application startup complete.")


def traceback(frames: Sequence[str], error: str) -> str:
    """As Python prints it; a frame is "file:function"."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        file, _, function = frame.rpartition(":")
        place = f"/opt/venv/lib/python3.12/site-packages/{file}"
        lines += [f'  File "{place}", line 217, in {function}', "    return call(self)"]
    return "\n".join([*lines, error])


def raised_in_worker(era: Era, reached: str, frames: Sequence[str], error: str) -> Iterator[str]:
    """The worker's own record, then what engine core and API server say of it."""
    early = reached in ("args", "init_device", "load")
    head = "WorkerProc failed to start." if early else "WorkerProc hit an exception."
    busy = "vllm/v1/executor/multiproc_executor.py:worker_busy_loop"
    body = traceback([busy, *frames], error)
    source = "multiproc_executor.py:822"
    yield from era.record("worker", "ERROR", source, f"{head}\n{body}")
    message = error.partition(": ")[2].partition("\n")[0]
    told = (
        "Exception: WorkerProc initialization failed due to an exception in a background "
        "process. See stack trace for root cause."
        if early
        else f"RuntimeError: Worker failed with error '{message}', please check the stack trace "
        "above for the root cause"
    )
    yield from _told(era, reached, ["vllm/v1/engine/core.py:run_engine_core"], told)


def raised_in_core(era: Era, reached: str, frames: Sequence[str], error: str) -> Iterator[str]:
    """The engine core's own record, then what the API server says of it."""
    core = "vllm/v1/engine/core.py:run_engine_core"
    yield from _told(era, reached, [core, *frames], error)


def _told(era: Era, reached: str, frames: Sequence[str], error: str) -> Iterator[str]:
    serving = reached == "serving"
    head = "EngineCore encountered a fatal error." if serving else "EngineCore failed to start."
    yield from era.record("core", "ERROR", "core.py:946", f"{head}\n{traceback(frames, error)}")
    last = (
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
        "See stack trace (above) for the root cause."
        if serving
        else "RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}"
    )
    client = ["vllm/v1/engine/async_llm.py:output_handler"]
    if serving:
        text = f"AsyncLLM output_handler failed.\n{traceback(client, last)}"
        yield from era.record("server", "ERROR", "async_llm.py:480", text)
    else:
        yield from era.uncaught("server", traceback(client, last))


def raised_in_server(era: Era, frames: Sequence[str], error: str) -> Iterator[str]:
    """An uncaught exception of the API server, which has no child yet."""
    first = [
        "vllm/entrypoints/cli/main.py:main",
        "vllm/entrypoints/openai/api_server.py:run_server",
    ]
    yield from era.uncaught("server", traceback([*first, *frames], error))


def rates(era: Era, tokens: float, running: int) -> Iterator[str]:
    """What the engine says of itself every ten seconds."""
    text = (
        f"Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {tokens} "
        f"tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%"
    )
    yield from era.record("server", "INFO", "loggers.py:248", text)


def silent(era: Era, wait: str, waits: int = 6) -> Iterator[str]:
    """Requests run, then nothing but ranks that wait for each other."""
    yield from rates(era, 41.5, 3)
    yield from rates(era, 0.0, 3)
    for _ in range(waits):
        yield from era.record("core", "INFO", "shm_broadcast.py:466", wait)
