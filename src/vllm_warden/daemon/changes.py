"""Turns what people ask for into events of the lifecycle, or into a refusal with a hint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from vllm_warden.api.service import ChangeRequest, Refused
from vllm_warden.config.launch_settings import given_settings_problem, launchable
from vllm_warden.core.lifecycle.events import (
    AcceptRequested,
    Event,
    ForgetRequested,
    HoldRequested,
    RestartRequested,
    ResumeRequested,
    StartRequested,
    StopRequested,
)
from vllm_warden.core.lifecycle.states import RUNNING, Instance, State
from vllm_warden.core.lifecycle.steps import after_attempt
from vllm_warden.core.lifecycle.trial import Trial, TrialKind
from vllm_warden.core.model import SettingValue
from vllm_warden.daemon.config_file import ConfigFile

JOINED = RUNNING | {State.WAITING}
"""States in which a start changes nothing any more."""

_SIMPLE: Mapping[str, Callable[[float, str], Event]] = MappingProxyType(
    {"hold": HoldRequested, "resume": ResumeRequested, "forget": ForgetRequested}
)


def event_of(
    instance: Instance, request: ChangeRequest, by: str, now: float, config: ConfigFile | None
) -> Event | Refused:
    """The event for the core; refused is what the operator's own rules forbid."""
    if request.verb in _SIMPLE:
        return _SIMPLE[request.verb](now, by)
    at_once = request.options.get("now") is True
    if request.verb == "stop":
        return StopRequested(now, by, now=at_once)
    if request.verb == "accept":
        return _accept(instance, by, now, config)
    trial = _trial(instance, request, by)
    if isinstance(trial, Refused):
        return trial
    if request.verb == "restart":
        return RestartRequested(now, by, now=at_once, trial=trial)
    return _start(instance, by, now, trial)


def _start(instance: Instance, by: str, now: float, trial: Trial | None) -> Event | Refused:
    if trial is None or instance.state not in JOINED:
        return StartRequested(now, by, trial)
    name = instance.spec.name
    hint = f"vllm-warden restart {name} --retry-capacity stops it first"
    return Refused(409, f"{name} is {instance.state} already", hint)


def _trial(instance: Instance, request: ChangeRequest, by: str) -> Trial | Refused | None:
    again = request.options.get("retry_capacity") is True
    given = request.options.get("set")
    if given is None:
        return Trial(TrialKind.CAPACITY, by) if again else None
    settings = cast("Mapping[str, SettingValue]", given)
    may_all = request.actor.uid in (0, os.geteuid())
    problem = given_settings_problem(instance.spec, settings, may_all=may_all)
    if problem is not None:
        return Refused(400, problem, "settings are named as in [engine] of the settings file")
    # what an earlier trial was given holds for that launch only
    base = {} if again else dict(after_attempt(instance).changes)
    changes = {**base, **launchable(settings)}
    asked = instance.asked
    kept = {name: value for name, value in changes.items() if asked.get(name) != value}
    return Trial(TrialKind.GIVEN, by, kept)


def _accept(
    instance: Instance, by: str, now: float, config: ConfigFile | None
) -> AcceptRequested | Refused:
    name = instance.spec.name
    if not instance.changes:
        return Refused(409, f"nothing to accept: {name} has the settings that were asked for")
    if config is None:
        return Refused(409, "there is no settings file", "write them into the serve line")
    wanted = {**instance.spec.engine, **instance.changes}
    problem = config.take_engine(name, wanted)
    if problem is not None:
        hint = f"vllm-warden accept {name} --write changes the file; or restart the daemon"
        return Refused(409, problem, hint)
    return AcceptRequested(now, by, wanted)
