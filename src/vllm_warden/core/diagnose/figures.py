"""Reads the numbers out of failure messages, as typed figures in bytes.

Sizes are as exact as the text: torch and vLLM print two decimals of a GiB or MiB.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from vllm_warden.core.diagnose.xid import read_xid
from vllm_warden.core.model import GIB, MIB

Value = int | float | str

_UNITS = {"bytes": 1, "B": 1, "KiB": 1024, "MiB": MIB, "GiB": GIB, "TiB": 1 << 40, "GB": GIB}
_SIZE = r"(-?\d{1,15}(?:\.\d{1,20})?) (bytes|KiB|MiB|GiB|TiB)"
_SIZED = {
    "tried_bytes": re.compile(rf"Tried to allocate {_SIZE}"),
    "total_bytes": re.compile(rf"has a total capacity of {_SIZE}"),
    "free_bytes": re.compile(rf"of which {_SIZE} is free"),
    "process_bytes": re.compile(rf"this process has {_SIZE} memory in use"),
    "allowed_bytes": re.compile(rf"{_SIZE} allowed;"),
    "allocated_bytes": re.compile(rf"Of the allocated memory {_SIZE} is allocated by PyTorch"),
    "private_pools_bytes": re.compile(rf"with {_SIZE} allocated in private pools"),
    "reserved_unallocated_bytes": re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated"),
}
_GPU = re.compile(r"\bGPU (\d{1,4}) has a total capacity")
_OTHER = re.compile(rf"Process (\d{{1,10}}) has {_SIZE} memory in use")
_GIB = r"(-?\d{1,12}(?:\.\d{1,20})?)"
_HOST_TRIED = re.compile(r"you tried to allocate (\d{1,20}) bytes")
_MMAP = re.compile(r"unable to mmap (\d{1,20}) bytes")
_DUMMY = re.compile(r"warming up (?:sampler|pooler)[^\n]{0,120}? with (\d{1,9}) dummy requests")
_TAKEN = re.compile(
    rf"(?:Free memory on device|Available memory on node) (?:cuda:(\d{{1,4}}) |(?:\d{{1,4}}) )?"
    rf"\({_GIB}/{_GIB} GiB\) on startup is less than [^(]{{1,80}}\({_GIB}, {_GIB} GiB\)"
)
_DISTURBED = re.compile(
    rf"Initial free memory {_GIB} (?:GiB)?,? ?current free memory {_GIB} (?:GiB)?"
)
_REQUEST = re.compile(rf"max seq len \((\d{{1,12}})\), \(?{_GIB} GiB KV cache is needed")
_AVAILABLE = re.compile(rf"available KV cache memory \({_GIB} GiB\)")
_ESTIMATE = re.compile(r"estimated maximum model length is (\d{1,12})")
_NODE = re.compile(
    rf"Available memory on node \d{{1,4}} \({_GIB}/{_GIB} GiB\) on kv cache allocation "
    rf"is less than requested memory for kv \({_GIB}"
)
_MAMBA = re.compile(
    r"max_num_seqs \((\d{1,9})\) exceeds available Mamba cache blocks \((\d{1,9})\)"
)
_DERIVED = re.compile(
    r"max_model_len \((\d{1,12})\) is greater than the derived max_model_len "
    r"\([^=)]{0,80}=(\d{1,12})"
)
_SHM = re.compile(r"(\d{1,12}) MiB required, (\d{1,12}) MiB free")
_WORLD = re.compile(r"world[_ ]size \((\d{1,6})\)")
_HEADS = re.compile(
    r"attention heads \((\d{1,6})\) must be divisible by tensor parallel size \((\d{1,6})"
)
_OPTION = re.compile(
    r"error: (?:unrecognized arguments: (--[\w.-]{1,80})?|argument (--[\w.-]{1,80}))"
)


def to_bytes(number: str, unit: str = "GiB") -> int:
    """Bytes of a printed size, rounded to the nearest byte."""
    return round(float(number) * _UNITS[unit])


def figures_of(text: str) -> dict[str, Value]:
    """All figures that a message (or the messages of one chain) holds."""
    figures: dict[str, Value] = {}
    for hint, read in _READERS:
        if hint in text:
            read(text, figures)
    return figures


def gpu_of(text: str) -> int | None:
    """The figure ``gpu`` alone: a death has many ranks, and of the others nothing else is told."""
    taken = _TAKEN.search(text) if "on startup is less than" in text else None
    if taken is not None and taken[1] is not None:
        return int(taken[1])
    found = _GPU.search(text) if "out of memory. Tried" in text else None
    return int(found[1]) if found else None


def _torch(text: str, figures: dict[str, Value]) -> None:
    for name, pattern in _SIZED.items():
        if found := pattern.search(text):
            figures[name] = to_bytes(found[1], found[2])
    if found := _GPU.search(text):
        figures["gpu"] = int(found[1])
    end = text.find("Of the allocated memory")
    listed = [
        (found[1], to_bytes(found[2], found[3]))
        for found in _OTHER.finditer(text, 0, end if end > 0 else len(text))
    ]
    own = _own(listed, figures)
    if own is not None:
        listed.remove(own)
        figures["process_bytes"] = own[1]
    if listed:
        figures["other_processes"] = " ".join(f"{pid}:{size}" for pid, size in listed)
        figures["other_processes_bytes"] = sum(size for _, size in listed)


def _own(listed: list[tuple[str, int]], figures: dict[str, Value]) -> tuple[str, int] | None:
    """The dead process itself, which torch lists like any other where it does not know itself.

    In a container of its own process numbers NVML counts by the host's; torch then says nothing
    of "this process", or that it has 0 bytes. Its own must hold all that its allocator has.
    """
    if figures.get("process_bytes"):
        return None
    allocated = figures.get("allocated_bytes")
    if not isinstance(allocated, int):
        return None
    unallocated = figures.get("reserved_unallocated_bytes")
    reserved = allocated + (unallocated if isinstance(unallocated, int) else 0)
    able = [one for one in listed if one[1] >= reserved * 0.99]
    return min(able, key=lambda one: one[1], default=None)


def _host(text: str, figures: dict[str, Value]) -> None:
    if found := _HOST_TRIED.search(text) or _MMAP.search(text):
        figures["tried_bytes"] = int(found[1])


def _dummy(text: str, figures: dict[str, Value]) -> None:
    if found := _DUMMY.search(text):
        figures["dummy_requests"] = int(found[1])


def _taken(text: str, figures: dict[str, Value]) -> None:
    if found := _TAKEN.search(text):
        device, free, total, utilization, requested = found.groups()
        figures["free_bytes"] = to_bytes(free)
        figures["total_bytes"] = to_bytes(total)
        figures["utilization"] = float(utilization)
        figures["requested_bytes"] = to_bytes(requested)
        if device is not None:
            figures["gpu"] = int(device)


def _disturbed(text: str, figures: dict[str, Value]) -> None:
    found = _DISTURBED.search(text)
    if found and "GiB" in found[0]:  # 0.9.0 and older print bare bytes
        figures["initial_free_bytes"] = to_bytes(found[1])
        figures["current_free_bytes"] = to_bytes(found[2])
    elif found:
        figures["initial_free_bytes"] = round(float(found[1]))
        figures["current_free_bytes"] = round(float(found[2]))


def _request(text: str, figures: dict[str, Value]) -> None:
    if found := _REQUEST.search(text):
        figures["max_model_len"] = int(found[1])
        figures["needed_bytes"] = to_bytes(found[2])
    if found := _AVAILABLE.search(text):
        figures["available_bytes"] = to_bytes(found[1])
    if found := _ESTIMATE.search(text):
        figures["estimated_max_model_len"] = int(found[1])


def _node(text: str, figures: dict[str, Value]) -> None:
    if found := _NODE.search(text):
        figures["free_bytes"] = to_bytes(found[1])
        figures["total_bytes"] = to_bytes(found[2])
        figures["requested_bytes"] = to_bytes(found[3])
        if found[3].startswith("-"):
            figures["available_bytes"] = figures["requested_bytes"]


def _pair(
    pattern: re.Pattern[str], first: str, second: str, scale: int = 1
) -> Callable[[str, dict[str, Value]], None]:
    def read(text: str, figures: dict[str, Value]) -> None:
        if found := pattern.search(text):
            figures[first] = int(found[1]) * scale
            figures[second] = int(found[2]) * scale

    return read


def _world(text: str, figures: dict[str, Value]) -> None:
    if found := _WORLD.search(text):
        figures["world_size"] = int(found[1])


_PYDANTIC = re.compile(
    r"validation errors? for (\w{1,80})\n(?:([A-Za-z_][\w.-]{0,80})\n)?[ \t]{1,4}([^\n]{1,600})"
)
_PYDANTIC_TAIL = re.compile(r" \[type=\w{1,60}, input_")


def _pydantic(text: str, figures: dict[str, Value]) -> None:
    found = _PYDANTIC.search(text)
    if not found:
        return
    figures["config_class"] = found[1]
    message = _PYDANTIC_TAIL.split(found[3])[0].removeprefix("Value error, ")
    figures["message"] = message[:300]
    if found[2]:
        figures["option"] = found[2]


def _option(text: str, figures: dict[str, Value]) -> None:
    if found := _OPTION.search(text):
        option = found[1] or found[2]
        if option:
            figures["option"] = option
    figures["message"] = text.partition("error: ")[2][:300]


def _xid(text: str, figures: dict[str, Value]) -> None:
    record = read_xid(text)
    if record is not None:
        figures["xid"] = record.number
        figures["pci"] = record.pci
        figures["xid_action"] = record.action.value


_READERS: tuple[tuple[str, Callable[[str, dict[str, Value]], None]], ...] = (
    ("out of memory. Tried", _torch),
    ("you tried to allocate", _host),
    ("unable to mmap", _host),
    ("dummy requests", _dummy),
    ("on startup is less than", _taken),
    ("Initial free memory", _disturbed),
    ("max seq len (", _request),
    ("on kv cache allocation", _node),
    ("Mamba cache blocks", _pair(_MAMBA, "max_num_seqs", "mamba_blocks")),
    ("derived max_model_len", _pair(_DERIVED, "max_model_len", "derived_max_model_len")),
    ("MiB required", _pair(_SHM, "needed_bytes", "free_bytes", MIB)),
    ("attention heads (", _pair(_HEADS, "attention_heads", "tensor_parallel_size")),
    ("world", _world),
    ("validation error", _pydantic),
    (": error: ", _option),
    ("NVRM: Xid", _xid),
)
