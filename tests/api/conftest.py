from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService
from vllm_warden.api.client import Client
from vllm_warden.api.server import serve_socket


class RunningServer:
    """The server in a loop of its own thread, so that blocking clients can be used against it."""

    def __init__(self, path: str, service_of):
        self.path = path
        self.client = Client(path)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.service = self.call(self._start(service_of))

    async def _start(self, service_of):
        service = service_of()
        self.server = await serve_socket(service, self.path, None)
        return service

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def publish(self, *event: str):
        async def publish():
            return self.service.publish(*event)

        return self.call(publish())

    def close(self):
        self.call(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def start_server(tmp_path):
    with contextlib.ExitStack() as stack:

        def start(service_of=None, path=None):
            default = lambda: FakeService(documents.status(documents.instance()))  # noqa: E731
            server = RunningServer(str(path or tmp_path / "api.sock"), service_of or default)
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture
def server(start_server):
    return start_server()
