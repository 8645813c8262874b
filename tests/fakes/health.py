"""Engines' HTTP answers as a test sets them, by port."""

from __future__ import annotations


class FakeHealth:
    """Satisfies ``daemon.ports.Health``. A port that is not set refuses."""

    def __init__(self) -> None:
        self.status: dict[int, int] = {}
        self.token_problem: dict[int, str] = {}
        self.served: dict[int, int] = {}
        self.tokens_asked = 0

    async def check(self, host: str, port: int, timeout_seconds: float) -> int | None:
        return self.status.get(port)

    async def generate_one_token(
        self, host: str, port: int, model: str, api_key: str | None, timeout_seconds: float
    ) -> str | None:
        self.tokens_asked += 1
        if port not in self.status:
            return "no answer: ConnectError"
        return self.token_problem.get(port)

    async def requests_served(self, host: str, port: int) -> int | None:
        return self.served.get(port) if port in self.status else None
