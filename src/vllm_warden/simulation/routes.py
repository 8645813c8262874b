"""Answers each route as vLLM's API server does: health, models, metrics, completions."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vllm_warden.simulation.era import current
from vllm_warden.simulation.http import (
    Counters,
    Request,
    Response,
    error_response,
    json_response,
)
from vllm_warden.simulation.plan import Plan


@dataclass(slots=True)
class Routes:
    """``generate`` runs so many prompt tokens through the engine; False when it died."""

    plan: Plan
    counters: Counters
    generate: Callable[[int], bool]
    is_dead: Callable[[], bool]
    blocks: Callable[[], int]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, request: Request) -> Response:
        """Runs in a thread for each connection."""
        if (free := self._open_routes().get(request.path)) is not None:
            return free()
        if self.plan.api_keys and not self._authorised(request):
            return json_response(401, {"error": "Unauthorized"})
        if (request.method, request.path) == ("GET", "/v1/models"):
            return self._models()
        if request.method == "POST" and request.path.endswith("/completions"):
            return self._complete(request)
        return json_response(404, {"detail": "Not Found"})

    def _open_routes(self) -> dict[str, Callable[[], Response]]:
        def health() -> Response:
            return Response(503 if self.is_dead() else 200)

        return {
            "/health": health,
            "/ping": health,
            "/version": lambda: json_response(200, {"version": current().version}),
            "/load": lambda: json_response(200, {"server_load": 0}),
            "/metrics": self._metrics,
        }

    def _metrics(self) -> Response:
        plan = self.plan
        text = self.counters.text(
            plan.served_name, self.blocks(), plan.knobs.gpu_memory_utilization
        )
        return Response(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")

    def _authorised(self, request: Request) -> bool:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return given in self.plan.api_keys

    def _models(self) -> Response:
        model = {
            "id": self.plan.served_name,
            "object": "model",
            "created": int(self.counters.started),
            "owned_by": "vllm",
            "root": self.plan.model,
            "max_model_len": self.plan.knobs.max_model_len,
        }
        return json_response(200, {"object": "list", "data": [model]})

    def _complete(self, request: Request) -> Response:
        try:
            asked = json.loads(request.body)
        except ValueError:
            return error_response(400, "the body is not JSON", "BadRequestError")
        prompt = str(asked.get("prompt") or asked.get("messages") or "")
        prompt_tokens = max(1, len(prompt) // 4)
        tokens = int(asked.get("max_tokens") or 16)
        if (refusal := self._refusal(asked.get("model"), prompt_tokens + tokens)) is not None:
            return refusal
        if not self.generate(prompt_tokens):
            text = "EngineCore encountered an issue. See stack trace (above) for the root cause."
            return error_response(500, text, "InternalServerError")
        with self._lock:
            self.counters.prompt_tokens += prompt_tokens
            self.counters.generation_tokens += tokens
            self.counters.succeeded += 1
        return self._completion("/chat/" in request.path, prompt_tokens, tokens)

    def _refusal(self, model: object, tokens: int) -> Response | None:
        if model and model != self.plan.served_name:
            text = f"The model `{model}` does not exist."
            return error_response(404, text, "NotFoundError")
        length = self.plan.knobs.max_model_len
        if tokens > length:
            text = f"This model's maximum context length is {length} tokens."
            return error_response(400, text, "BadRequestError")
        return None

    def _completion(self, chat: bool, prompt_tokens: int, tokens: int) -> Response:
        text = " ".join(["ready"] * tokens)
        choice: dict[str, object] = {"index": 0, "finish_reason": "length", "logprobs": None}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}
        usage["total_tokens"] = prompt_tokens + tokens
        document = {
            "id": f"cmpl-{os.urandom(16).hex()}",
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": self.plan.served_name,
            "choices": [choice],
            "usage": usage,
        }
        return json_response(200, document)
