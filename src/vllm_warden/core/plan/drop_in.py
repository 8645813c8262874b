"""Reads a ``vllm serve`` line as people have it, so that the warden can stand in front of it.

Only what the warden must know is taken out of the line: model, host, port, the knobs, sizes of
parallelism, and the API key, which must not stay in the process list. Everything else is passed
on word by word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from vllm_warden.core.model import SettingValue
from vllm_warden.core.plan.sizes import is_vllm_size

NUMBERS = frozenset(
    {
        *("max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "max_model_len"),
        *("kv_cache_memory_bytes", "tensor_parallel_size", "pipeline_parallel_size"),
        *("data_parallel_size",),
    }
)
SIZES = frozenset({"max_num_batched_tokens", "max_model_len", "kv_cache_memory_bytes"})
"""Options that vLLM 0.32 reads with ``human_readable_int``: ``8k``, ``16M``."""
SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
}
SECRETS = {"api_key": "VLLM_API_KEY", "hf_token": "HF_TOKEN"}
"""Options whose values the process list must not show, and the variables vLLM reads instead."""
TAKEN = NUMBERS | SECRETS.keys() | {"host", "port"}
ABOUT = frozenset({"-h", "--help", "--version"})
PORT_MAX = 65535

_GLUED = re.compile(r"(-tp|-pp|-dp)(\d+)")


class DropInError(ValueError):
    """The line cannot be understood; the message says which word and why."""


@dataclass(frozen=True, slots=True)
class DropIn:
    """A line, taken apart. ``extra`` holds what is passed on verbatim, in order."""

    command: tuple[str, ...]
    model: str
    host: str | None
    port: int | None
    engine: dict[str, SettingValue]
    extra: tuple[str, ...]
    secret_environment: dict[str, str] = field(repr=False)


def read_line(words: Sequence[str]) -> DropIn:
    """Understand ``MODEL ...`` as well as ``[wrapper ...] vllm serve MODEL ...``.

    Raises DropInError.
    """
    command, rest = _split_command(words)
    model, rest = _split_model(rest)
    found: dict[str, str] = {}
    extra: list[str] = []
    position = 0
    while position < len(rest):
        name, value, used = _option(rest, position)
        if name is None or value is None:
            extra.extend(rest[position : position + used])
        else:
            found[name] = value
        position += used
        if name in SECRETS and position < len(rest) and not rest[position].startswith("-"):
            raise DropInError(
                f"cannot read --{name.replace('_', '-')}: only one value; a second one would show "
                "in the process list"
            )
    secrets = {SECRETS[name]: found.pop(name) for name in SECRETS if name in found}
    return DropIn(
        command=command,
        model=model,
        port=_port(found.pop("port", None)),
        host=found.pop("host", None),
        engine={name: _value(name, value) for name, value in found.items()},
        extra=tuple(extra),
        secret_environment=secrets,
    )


def question_for_the_engine(words: Sequence[str]) -> tuple[str, ...] | None:
    """The command to run instead where a line only asks for help or the version, else None."""
    command, rest = _split_command(words)
    asked = [word for word in rest if word in ABOUT or word.startswith("--help=")]
    if not asked:
        return None
    # `vllm serve` knows no --version; `vllm` does
    return (*command[:-1], "--version") if asked[0] == "--version" else (*command, asked[0])


def _split_command(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    for index in range(1, len(words)):
        program = words[index - 1].rpartition("/")[2]
        if words[index] == "serve" and program == "vllm":
            return tuple(words[: index + 1]), tuple(words[index + 1 :])
    return ("vllm", "serve"), tuple(words)


def _split_model(rest: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The model, and the words without it.

    It stands first, or after options whose number of values we know, or behind ``--model``.
    """
    position = 0
    while position < len(rest):
        if not rest[position].startswith("-"):
            return rest[position], (*rest[:position], *rest[position + 1 :])
        name, _, used = _option(rest, position)
        if name is None:
            break
        position += used
    for position, word in enumerate(rest):
        option, equals, value = word.partition("=")
        if option == "--model":
            used = 1 if equals else 2
            value = value if equals else _following(rest, position, option)
            return value, (*rest[:position], *rest[position + used :])
    raise DropInError(
        "cannot read the command line: no model in front of its options; "
        "write MODEL first, or --model MODEL"
    )


def _option(rest: Sequence[str], position: int) -> tuple[str | None, str | None, int]:
    """(name, value, words used) of a taken option; (None, None, 1) for what is passed on."""
    if glued := _GLUED.fullmatch(rest[position]):
        return SHORT[glued[1]], glued[2], 1
    word, equals, value = rest[position].partition("=")
    name = SHORT.get(word) or word.removeprefix("--").replace("-", "_")
    if name not in TAKEN or not (word in SHORT or word.startswith("--")):
        return None, None, 1
    if equals:
        return name, value, 1
    return name, _following(rest, position, word), 2


def _following(rest: Sequence[str], position: int, option: str) -> str:
    """The value behind an option; as argparse, a negative number is one and an option is not."""
    value = rest[position + 1] if position + 1 < len(rest) else "-"
    if value.startswith("-") and not re.fullmatch(r"-\d+(\.\d+)?", value):
        raise DropInError(f"cannot read {option}: it needs a value")
    return value


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise DropInError(f"cannot read --port {text}: it is no number")
    if not 1 <= int(text) <= PORT_MAX:
        raise DropInError(f"cannot use --port {text}: a port is a number from 1 to {PORT_MAX}")
    return int(text)


def _value(name: str, text: str) -> SettingValue:
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if name in SIZES and (is_vllm_size(text) or text == "auto"):
        return text  # vLLM reads it itself, and so it stays as it was typed
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DropInError(f"cannot read --{name.replace('_', '-')} {text}: it is no number")
    return number


def instance_name(model: str) -> str:
    """A name for an instance from its model: the last part, in lower case, a-z, 0-9 and -."""
    last = model.rstrip("/").rpartition("/")[2].lower()
    name = re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:32].strip("-")
    return name or "engine"
