"""A reader that follows a log gets every line, or is told how many it lost."""

from __future__ import annotations

import asyncio

from vllm_warden.api.service import Document
from vllm_warden.daemon.line_queue import LineQueue


def line(number: int, text: str = "x") -> Document:
    return {"attempt": 1, "line": number, "text": text}


async def taken(queue: LineQueue, count: int) -> list[Document]:
    async with asyncio.timeout(5):
        return [await queue.take() for _ in range(count)]


def test_lines_come_in_order_and_a_reader_waits_for_the_next() -> None:
    async def scene() -> None:
        queue = LineQueue()
        queue.put(line(1))
        queue.put(line(2))
        assert await taken(queue, 2) == [line(1), line(2)]
        waiting = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.put(line(3))
        assert await waiting == line(3)

    asyncio.run(scene())


def test_too_many_lines_lose_the_oldest_and_it_is_said() -> None:
    async def scene() -> None:
        queue = LineQueue(lines_max=2)
        for number in range(1, 6):
            queue.put(line(number))
        assert await taken(queue, 3) == [{"dropped": 3}, line(4), line(5)]

    asyncio.run(scene())


def test_too_much_text_loses_the_oldest_and_it_is_said() -> None:
    async def scene() -> None:
        queue = LineQueue(characters_max=100)
        for number in range(1, 11):
            queue.put(line(number, "y" * 40))
        assert await taken(queue, 3) == [{"dropped": 8}, line(9, "y" * 40), line(10, "y" * 40)]

    asyncio.run(scene())
