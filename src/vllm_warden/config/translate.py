"""Settings to the core's specs; the only module that knows both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vllm_warden.config.environment_file import read_environment_file
from vllm_warden.config.knob_bounds import is_whole, number
from vllm_warden.config.settings import (
    KNOBS,
    AdaptSettings,
    Configuration,
    InstanceSettings,
    KnobRange,
    RestartSettings,
)
from vllm_warden.core.model import Mode, SettingValue
from vllm_warden.core.plan.sizes import is_vllm_size, parse_bytes
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, InstanceSpec, RestartSpec


@dataclass(frozen=True, slots=True)
class Translated:
    """One instance for the core; ``problem`` says why its secrets could not be read.

    With a problem the instance must not be launched: it would serve without its API key.
    ``warning`` is to be shown and changes nothing.
    """

    spec: InstanceSpec
    problem: str | None = None
    warning: str | None = None
    environment_file: Path | None = field(default=None)


def translate(configuration: Configuration) -> tuple[Translated, ...]:
    """Every instance in configuration order; reads the environment files."""
    return tuple(
        translate_instance(name, instance) for name, instance in configuration.instance.items()
    )


def translate_instance(name: str, instance: InstanceSettings) -> Translated:
    """One instance; reads its environment file where it has one."""
    if instance.environment_file is None:
        return Translated(to_spec(name, instance, {}))
    path = Path(instance.environment_file)
    held = read_environment_file(path)
    return Translated(to_spec(name, instance, held.values), held.unreadable, held.warning, path)


def to_spec(name: str, instance: InstanceSettings, secrets: Mapping[str, str]) -> InstanceSpec:
    """Settings to a spec without looking at the world."""
    return InstanceSpec(
        name=name,
        model=instance.model,
        gpus=tuple(instance.gpus),
        port=instance.port,
        host=instance.host,
        user=instance.user,
        command=tuple(instance.command),
        environment=dict(instance.environment),
        secret_environment=dict(secrets),
        engine={key: engine_value(key, value) for key, value in instance.engine.items()},
        extra_args=tuple(instance.extra_args),
        autostart=instance.autostart,
        drain_seconds=instance.drain_seconds,
        stall_seconds=instance.stall_seconds,
        adapt=_adapt(instance.adapt),
        restart=_restart(instance.restart),
    )


def engine_value(key: str, value: SettingValue) -> SettingValue:
    """The value as it is handed to vLLM."""
    # vLLM's parser knows 16M but not 16MiB; what it would refuse is written out in bytes.
    if key == "kv_cache_memory_bytes" and isinstance(value, str) and not is_vllm_size(value):
        return parse_bytes(value) or value
    # 64.0 is how TOML and JSON may write a count; vLLM's parser refuses it
    return int(value) if isinstance(value, float) and is_whole(key, value) else value


def _adapt(adapt: AdaptSettings) -> AdaptSpec:
    return AdaptSpec(
        mode=Mode(adapt.mode),
        knobs={knob: _bounds(getattr(adapt, knob)) for knob in KNOBS},
        min_concurrency_fraction=adapt.min_concurrency_fraction,
        share_with_neighbours=adapt.share_with_neighbours,
    )


def _bounds(knob: bool | KnobRange) -> Bounds:
    if isinstance(knob, bool):
        return Bounds(allowed=knob)
    return Bounds(allowed=True, min=number(knob.min), max=number(knob.max))


def _restart(restart: RestartSettings) -> RestartSpec:
    return RestartSpec(
        startup_failures_max=restart.startup_failures_max,
        startup_window_seconds=restart.startup_window_seconds,
        unchanged_repeats_max=restart.unchanged_repeats_max,
        crashes_max=restart.crashes_max,
        crash_window_seconds=restart.crash_window_seconds,
        backoff_first_seconds=restart.backoff_first_seconds,
        backoff_max_seconds=restart.backoff_max_seconds,
        soak_seconds=restart.soak_seconds,
        soak_requests=restart.soak_requests,
        load_probe=restart.load_probe,
    )
