"""Reads a ``vllm serve`` line as people have it, so that the warden can stand in front of it.

Only what the warden must know is taken out of the line: model, host, port, the knobs, sizes of
parallelism, and the API key, which must not stay in the process list. Everything else is passed
on word by word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vllm_warden.core.model import SettingValue

NUMBERS = frozenset(
    {
        *("max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "max_model_len"),
        *("kv_cache_memory_bytes", "tensor_parallel_size", "pipeline_parallel_size"),
        *("data_parallel_size",),
    }
)
SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
}
TAKEN = NUMBERS | {"host", "port", "api_key"}


class DropInError(ValueError):
    """The line cannot be understood; the message says which word and why."""


@dataclass(frozen=True, slots=True)
class DropIn:
    """A line, taken apart. ``extra`` holds what is passed on verbatim, in order."""

    command: tuple[str, ...]
    model: str
    host: str | None
    port: int | None
    api_key: str | None
    engine: dict[str, SettingValue]
    extra: tuple[str, ...]


def read_line(words: Sequence[str]) -> DropIn:
    """Understand ``MODEL ...`` as well as ``[wrapper ...] vllm serve MODEL ...``.

    Raises DropInError.
    """
    command, rest = _split_command(words)
    if not rest or rest[0].startswith("-"):
        raise DropInError("cannot read the command line: the model comes first, then its options")
    found: dict[str, str] = {}
    extra: list[str] = []
    position = 1
    while position < len(rest):
        name, value, used = _option(rest, position)
        if name is None or value is None:
            extra.extend(rest[position : position + used])
        else:
            found[name] = value
        position += used
    port = found.pop("port", None)
    if port is not None and not port.isdecimal():
        raise DropInError(f"cannot read --port {port}: it is no number")
    return DropIn(
        command=command,
        model=rest[0],
        host=found.pop("host", None),
        port=None if port is None else int(port),
        api_key=found.pop("api_key", None),
        engine={name: _value(name, value) for name, value in found.items()},
        extra=tuple(extra),
    )


def _split_command(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    for index in range(1, len(words)):
        program = words[index - 1].rpartition("/")[2]
        if words[index] == "serve" and program == "vllm":
            return tuple(words[: index + 1]), tuple(words[index + 1 :])
    return ("vllm", "serve"), tuple(words)


def _option(rest: Sequence[str], position: int) -> tuple[str | None, str | None, int]:
    """(name, value, words used) of a taken option; (None, None, 1) for what is passed on."""
    word, equals, value = rest[position].partition("=")
    name = SHORT.get(word) or word.removeprefix("--").replace("-", "_")
    if name not in TAKEN or not (word in SHORT or word.startswith("--")):
        return None, None, 1
    if equals:
        return name, value, 1
    if position + 1 >= len(rest):
        raise DropInError(f"cannot read {word}: its value is missing")
    return name, rest[position + 1], 2


def _value(name: str, text: str) -> SettingValue:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        if name in ("max_model_len", "kv_cache_memory_bytes"):
            return text  # a size such as 16M, which vLLM reads itself
        raise DropInError(
            f"cannot read --{name.replace('_', '-')} {text}: it is no number"
        ) from None


def instance_name(model: str) -> str:
    """A name for an instance from its model: the last part, in lower case, a-z, 0-9 and -."""
    last = model.rstrip("/").rpartition("/")[2].lower()
    name = re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:32].strip("-")
    return name or "engine"
