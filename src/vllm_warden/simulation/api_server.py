"""The parent process: it starts the engine core, waits, then serves HTTP."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from dataclasses import dataclass, field

from vllm_warden.simulation import frames
from vllm_warden.simulation.engine_core import core_main
from vllm_warden.simulation.era import current
from vllm_warden.simulation.http import Counters, Request, answer
from vllm_warden.simulation.log import Log
from vllm_warden.simulation.plan import Plan
from vllm_warden.simulation.routes import Routes
from vllm_warden.simulation.wire import Wire, number, wire_pair

WATCHDOG_SECONDS = 3.0
"""A dead engine is answered with 503 for so long before the server stops (vLLM: up to 5 s)."""


@dataclass(slots=True)
class Pending:
    """A completion that waits for the engine core."""

    finished: threading.Event = field(default_factory=threading.Event)
    failed: bool = False


@dataclass(slots=True)
class Server:
    """Socket bound but not listening until the engine is ready: connections are refused."""

    plan: Plan
    log: Log
    bound: socket.socket
    core: Wire = field(init=False)
    core_pid: int = 0
    blocks: int = 0
    dead: bool = False
    counters: Counters = field(default_factory=Counters)
    routes: Routes = field(init=False)
    _signals: list[int] = field(default_factory=list)
    _wake: socket.socket = field(init=False)
    _pending: dict[int, Pending] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: int = 0

    def __post_init__(self) -> None:
        self.routes = Routes(
            self.plan, self.counters, self.generate, lambda: self.dead, lambda: self.blocks
        )

    def run(self) -> int:
        """The exit status. May end by a signal instead of returning."""
        self._start_core()
        if not self._wait_until_ready():
            return self._failed_start()
        self._announce()
        died = self._serve()
        return self._shut_down(died)

    def _start_core(self) -> None:
        ours, theirs = wire_pair()
        self.core_pid = os.fork()
        if self.core_pid == 0:
            self.bound.close()
            ours.close()
            core_main(self.plan, theirs)
        theirs.close()
        self.core = ours
        reading, writing = socket.socketpair()
        writing.settimeout(0)
        self._wake = reading
        signal.set_wakeup_fd(writing.detach())
        for wanted in (signal.SIGTERM, signal.SIGINT):
            signal.signal(wanted, lambda received, _frame: self._signals.append(received))

    def _wait_until_ready(self) -> bool:
        """The first SIGTERM during start-up is lost, as in vLLM: the poll swallows it.

        A core that dies after that is not noticed either; a second SIGTERM, or a SIGINT, ends
        the process by the signal.
        """
        core_gone = False
        while True:
            watched: list[socket.socket | Wire] = [self._wake]
            if not core_gone:
                watched.append(self.core)
            readable, _, _ = select.select(watched, [], [])
            if self._wake in readable:
                self._wake.recv(64)
                terminations = self._signals.count(signal.SIGTERM)
                if signal.SIGINT in self._signals:
                    self._end_by(signal.SIGINT)
                if terminations > 1:
                    self._end_by(signal.SIGTERM)
            if self.core in readable:
                message = self.core.receive()
                if message is not None:
                    self.blocks = number(message, "blocks")
                    return True
                if not self._signals:
                    return False
                core_gone = True

    def _end_by(self, wanted: signal.Signals) -> None:
        self.stop_core()
        error = "KeyboardInterrupt: terminated" if wanted is signal.SIGTERM else "KeyboardInterrupt"
        self.log.plain(*frames.traceback(frames.API_MAIN, error))
        signal.signal(wanted, signal.SIG_DFL)
        os.kill(os.getpid(), wanted)
        time.sleep(5)  # the signal arrives before this ends

    def _failed_start(self) -> int:
        self.stop_core()
        self.log.plain(
            *frames.traceback(
                frames.API_ENGINE,
                "RuntimeError: Engine core initialization failed. See root cause above. "
                "Failed core proc(s): {}",
            )
        )
        return 1

    def _announce(self) -> None:
        self.bound.listen(128)
        log, shown = self.log, self.plan.host
        log.info_line("api_server.py:665", "Supported tasks: ['generate']")
        url = f"http://{shown}:{self.plan.port}"
        log.info_line("api_server.py:946", f"Starting vLLM API server 0 on {url}")
        log.info_line("launcher.py:38", "Available routes are:")
        for route in ("/health", "/metrics", "/v1/models", "/v1/completions"):
            log.info_line("launcher.py:46", f"Route: {route}, Methods: GET, POST")
        log.plain(f"INFO:     Started server process [{os.getpid()}]")
        log.plain("INFO:     Waiting for application startup.")
        log.plain("INFO:     Application startup complete.")

    def _serve(self) -> bool:
        """True when the engine died, False when a signal asked to stop."""
        deadline: float | None = None
        # A SIGTERM that came during start-up stays lost.
        self._signals.clear()
        while True:
            watched: list[socket.socket | Wire] = [self._wake, self.bound]
            if not self.dead:
                watched.append(self.core)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select(watched, [], [], left)
            if self._wake in readable:
                self._wake.recv(64)
                if self._signals:
                    return self.dead
            if self.core in readable:
                self._hear_core()
                if self.dead:
                    deadline = time.monotonic() + self.plan.pace.grace(WATCHDOG_SECONDS)
            if self.bound in readable:
                self._accept()
            if deadline is not None and time.monotonic() >= deadline:
                return True

    def _accept(self) -> None:
        try:
            connection, _ = self.bound.accept()
        except OSError:
            return
        arguments = (connection, self.routes.respond, self._log_access)
        threading.Thread(target=answer, args=arguments, daemon=True).start()

    def _hear_core(self) -> None:
        while True:
            message = self.core.receive()
            if message is None:
                self._lose_core()
            elif "dead" in message:
                self.dead = True
                if message["dead"] == "fatal":
                    self._say_engine_dead()
            elif "admitted" in message:
                self.counters.running += 1
            elif (waiting := self._pending.pop(number(message, "done"), None)) is not None:
                self.counters.running -= 1
                waiting.finished.set()
            if self.dead:
                self._fail_pending()
            if self.dead or not self.core.has_more:
                return

    def _lose_core(self) -> None:
        self.dead = True
        self.log.error_line(
            "core_client.py:605",
            f"Engine core proc {current().core_name} died unexpectedly, shutting down client.",
        )
        self._say_engine_dead()

    def _say_engine_dead(self) -> None:
        text = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
        lines = frames.traceback(
            frames.API_OUTPUT, f"{text}See stack trace (above) for the root cause."
        )
        self.log.error_line("async_llm.py:693", "AsyncLLM output_handler failed.", *lines)

    def _fail_pending(self) -> None:
        for waiting in list(self._pending.values()):
            waiting.failed = True
            waiting.finished.set()
        self._pending.clear()

    def _shut_down(self, died: bool) -> int:
        self.log.info_line("launcher.py:110", "Shutting down FastAPI HTTP server.")
        self.bound.close()
        self.stop_core()
        self.log.plain("INFO:     Shutting down")
        self.log.plain("INFO:     Waiting for application shutdown.")
        self.log.plain("INFO:     Application shutdown complete.")
        if died:
            self.log.plain(f"INFO:     Finished server process [{os.getpid()}]")
        return 0  # also after the engine's death: vLLM does not tell

    def stop_core(self) -> None:
        """SIGTERM, then SIGKILL; the core ends its workers itself, or they notice."""
        deadline = time.monotonic() + self.plan.pace.grace(8)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.core_pid, signal.SIGTERM)
            while os.waitpid(self.core_pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(self.core_pid, signal.SIGKILL)
                time.sleep(0.005)

    def generate(self, tokens: int) -> bool:
        """Runs in a connection's thread; False when the engine died meanwhile."""
        waiting = Pending()
        with self._lock:
            if self.dead:
                return False
            self._next += 1
            self._pending[self._next] = waiting
            self.core.send(id=self._next, tokens=tokens)
        waiting.finished.wait()
        return not waiting.failed

    def _log_access(self, peer: str, request: Request, status: int) -> None:
        reason = "OK" if status == 200 else str(status)
        self.log.plain(
            f'INFO:     {peer} - "{request.method} {request.path} HTTP/1.1" {status} {reason}'
        )
