"""Finds out what a plan is about: the instance or the line, the model's directory, the GPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from vllm_warden.adapters.model_directory.probe import ModelDirectory
from vllm_warden.adapters.nvml.errors import GpusUnavailable
from vllm_warden.adapters.nvml.gpus import NvmlGpus
from vllm_warden.config.errors import ConfigurationInvalid
from vllm_warden.config.knob_bounds import LIMITED, asked_faults
from vllm_warden.config.load import DEFAULT_PATH, load
from vllm_warden.config.translate import translate
from vllm_warden.core.model import GIB, Settings
from vllm_warden.core.plan.defaults import world_size
from vllm_warden.core.plan.drop_in import DropInError, read_line
from vllm_warden.core.plan.memory_model.layout import WORLD_MAX
from vllm_warden.core.plan.memory_model.line_settings import line_settings
from vllm_warden.core.plan.sizes import parse_bytes

ASSUMED_GPU_BYTES = 80 * GIB


@dataclass(frozen=True, slots=True)
class Asked:
    """A model and the settings it is to run with. ``gpus`` None: nobody said how many.

    ``instance`` is the configured one, None for a line; ``extra`` are those of the settings that
    the configuration does not know by name.
    """

    title: str
    model: str
    settings: Settings = field(default_factory=dict)
    gpus: int | None = None
    instance: str | None = None
    extra: Settings = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Host:
    """The GPUs to plan for; ``remark`` says where the numbers are from."""

    gpus: int
    total_bytes: int
    remark: str


def what_is_asked(words: Sequence[str], config: Path) -> Asked:
    """An instance of the configuration, or a model with the arguments of ``vllm serve``.

    Raises click.UsageError.
    """
    if len(words) == 1 and "/" not in words[0] and not os.path.exists(words[0]):  # noqa: PTH110 - pathlib's raises for a name that is too long
        found = _instance(words[0], config)
        if found is not None:
            return found
    try:
        line = read_line(words)
    except DropInError as error:
        raise click.UsageError(str(error)) from None
    return Asked(line.model, line.model, {**line.engine, **line_settings(line.extra)})


def check_settings(settings: Settings) -> None:
    """Refuse what the engine would not take: a plan with its defaults instead would mislead.

    Raises click.UsageError.
    """
    for name, value in settings.items():
        reason = _fault(name, value)
        if reason is not None:
            flag = "--" + name.replace("_", "-")
            raise click.UsageError(f"cannot plan {flag} {value}: {reason}")
    if world_size(settings) > WORLD_MAX:
        raise click.UsageError(
            f"cannot plan for {world_size(settings)} GPUs: one host has {WORLD_MAX} at most"
        )


def _fault(name: str, value: object) -> str | None:
    fault = next(asked_faults((name,), name, value), None) if name in LIMITED else None
    if fault is None:
        return None
    return f"{fault.reason} ({fault.allowed})" if fault.allowed else fault.reason


def _instance(name: str, config: Path) -> Asked | None:
    try:
        instances = translate(load(config, os.environ))
    except ConfigurationInvalid as invalid:
        if os.path.lexists(config) or config != DEFAULT_PATH:
            raise click.UsageError(f"cannot read {config}: {invalid.errors[0]}") from None
        return None
    for one in instances:
        if one.spec.name == name:
            spec = one.spec
            extra = line_settings(spec.extra_args)
            settings = {**spec.engine, **extra}
            title, gpus = f"{name}: {spec.model}", len(spec.gpus) or None
            return Asked(title, spec.model, settings, gpus, name, extra)
    return None


def model_directory(model: str) -> Path:
    """The directory on this disk, also in Hugging Face's cache. Raises click.UsageError."""
    try:
        found = ModelDirectory().directory(model)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no name of a model"
        raise click.UsageError(f"cannot read {model}: {reason}") from None
    if found is None:
        raise click.UsageError(
            f"cannot plan {model}: it is neither an instance nor a model on this disk; give the "
            "path of a model directory"
        )
    return found


def gpu_bytes(text: str) -> int:
    """``94.97GiB``, ``97887MiB``, or a plain number of GiB. Raises click.UsageError."""
    size = parse_bytes(text) or 0
    if size < GIB:
        try:
            size = int(float(text) * GIB)
        except (ValueError, OverflowError):
            size = 0
    if not GIB <= size < GIB << 20:
        raise click.UsageError(f"cannot read --gpu-memory {text}: write it as 94.97GiB or 97887MiB")
    return size


def host_of(gpus: int | None, memory: str | None, least_gpus: int) -> Host:
    """What was given, else what NVML shows, else an assumption that is said aloud."""
    if memory is not None:
        return Host(gpus or least_gpus, gpu_bytes(memory), "as given")
    try:
        nvml = NvmlGpus()
        try:
            readings = [one for one in nvml.memory() if one.error is None]
        finally:
            nvml.close()
    except GpusUnavailable:
        readings = []
    if readings:
        total = min(one.total_bytes for one in readings)
        return Host(gpus or len(readings), total, f"{readings[0].name}, from the driver")
    remark = "assumed, no GPU is visible here: give --gpu-memory"
    return Host(gpus or least_gpus, ASSUMED_GPU_BYTES, remark)
