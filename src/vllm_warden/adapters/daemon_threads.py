"""Runs blocking calls in threads that never hold up the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
Call = tuple[Future[Any], Callable[[], None]]


class DaemonThreads(Executor):
    """Like ThreadPoolExecutor, whose threads Python joins at exit, however long they hang.

    A driver or a disk may never answer; the daemon must be able to leave all the same.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name = name
        self._threads = threads
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._unfinished = 0
        self._closed = False

    def submit(
        self,
        fn: Callable[Arguments, Result],
        /,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Future[Result]:
        """Raises RuntimeError after ``shutdown``."""
        future: Future[Result] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 -- it belongs to whoever asked
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                raise RuntimeError(f"cannot run a call in {self._name}: it is closed")
            self._unfinished += 1
            self._calls.put((future, call))
            if self._started < min(self._unfinished, self._threads):
                self._started += 1
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Take no more calls. ``wait`` is ignored: not waiting is what these threads are for.

        With ``cancel_futures`` what has not begun is cancelled.
        """
        del wait
        with self._lock:
            self._closed = True
            if cancel_futures:
                self._cancel_waiting()
            for _ in range(self._started):
                self._calls.put(None)

    def _cancel_waiting(self) -> None:
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            if call is not None:
                call[0].cancel()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call[1]()
            del call  # or an idle thread would hold the last call's arguments
            with self._lock:
                self._unfinished -= 1
