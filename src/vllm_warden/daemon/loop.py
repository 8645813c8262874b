"""The single writer: one queue, one step, effects out.

Everything that happens is posted as an event; only this loop changes an instance. ``handle`` is
synchronous and quick: effects that take time are started by it and end in another event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from vllm_warden.core.lifecycle.effects import Effect
from vllm_warden.core.lifecycle.events import Event
from vllm_warden.core.lifecycle.machine import is_impossible, step
from vllm_warden.core.lifecycle.states import Instance

log = structlog.get_logger(__name__)

Perform = Callable[[str, Effect], None]
Stepped = Callable[[str, Instance, Instance], None]


class Loop:
    """Owns the instances. ``perform`` carries out effects, ``stepped`` sees every change."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self.instances = {instance.spec.name: instance for instance in instances}
        self.handled = 0
        self._queue: asyncio.Queue[tuple[str, Event]] = asyncio.Queue()
        self._perform: Perform = lambda _name, _effect: None
        self._stepped: Stepped = lambda _name, _before, _after: None

    def connect(self, perform: Perform, stepped: Stepped) -> None:
        """Set who carries out effects and who is told of changes, before ``run``."""
        self._perform = perform
        self._stepped = stepped

    def post(self, name: str, event: Event) -> None:
        """Queue an event; must be called in the event loop's thread."""
        self._queue.put_nowait((name, event))

    def is_drained(self) -> bool:
        """True when nothing waits to be handled."""
        return self._queue.empty()

    async def settled(self) -> None:
        """Wait until everything posted so far has been handled."""
        await self._queue.join()

    async def run(self) -> None:
        """Handle events for ever."""
        while True:
            name, event = await self._queue.get()
            self.handle(name, event)
            self._queue.task_done()

    def handle(self, name: str, event: Event) -> None:
        """Apply one event; an exception is a bug, reported, and leaves the instance as it was."""
        before = self.instances[name]
        self.handled += 1
        if is_impossible(before, event):
            log.error("impossible-event", instance=name, state=before.state, kind=_kind(event))
        try:
            after, effects = step(before, event)
        except Exception:
            log.exception("internal-error", instance=name, state=before.state, kind=_kind(event))
            return
        self.instances[name] = after
        if after is not before:
            self._stepped(name, before, after)
        for effect in effects:
            self._perform(name, effect)


def _kind(event: Event) -> str:
    return type(event).__name__
