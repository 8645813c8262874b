"""Engines' HTTP answers as a test sets them, by port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FakeCounts:
    requests_served: int | None
    requests_running: int | None
    requests_waiting: int | None


class FakeHealth:
    """Satisfies ``daemon.ports.Health``. A port that is not set refuses."""

    def __init__(self) -> None:
        self.status: dict[int, int] = {}
        self.token_problem: dict[int, str] = {}
        self.served: dict[int, int] = {}
        self.tokens_asked = 0
        self.prompts: list[list[int]] = []
        self.answering: asyncio.Event | None = None
        self.running: list[int | None] = [0]
        """One for each look, the last one for all further ones."""

    async def check(self, host: str, port: int, timeout_seconds: float) -> int | None:
        return self.status.get(port)

    async def generate_one_token(
        self, host: str, port: int, model: str, api_key: str | None, timeout_seconds: float
    ) -> str | None:
        self.tokens_asked += 1
        if port not in self.status:
            return "no answer: ConnectError"
        return self.token_problem.get(port)

    async def complete(
        self,
        host: str,
        port: int,
        model: str,
        api_key: str | None,
        *,
        prompts: Sequence[Sequence[int]],
        timeout_seconds: float,
    ) -> Sequence[Awaitable[str | None]]:
        async def one(prompt: Sequence[int]) -> str | None:
            self.prompts.append(list(prompt))
            if port not in self.status:
                return "no answer: ConnectionRefusedError"
            if self.answering is not None:
                await self.answering.wait()
            return self.token_problem.get(port)

        return [one(prompt) for prompt in prompts]

    async def metrics(self, host: str, port: int) -> FakeCounts | None:
        if port not in self.status:
            return None
        running = self.running.pop(0) if len(self.running) > 1 else self.running[0]
        return FakeCounts(self.served.get(port), running, 0)
