"""Limits of the host that are not the size of its memory, and memory that Python was refused."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import Prints, RaisedUnder, Raises
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Failure

_HOST = Failure.HOST_OUT_OF_MEMORY

SIGNATURES = (
    Signature(
        id="pinned-memory-refused",
        failure=_HOST,
        detect=Raises(
            "",
            "",
            re.compile(
                r"cudaHost(?:Register|Alloc)[^\n]{0,120}(?:fail|error|out of memory)|(?:fail|error)[^\n]{0,120}cudaHost(?:Register|Alloc)"
                r"|[Pp]inned memory[^\n]{0,80}(?:fail|exceed|not enough)|hipHost(?:Register|Malloc)[^\n]{0,120}(?:fail|error)",
                re.IGNORECASE,
            ),
        ),
        summary="The host refused memory that was to be locked for the GPU.",
        caution="May be the limit of locked memory (RLIMIT_MEMLOCK) rather than the machine's memory.",
    ),
    Signature(
        id="pinned-allocation-refused",
        failure=_HOST,
        detect=RaisedUnder(
            (),
            functions=frozenset(
                {"pin_memory", "_allocate_pinned", "allocate_cpu_tensors", "pin_mmap_region"}
            ),
            pattern=re.compile(r"(?:CUDA|HIP) error: out of memory"),
        ),
        summary="The host refused memory that was to be locked for the GPU.",
        caution="CUDA reports it in the same words as a full GPU; the call stack tells.",
    ),
)

LAST = (
    Signature(
        id="host-memory-refused",
        failure=_HOST,
        detect=Raises(
            "",
            "",
            re.compile(
                r"^MemoryError\b(?!: Not enough space in the data buffer)|std::bad_alloc|\[Errno 12\] Cannot allocate memory|Unable to allocate [\d.]{1,12} [KMGT]iB for an array"
            ),
        ),
        summary="The host refused memory to a process of the engine.",
        caution="May be a limit of the process or of its cgroup rather than the machine's memory.",
    ),
    Signature(
        id="host-memory-refused-native",
        failure=_HOST,
        detect=Prints(
            ("terminate called after throwing an instance of 'std::bad_alloc'",), levels=(None,)
        ),
        summary="The host refused memory to native code of the engine.",
        caution="May be a limit of the process or of its cgroup rather than the machine's memory.",
    ),
)
