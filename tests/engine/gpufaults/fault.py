"""Makes a function of torch or vLLM fail once vLLM has come to a chosen place."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from collections.abc import Iterator
from typing import Any


def functions_on_stack() -> Iterator[str]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]


class Fault:
    """Asked on every call of what it is hooked into; answers with the error, or None to go on.

    It fires below all functions of ``below`` and none of ``outside``, after ``after`` such calls,
    in the workers of all ranks or that of one.
    """

    def __init__(
        self, text: str, below: list[str], outside: list[str], *, after: int, rank: int | None
    ) -> None:
        self.text = text
        self.below = frozenset(below)
        self.outside = frozenset(outside)
        self.left = after
        self.process = None if rank is None else f"VllmWorker-{rank}"

    def __call__(self) -> Exception | None:
        functions = frozenset(functions_on_stack())
        if not self.below <= functions or self.outside & functions:
            return None
        if self.process not in (None, multiprocessing.current_process().name):
            return None
        if self.left:
            self.left -= 1
            return None
        import torch

        error: Exception = torch.OutOfMemoryError(self.text)
        return error


def hook_into(places: list[str], fault: Fault) -> None:
    """Places are dotted names, below a module that can be imported; LookupError if one is gone."""
    from hook import Hook  # type: ignore[import-not-found] # hook.c, built by the fork server

    for place in places:
        owner, name = _owner(place)
        setattr(owner, name, Hook(getattr(owner, name), fault))


def _owner(place: str) -> tuple[Any, str]:
    parts = place.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:-1]:
            owner = getattr(owner, part)
        if not hasattr(owner, parts[-1]):
            break
        return owner, parts[-1]
    raise LookupError(f"cannot hook into {place}: this vLLM has no such function")
