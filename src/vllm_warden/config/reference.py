"""Writes docs/reference/configuration.md from the models, so that the two cannot differ."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vllm_warden.config.settings import (
    AdaptSettings,
    ApiSettings,
    DaemonSettings,
    InstanceSettings,
    KnobRange,
    RestartSettings,
)

_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("[daemon]", DaemonSettings),
    ("[api]", ApiSettings),
    ("[instance.NAME]", InstanceSettings),
    ("[instance.NAME.adapt]", AdaptSettings),
    ("[instance.NAME.restart]", RestartSettings),
)
_INTRODUCTION = """\
# Configuration

Generated from the settings models; rewrite it with `make docs`.

One TOML file, by default `/etc/vllm-warden/config.toml`; `etc/config.toml` shows every key at its
default. `vllm-warden check-config` reports every mistake at once: exit 2 when the text is wrong
(the whole file is refused), 1 when only the world does not fit (a directory, a program, a port),
0 when it is fine.

## Environment

Any key can come from a variable, which wins over the file: `WARDEN_` and the path of the key in
upper case, two underscores between tables. In an instance's name `-` is written `_`.

| variable | key |
|---|---|
| `WARDEN_DAEMON__STATE_DIRECTORY=/srv/warden` | `daemon.state_directory` |
| `WARDEN_INSTANCE__MINIMAX_M25__PORT=8001` | `instance.minimax-m25.port` |
| `WARDEN_INSTANCE__MINIMAX_M25__GPUS=[0,1]` | `instance.minimax-m25.gpus` |
| `WARDEN_INSTANCE__A__ENVIRONMENT__HF_HOME=/srv/hf` | `instance.a.environment.HF_HOME` |

A value is read as JSON where it can be (`0.9`, `true`, `[0, 1]`) and as text otherwise; text that
looks like a number is written with quotes inside: `WARDEN_INSTANCE__A__MODEL='"7"'`. Names that
begin with `VLLM_` are never read: vLLM complains about those that it does not know.
"""
_REFUSALS = """\
## What is refused

These are well formed and still refused, because the engine could not be supervised:

| setting | why |
|---|---|
| `docker`, `podman`, `nerdctl`, `systemd-run` in `command` | the engine would run outside the \
warden's cgroup |
| the Ray executor (`distributed_executor_backend`, `data_parallel_backend`) | its processes are \
no children of the engine |
| several nodes (`nnodes`, `node_rank`, `master_addr`, `headless`, `data_parallel_address`...) | \
an instance is supervised on one node |
| `enable_fault_tolerance`, `VLLM_KEEP_ALIVE_ON_ENGINE_DEATH` | the engine would outlive its own \
death |
| `VLLM_CONFIGURE_LOGGING=0`, `VLLM_LOGGING_CONFIG_PATH` | without vLLM's own lines nothing can be \
diagnosed |
| `VLLM_PORT` equal to `port` | vLLM takes its internal ports from there upwards |
| `CUDA_VISIBLE_DEVICES`, `CUDA_DEVICE_ORDER`, `TMPDIR`, `NO_COLOR` in `environment` | the warden \
sets them |
| `model`, `host`, `port` in `[engine]` or `extra_args`; an option given twice | two places would \
disagree |
| `api_key`, `hf_token` in `[engine]` or `extra_args` | readable in the process list; use \
`environment_file` |
| MIG slices in `gpus` | vLLM and NVML count them differently |
"""


def render() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for heading, model in _TABLES:
        parts.append("\n".join([f"## `{heading}`", "", inspect.cleandoc(model.__doc__ or ""), ""]))
        parts.append("\n".join(_table(model)) + "\n")
        if model is AdaptSettings:
            parts.append("A knob's table:\n\n" + "\n".join(_table(KnobRange)) + "\n")
    parts.append(_REFUSALS)
    return "\n".join(parts)


def _table(model: type[BaseModel]) -> Iterator[str]:
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in model.model_fields.items():
        if name in {"adapt", "restart"}:
            continue  # a table of its own below
        description = (field.description or "").replace("|", "\\|")
        yield f"| `{name}` | {_type_name(field.annotation)} | {_default(field)} | {description} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: object = field.default
    if value is None:
        return "none"
    return f"`{_toml(value)}`"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


_NAMES = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def _type_name(annotation: object) -> str:
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if origin is Literal:
        return " or ".join(f'`"{choice}"`' for choice in arguments)
    if origin in {Union, types.UnionType}:
        shown = dict.fromkeys(_type_name(one) for one in arguments if one is not type(None))
        return " or ".join(shown)
    if origin is list:
        return f"list of {_type_name(arguments[0])}"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "table"
    return _NAMES.get(annotation, "value") if isinstance(annotation, type) else "value"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
