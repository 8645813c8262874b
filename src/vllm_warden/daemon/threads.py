"""Runs calls that may block in threads of their own, with deadlines; late means unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from vllm_warden.adapters.daemon_threads import DaemonThreads

Result = TypeVar("Result")


class LateError(Exception):
    """The call did not return in time; its thread may still be stuck in it."""


class Lane:
    """One kind of blocking work, in its own threads, so that a hang stays with its kind.

    A lane whose threads are all stuck answers late at once instead of queueing behind them, and
    does not keep the process from ending.
    """

    def __init__(self, name: str, deadline_seconds: float, threads: int = 1) -> None:
        self.name = name
        self._deadline_seconds = deadline_seconds
        self._threads = threads
        self._pool = DaemonThreads(name, threads)
        self._stuck = 0

    async def call(
        self,
        work: Callable[[], Result],
        deadline_seconds: float | None = None,
        after_late: Callable[[Result | None], None] | None = None,
    ) -> Result:
        """The result of ``work``. Raises LateError after the deadline, and what work raises.

        ``after_late`` is called in the event loop when a call that was late has ended after all,
        with its result (None when it failed), for whoever must undo what it did.
        """
        if self._stuck >= self._threads:
            raise LateError(f"{self.name} is still stuck in an earlier call")
        limit = self._deadline_seconds if deadline_seconds is None else deadline_seconds
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        done, _ = await asyncio.wait((future,), timeout=limit)
        if done:
            return future.result()
        self._stuck += 1
        future.add_done_callback(lambda future: self._unstuck(future, after_late))
        raise LateError(f"{self.name} did not answer within {limit:g} s")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _unstuck(
        self,
        future: asyncio.Future[Result],
        after_late: Callable[[Result | None], None] | None,
    ) -> None:
        self._stuck -= 1
        # looking at the exception also keeps asyncio from reporting it again
        failed = future.cancelled() or future.exception() is not None
        if after_late is not None:
            after_late(None if failed else future.result())
