"""Asks an engine over loopback HTTP whether it lives, whether it works, and what it has done."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence

from vllm_warden.adapters.health.exchange import Answer, NoAnswer, exchange
from vllm_warden.adapters.health.metrics import EngineMetrics, parse_metrics
from vllm_warden.core.lifecycle.probe import ANSWER_TOKENS


class HttpHealth:
    """Satisfies ``daemon.ports.Health``; no proxies, no environment, a new connection each time."""

    async def check(self, host: str, port: int, timeout_seconds: float) -> int | None:
        """HTTP status of /health (vLLM: 200 alive, 503 engine dead); None: refused or late."""
        try:
            answer = await exchange(_loopback(host), port, "/health", timeout_seconds)
        except (NoAnswer, TimeoutError):
            return None
        return answer.status

    async def generate_one_token(
        self, host: str, port: int, model: str, api_key: str | None, timeout_seconds: float
    ) -> str | None:
        """None when one token came back, otherwise what was seen instead.

        The name of the model is the one that the server gives itself; ``model`` is used where it
        does not say. A server without /v1/completions (pooling models) cannot be asked this way
        and counts as working: its 404 came from a living API server.
        """
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        where = _loopback(host)
        try:
            models = await exchange(where, port, "/v1/models", timeout_seconds, headers=headers)
            wish = {
                "model": _served_model(models) or model,
                "prompt": "1",
                "max_tokens": 1,
                "temperature": 0,
            }
            answer = await exchange(
                where,
                port,
                "/v1/completions",
                timeout_seconds,
                headers=headers,
                body=json.dumps(wish).encode(),
            )
        except TimeoutError:
            return f"no token within {timeout_seconds:g} s"
        except NoAnswer as error:
            return f"no answer: {error}"
        return _verdict(answer)

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
        """One completion of a few tokens for each prompt; prompts are token ids."""
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        where = _loopback(host)
        try:
            models = await exchange(where, port, "/v1/models", timeout_seconds, headers=headers)
            name = _served_model(models) or model
        except (NoAnswer, TimeoutError):
            name = model

        async def one(prompt: Sequence[int]) -> str | None:
            wish = {
                "model": name,
                "prompt": list(prompt),
                "max_tokens": ANSWER_TOKENS,
                "temperature": 0,
                "ignore_eos": True,
            }
            body = json.dumps(wish).encode()
            try:
                answer = await exchange(
                    where, port, "/v1/completions", timeout_seconds, headers=headers, body=body
                )
            except TimeoutError:
                return f"no answer within {timeout_seconds:g} s"
            except NoAnswer as error:
                return f"no answer: {error}"
            return _completed(answer)

        return [one(prompt) for prompt in prompts]

    async def metrics(
        self, host: str, port: int, timeout_seconds: float = 5.0
    ) -> EngineMetrics | None:
        """None when /metrics does not answer."""
        try:
            answer = await exchange(_loopback(host), port, "/metrics", timeout_seconds)
        except (NoAnswer, TimeoutError):
            return None
        return parse_metrics(answer.text) if answer.status == 200 else None


def _served_model(models: Answer) -> str | None:
    try:
        name = json.loads(models.body)["data"][0]["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def _loopback(host: str) -> str:
    """Where to ask: an engine on a wildcard address is asked over loopback."""
    if host in {"", "0.0.0.0", "::", "*"}:  # noqa: S104
        return "::1" if host == "::" else "127.0.0.1"
    return host


def _beginning(answer: Answer) -> str:
    """The first words of an answer, on one line."""
    return " ".join(answer.body[:4096].decode("utf-8", "replace").split())[:200]


def _verdict(answer: Answer) -> str | None:
    if answer.status == 404 and b"model" not in answer.body:
        return None
    return _completed(answer)


def _completed(answer: Answer) -> str | None:
    if answer.status != 200:
        return f"HTTP {answer.status}: {_beginning(answer)}"
    try:
        choices = json.loads(answer.body)["choices"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return f"HTTP 200, but no completion: {_beginning(answer)}"
    return None if choices else "HTTP 200, but an empty list of choices"
