"""However fast an engine writes, the event loop stays free and its queue short."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.daemon import line_delivery
from vllm_warden.daemon.line_delivery import BYTES_AT_ONCE, LINES_AT_ONCE, PARTS_AHEAD, paced


def lines(count: int, text: str = "x") -> list[LogRecord]:
    return [LogRecord(number, text) for number in range(1, count + 1)]


async def in_thread(work: object) -> None:
    assert callable(work)
    await asyncio.to_thread(work)


@pytest.mark.parametrize("text", ["x", "x" * 16_000])
def test_every_line_comes_once_in_order_in_small_parts(text: str) -> None:
    parts: list[Sequence[LogRecord]] = []
    records = lines(LINES_AT_ONCE * 3 + 7, text)

    async def run() -> None:
        deliver = paced(asyncio.get_running_loop(), parts.append)
        await in_thread(lambda: deliver(records))

    asyncio.run(run())
    assert [record for part in parts for record in part] == records
    assert max(len(part) for part in parts) <= LINES_AT_ONCE
    assert max(sum(len(one.text) for one in part) for part in parts) < BYTES_AT_ONCE + 20_000


def test_a_reader_that_is_faster_than_the_loop_waits_for_it() -> None:
    """Other work of the loop gets its turn after a few parts at most."""
    turns = 0
    taken_at_turn: list[int] = []

    def slow(_: Sequence[LogRecord]) -> None:
        taken_at_turn.append(turns)
        time.sleep(0.002)

    async def run() -> None:
        nonlocal turns
        deliver = paced(asyncio.get_running_loop(), slow)
        flood = asyncio.create_task(in_thread(lambda: deliver(lines(LINES_AT_ONCE * 20))))
        while not flood.done():
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(run())
    assert len(taken_at_turn) == 20
    assert max(Counter(taken_at_turn).values()) <= PARTS_AHEAD


def test_a_failure_in_the_loop_and_a_loop_that_ended_hold_no_reader_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_delivery, "WAIT_SECONDS", 0.05)

    def failing(_: Sequence[LogRecord]) -> None:
        raise ValueError

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    reader = threading.Thread(target=lambda: paced(loop, failing)(lines(3)))
    reader.start()  # nobody runs the loop
    reader.join(5)
    assert not reader.is_alive()

    monkeypatch.setattr(line_delivery, "WAIT_SECONDS", 60.0)

    async def run() -> None:
        began = time.monotonic()
        await in_thread(lambda: paced(loop, failing)(lines(LINES_AT_ONCE * 20)))
        assert time.monotonic() - began < 30  # told of each failure, not waited for

    loop.run_until_complete(run())
    loop.close()
