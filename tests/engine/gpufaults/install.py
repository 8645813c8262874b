"""Puts a described failure into this process, before vLLM starts in it.

The description: ``gpu`` (figures of a simulated GPU, see Ledger), ``graphs`` (true to capture CUDA
graphs), ``text`` (of the CUDA error), ``hooks`` (dotted names that may fail), ``below``,
``outside``, ``after``, ``rank`` (see Fault).
"""

from __future__ import annotations

from typing import Any

from tests.engine.gpufaults.fault import Fault, hook_into
from tests.engine.gpufaults.gpu_worker import behave_like_gpu
from tests.engine.gpufaults.graphs import capture_graphs
from tests.engine.gpufaults.ledger import Ledger


def install(described: dict[str, Any]) -> None:
    behave_like_gpu(Ledger(**described["gpu"]))
    if described.get("graphs"):
        capture_graphs()
    hook_into(
        described["hooks"],
        Fault(
            described["text"],
            described["below"],
            described.get("outside", []),
            after=described.get("after", 0),
            rank=described.get("rank"),
        ),
    )
