"""Asks an engine over loopback HTTP whether it lives, whether it works, and what it has done."""

from __future__ import annotations

import httpx

from vllm_warden.adapters.health.metrics import EngineMetrics, parse_metrics


class HttpHealth:
    """Satisfies ``daemon.ports.Health``; one client, no proxies, no environment."""

    def __init__(self) -> None:
        self._client = httpx.AsyncClient(
            trust_env=False,
            timeout=5.0,
            follow_redirects=False,
            limits=httpx.Limits(max_keepalive_connections=8, keepalive_expiry=30.0),
        )

    async def check(self, host: str, port: int, timeout_seconds: float) -> int | None:
        """HTTP status of /health (vLLM: 200 alive, 503 engine dead); None: refused or late."""
        try:
            response = await self._client.get(
                f"{_base(host, port)}/health", timeout=timeout_seconds
            )
        except httpx.HTTPError:
            return None
        return response.status_code

    async def generate_one_token(
        self, host: str, port: int, model: str, api_key: str | None, timeout_seconds: float
    ) -> str | None:
        """None when one token came back, otherwise what was seen instead.

        The name of the model is the one that the server gives itself; ``model`` is used where it
        does not say. A server without /v1/completions (pooling models) cannot be asked this way
        and counts as working: its 404 came from a living API server.
        """
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            name = await self._served_model(host, port, headers, timeout_seconds) or model
            response = await self._client.post(
                f"{_base(host, port)}/v1/completions",
                json={"model": name, "prompt": "1", "max_tokens": 1, "temperature": 0},
                headers=headers,
                timeout=timeout_seconds,
            )
        except httpx.TimeoutException:
            return f"no token within {timeout_seconds:g} s"
        except httpx.HTTPError as error:
            return f"no answer: {type(error).__name__}"
        return _verdict(response)

    async def requests_served(self, host: str, port: int) -> int | None:
        found = await self.metrics(host, port)
        return found.requests_served if found else None

    async def metrics(
        self, host: str, port: int, timeout_seconds: float = 5.0
    ) -> EngineMetrics | None:
        """None when /metrics does not answer."""
        try:
            response = await self._client.get(
                f"{_base(host, port)}/metrics", timeout=timeout_seconds
            )
        except httpx.HTTPError:
            return None
        return parse_metrics(response.text) if response.status_code == 200 else None

    async def close(self) -> None:
        await self._client.aclose()

    async def _served_model(
        self, host: str, port: int, headers: dict[str, str], timeout_seconds: float
    ) -> str | None:
        response = await self._client.get(
            f"{_base(host, port)}/v1/models", headers=headers, timeout=timeout_seconds
        )
        try:
            name = response.json()["data"][0]["id"]
        except (ValueError, LookupError, TypeError):
            return None
        return name if isinstance(name, str) else None


def _base(host: str, port: int) -> str:
    """Where to ask: an engine on a wildcard address is asked over loopback."""
    if host in {"", "0.0.0.0", "::", "*"}:  # noqa: S104
        host = "::1" if host == "::" else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _verdict(response: httpx.Response) -> str | None:
    if response.status_code == 404 and "model" not in response.text:
        return None
    if response.status_code != 200:
        return f"HTTP {response.status_code}: {' '.join(response.text.split())[:200]}"
    try:
        choices = response.json()["choices"]
    except (ValueError, LookupError, TypeError):
        return f"HTTP 200, but no completion: {' '.join(response.text.split())[:200]}"
    return None if choices else "HTTP 200, but an empty list of choices"
