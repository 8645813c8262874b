"""The ways in which a catalogue row can look at the evidence of a death."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.grammar import LogLine
from vllm_warden.core.diagnose.tracebacks import Raised
from vllm_warden.core.model import Phase, Site

GPU_ALLOCATION = re.compile(
    r"(?:torch\.|torch\.cuda\.)?OutOfMemoryError: (?:CUDA|HIP|XPU|NPU) out of memory"
    r"|^\w{0,40}Error: (?:HIP|XPU|NPU|HPU|MLU|MUSA) out of memory\b|RESOURCE_EXHAUSTED: "
    r"|(?:CUDA|HIP|XPU|NPU|HPU|MLU|MUSA) out of memory(?:\. Tried to allocate"
    r"| occurred when warming up)"
    r"|CUDA (?:driver )?error: out of memory|HIP error: out of memory|cudaErrorMemoryAllocation"
    r"|Triton Error \[CUDA\]: out of memory|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED"
    r"|UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY|(?:CUDA|HIP)_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory"
    r"|OutOfMemoryError: Allocation on device|RuntimeError: NPU out of memory"
)
"""All ways in which torch 2.6 to 2.14 and what lies below it (Triton, cuBLAS, CUDA, HIP, Intel's
runtime) say that GPU memory could not be had."""

HOST_ALLOCATION = re.compile(
    r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)"
    r"|unable to mmap \d{1,20} bytes[^\n]{0,400}Cannot allocate memory"
)
_HEAD = 3000


@lru_cache(maxsize=128)
def _says(pattern: re.Pattern[str], text: str) -> bool:
    """Remembered: thirty rows ask the same of each exception, and each rank raises the same."""
    return pattern.search(text) is not None


@dataclass(frozen=True, slots=True)
class Allocation:
    """An exception that says that memory could not be had, raised in a phase and for a site.

    ``phases`` empty means any phase, and ``sites`` empty any site. ``nowhere`` matches only where
    the call stack does not tell the phase.
    """

    pattern: re.Pattern[str]
    phases: frozenset[Phase] = frozenset()
    sites: frozenset[Site] = frozenset()
    nowhere: bool = False

    def sees(self, raised: Raised) -> bool:
        if self.nowhere:
            placed = raised.phase is None
        else:
            placed = (not self.phases or raised.phase in self.phases) and (
                not self.sites or raised.site in self.sites
            )
        return placed and _says(self.pattern, raised.text[:_HEAD])


@dataclass(frozen=True, slots=True)
class Raises:
    """An exception by the end of its type's name ("" for any) and the begin of its text.

    ``hint`` is a literal that the text must hold: cheap, so it is asked first.
    """

    kind: str
    hint: str
    pattern: re.Pattern[str] | None = None
    anywhere: bool = False
    """True when an exception of the API server while serving counts as well."""

    def sees(self, raised: Raised) -> bool:
        if self.kind and not raised.type.endswith(self.kind):
            return False
        text = raised.text[:_HEAD]
        return self.hint in text and (self.pattern is None or _says(self.pattern, text))


@dataclass(frozen=True, slots=True)
class RaisedUnder:
    """An exception by where it was raised: for mechanisms that have no wording of their own.

    ``kinds`` are ends of type names; one of ``functions`` must be on the call stack, and the phase
    (the stack's, failing that the log's) one of ``phases``, where they are given.
    """

    kinds: tuple[str, ...]
    functions: frozenset[str] = frozenset()
    phases: frozenset[Phase] = frozenset()
    pattern: re.Pattern[str] | None = None

    def sees(self, raised: Raised) -> bool:
        if self.kinds and not raised.type.endswith(self.kinds):
            return False
        # a stack of which no frame is left cannot contradict the kind and the phase
        told = raised.functions or not self.kinds
        if self.functions and told and self.functions.isdisjoint(raised.functions):
            return False
        if self.phases and (raised.phase or raised.before) not in self.phases:
            return False
        return self.pattern is None or _says(self.pattern, raised.text[:_HEAD])


@dataclass(frozen=True, slots=True)
class Prints:
    """A line outside of any traceback, by what its message begins with.

    ``levels`` are those of its record; None in it stands for text without a record.
    """

    begins: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    levels: tuple[str | None, ...] = ("ERROR", "CRITICAL", "WARNING", "INFO", None)
    within: bool = False
    """True when the text may stand anywhere in the line (C libraries put much in front)."""

    def sees(self, line: LogLine) -> bool:
        if line.level not in self.levels:
            return False
        message = line.message
        if self.within:
            if not any(text in message for text in self.begins):
                return False
        elif not message.startswith(self.begins):
            return False
        return self.pattern is None or bool(self.pattern.search(message))


@dataclass(frozen=True, slots=True)
class Counted:
    """A fact that was counted or observed outside of the log; returns its proof or None."""

    proof: Callable[[Evidence], str | None]


Detector = Allocation | Raises | RaisedUnder | Prints | Counted
