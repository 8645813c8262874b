"""Runs calls that may block in threads of their own, with deadlines; late means unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class LateError(Exception):
    """The call did not return in time; its thread may still be stuck in it."""


class Lane:
    """One kind of blocking work, in its own threads, so that a hang stays with its kind.

    A lane whose threads are all stuck answers late at once instead of queueing behind them.
    """

    def __init__(self, name: str, deadline_seconds: float, threads: int = 1) -> None:
        self.name = name
        self._deadline_seconds = deadline_seconds
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._stuck = 0

    async def call(
        self, work: Callable[[], Result], deadline_seconds: float | None = None
    ) -> Result:
        """The result of ``work``. Raises LateError after the deadline, and what work raises."""
        if self._stuck >= self._threads:
            raise LateError(f"{self.name} is still stuck in an earlier call")
        limit = self._deadline_seconds if deadline_seconds is None else deadline_seconds
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        done, _ = await asyncio.wait((future,), timeout=limit)
        if done:
            return future.result()
        self._stuck += 1
        future.add_done_callback(self._unstuck)
        raise LateError(f"{self.name} did not answer within {limit:g} s")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _unstuck(self, future: asyncio.Future[Result]) -> None:
        self._stuck -= 1
        if not future.cancelled():
            future.exception()  # looked at, so that asyncio does not report it again
