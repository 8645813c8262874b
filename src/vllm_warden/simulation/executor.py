"""Runs stages on all ranks: in worker processes, or in the engine core when there is one.

vLLM does the same (executors ``mp`` and ``uni``); tracebacks and log lines differ accordingly.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from vllm_warden.simulation import frames
from vllm_warden.simulation.era import current
from vllm_warden.simulation.log import Log
from vllm_warden.simulation.plan import Plan
from vllm_warden.simulation.rank import Rank, RankFailed
from vllm_warden.simulation.title import set_title
from vllm_warden.simulation.wire import Wire, number, wire_pair

START_STAGES = ("init_device", "load_model")


class StageFailed(Exception):  # noqa: N818 - reads as the sentence it is
    """A stage failed on some rank; ``lines`` is the engine core's traceback of it."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lines[-1])
        self.lines = lines


class WorkerDied(Exception):  # noqa: N818 - names what is the case
    """A worker process is gone without a word."""

    def __init__(self, rank: int) -> None:
        super().__init__(f"rank {rank}")
        self.rank = rank


class Executor(Protocol):
    def run(self, stage: str, argument: int) -> list[int]:
        """The stage's result on every rank. Raises StageFailed, WorkerDied."""

    def wires(self) -> list[Wire]:
        """Wires of the workers: one that becomes readable while idle means a dead worker."""

    def stop(self, grace_seconds: float) -> None: ...


@dataclass(slots=True)
class UniExecutor:
    """One rank, inside the engine core."""

    plan: Plan
    log: Log
    _rank: Rank = field(init=False)

    def __post_init__(self) -> None:
        self._rank = Rank(self.plan, 0, self.log)

    def run(self, stage: str, argument: int) -> list[int]:
        try:
            return [self._rank.run(stage, argument)]
        except RankFailed as error:
            outer = (*core_rows(stage, uni=True), *frames.CORE_RPC_UNI)
            raise StageFailed(error.traceback(outer)) from error

    def wires(self) -> list[Wire]:
        return []

    def stop(self, grace_seconds: float) -> None:
        pass


@dataclass(slots=True)
class MultiprocExecutor:
    """One worker process per rank, children of the engine core."""

    plan: Plan
    log: Log
    close_in_child: tuple[Wire, ...] = ()
    _pids: list[int] = field(default_factory=list)
    _wires: list[Wire] = field(default_factory=list)

    def start(self) -> None:
        for rank in range(self.plan.knobs.world_size):
            ours, theirs = wire_pair()
            pid = os.fork()
            if pid == 0:
                # A copy of another end would hide the engine core's death from that worker.
                for wire in (ours, *self._wires, *self.close_in_child):
                    wire.close()
                worker_main(self.plan, rank, theirs)
            theirs.close()
            self._pids.append(pid)
            self._wires.append(ours)

    def run(self, stage: str, argument: int) -> list[int]:
        for wire in self._wires:
            wire.send(stage=stage, argument=argument)
        results = dict.fromkeys(range(len(self._wires)), 0)
        missing = dict(enumerate(self._wires))
        while missing:
            readable, _, _ = select.select(list(missing.values()), [], [])
            for rank in [rank for rank, wire in missing.items() if wire in readable]:
                message = missing.pop(rank).receive()
                if message is None:
                    raise WorkerDied(rank)
                if "error" in message:
                    raise StageFailed(_rpc_traceback(stage, str(message["error"])))
                results[rank] = number(message, "ok")
        return list(results.values())

    def wires(self) -> list[Wire]:
        return self._wires

    def stop(self, grace_seconds: float) -> None:
        """SIGTERM, then SIGKILL to those that are left; reaps them."""
        for pid in self._pids:
            _signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        for pid in self._pids:
            while not _reaped(pid):
                if time.monotonic() > deadline:
                    _signal(pid, signal.SIGKILL)
                time.sleep(0.005)
        self._pids.clear()


def make_executor(plan: Plan, log: Log, close_in_child: tuple[Wire, ...]) -> Executor:
    if plan.knobs.world_size == 1:
        return UniExecutor(plan, log)
    executor = MultiprocExecutor(plan, log, close_in_child)
    executor.start()
    return executor


def worker_main(plan: Plan, rank: int, core: Wire) -> NoReturn:
    """A worker: says what it holds, obeys, and ends when the engine core does."""
    name = f"TP{rank % plan.knobs.tensor_parallel}"
    if plan.knobs.pipeline_parallel > 1:
        name = f"PP{rank // plan.knobs.tensor_parallel}_{name}"
    if plan.knobs.expert_parallel:
        name = f"{name}_EP{rank}"
    set_title(f"VLLM::Worker_{name}")
    tag = current().worker_tag.format(name=name, rank=rank)
    log = Log(tag if current().tagged_from_start else "")
    worker = Rank(plan, rank, log)

    def terminated(_number: int, _frame: object) -> NoReturn:
        log.warning_line("multiproc_executor.py:786", "WorkerProc was terminated")
        os._exit(0)

    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _guard(lambda: _work(worker, core, tag))


def _work(worker: Rank, core: Wire, process: str) -> None:
    while (message := core.receive()) is not None:
        stage = str(message["stage"])
        try:
            core.send(ok=worker.run(stage, number(message, "argument")))
        except RankFailed as error:
            _report(worker.log, stage, error)
            core.send(error=error.text)
        if stage == "init_device":
            worker.log.process = process  # before 0.17 the prefix comes only now
    worker.log.warning_line(
        "multiproc_executor.py:729", "Parent process exited, terminating worker queues"
    )


def _report(log: Log, stage: str, error: RankFailed) -> None:
    if stage in START_STAGES:
        outer = frames.WORKER_INIT if stage == "init_device" else frames.WORKER_LOAD
        lines = ["WorkerProc failed to start.", *error.traceback(outer)]
        log.error_line("multiproc_executor.py:772", *lines)
        return
    # The exception carries its own traceback as a note: vLLM prints it twice.
    text = error.traceback(frames.WORKER_RPC)
    log.error_line("multiproc_executor.py:852", "WorkerProc hit an exception.", *text, *text, "")


def _rpc_traceback(stage: str, text: str) -> list[str]:
    if stage in START_STAGES:
        return frames.traceback(
            (*frames.CORE_START, *frames.CORE_WAIT_WORKERS),
            "Exception: WorkerProc initialization failed due to an exception in a background "
            "process. See stack trace for root cause.",
        )
    return frames.traceback(
        (*core_rows(stage), *frames.CORE_RPC_ERROR),
        f"RuntimeError: Worker failed with error '{text}', please check the stack trace above "
        "for the root cause",
    )


def core_rows(stage: str, *, uni: bool = False) -> tuple[str, ...]:
    """The engine core's frames down to the executor."""
    if stage == "execute_model":
        return frames.CORE_STEP
    start = (*frames.CORE_START, *(frames.CORE_UNI_EXECUTOR if stage in START_STAGES else ()))
    return (*start, *(frames.CORE_STAGE[stage] if uni or stage not in START_STAGES else ()))


def _guard(body: Callable[[], None]) -> NoReturn:
    """A forked child never returns into its parent's code."""
    try:
        body()
    except BaseException as error:  # noqa: BLE001 - the last stop of a forked process
        sys.stderr.write(f"the stand-in engine itself failed: {error!r}\n")
        os._exit(70)
    os._exit(0)


def _signal(pid: int, number_: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number_)


def _reaped(pid: int) -> bool:
    try:
        done, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True
    return done == pid
