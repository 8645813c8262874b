"""What the memory queries of a GPU would answer, by where vLLM asks from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.engine.gpufaults.fault import functions_on_stack

_CONTEXT_BYTES = 96 << 20


@dataclass
class Ledger:
    """Bytes of one GPU: in use by others, then taken by weights, peak and graphs."""

    total: int
    used: int
    weights: int
    peak: int
    graphs: int
    asked: Counter[str] = field(default_factory=Counter)

    def _used(self) -> int:
        functions = frozenset(functions_on_stack())
        if "init_snapshot" in functions:  # taken late, stands for the time before loading
            return self.used
        if "load_model" in functions:
            self.asked["load"] += 1
            return self.used + (self.weights if self.asked["load"] > 1 else 0)
        if "determine_available_memory" in functions:
            return self.used + self.weights + _CONTEXT_BYTES
        if "capture_model" in functions:
            self.asked["capture"] += 1
            captured = self.graphs if self.asked["capture"] > 1 else 0
            return self.used + self.weights + _CONTEXT_BYTES + captured
        return self.used

    def get_memory_info(self, *_: Any) -> tuple[int, int]:
        return self.total - self._used(), self.total

    def get_current_memory_usage(self, *_: Any) -> float:
        return float(self._used() - self.used)

    def memory_stats(self, *_: Any) -> dict[str, int]:
        functions = frozenset(functions_on_stack())
        if "init_snapshot" in functions:
            return {"allocated_bytes.all.peak": 0, "allocated_bytes.all.current": 0}
        held = self.weights if "determine_available_memory" in functions else 0
        self.asked["stats"] += 1
        peak = held + (self.peak if self.asked["stats"] > 1 else 0)
        return {"allocated_bytes.all.peak": peak, "allocated_bytes.all.current": held}

    def memory_reserved(self, *_: Any) -> int:
        functions = frozenset(functions_on_stack())
        profiling = "determine_available_memory" in functions and "init_snapshot" not in functions
        return self.weights if profiling else 0
