"""Judges engine settings that somebody gives for one launch, by the rules of the settings file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pydantic import ValidationError

from vllm_warden.config.bare_values import bare_faults
from vllm_warden.config.knob_bounds import knob_faults
from vllm_warden.config.refusals import instance_refusals
from vllm_warden.config.settings import KNOBS, InstanceSettings
from vllm_warden.config.translate import engine_value
from vllm_warden.config.wording import Fault
from vllm_warden.core.model import SettingValue
from vllm_warden.core.plan.option_names import flag_of, unknown_options
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec
from vllm_warden.core.secrets import is_secret_name

EVERY_ENGINE_HAS = ("max_num_seqs", "max_model_len", "gpu_memory_utilization", "served_model_name")
"""A list of options without these is a part of one, and says nothing of what is not in it."""
FOR_ADMINS = frozenset(
    {
        *KNOBS,
        "block_size",
        "cpu_offload_gb",
        "enable_chunked_prefill",
        "enable_prefix_caching",
        "enforce_eager",
        "kv_cache_dtype",
        "max_cudagraph_capture_size",
        "max_num_partial_prefills",
        "swap_space",
    }
)
"""What users in ``api.admins`` may give. Other options can load code or files as the engine's user,
which starting and stopping an engine does not grant."""


def given_settings_problem(
    spec: InstanceSpec, given: Mapping[str, object], *, may_all: bool
) -> str | None:
    """Why these may not be launched with, None where they may; ``may_all`` is for root."""
    if not given:
        return "cannot set anything: no setting is given"
    found = _problem(spec, given, may_all=may_all)
    return None if found is None else f"cannot set {found[0]}: {found[1]}"


def _problem(
    spec: InstanceSpec, given: Mapping[str, object], *, may_all: bool
) -> tuple[str, str] | None:
    """The settings at fault, and why."""
    if not may_all and (beyond := sorted(set(given) - FOR_ADMINS)):
        return ", ".join(beyond), "only root may"
    if secret := next(filter(is_secret_name, given), None):
        return secret, "a secret in argv is readable by every user; use environment_file"
    if bare := next(bare_faults((), dict(given)), None):
        return ascii(bare.path[0])[1:-1], bare.reason
    table = {"engine": {**spec.engine, **given}, "extra_args": list(spec.extra_args)}
    try:
        InstanceSettings.model_validate({"model": spec.model, "gpus": [], "engine": dict(given)})
    except ValidationError as error:
        names = {str(part) for one in error.errors() for part in one["loc"]} & set(given)
        return ", ".join(sorted(names)), "not a value for an engine option"
    found = [*instance_refusals(spec.name, table), *knob_faults(spec.name, {"engine": dict(given)})]
    mine = [fault for fault in found if _names_one_of(fault, given)]
    if not mine:
        return None
    allowed = f" (allowed: {mine[0].allowed})" if mine[0].allowed else ""
    hint = f"; {mine[0].hint}" if mine[0].hint else ""
    return str(mine[0].path[-1]), mine[0].reason + allowed + hint


def unknown_option_problem(
    given: Mapping[str, object], engine: EngineFacts
) -> tuple[str, str] | None:
    """Why the engine would not start with these, and a hint; None where it may, or is not known.

    A setting that only one launch is to have would end a serving engine for nothing.
    """
    is_whole_list = {flag_of(knob) for knob in EVERY_ENGINE_HAS} <= engine.flags
    unknown = unknown_options(given, engine.flags) if is_whole_list else []
    if not unknown:
        return None
    known = [flag.removeprefix("--").replace("-", "_") for flag in engine.flags]
    close = difflib.get_close_matches(unknown[0], sorted(known), 1)
    hint = f"did you mean {close[0]}?" if close else "vllm serve --help lists them"
    flags = ", ".join(flag_of(name) for name in unknown)
    version = f"vLLM {engine.version}" if engine.version else "the engine"
    return f"cannot set {', '.join(unknown)}: {version} has no option {flags}", hint


def launchable(given: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """As vLLM reads them; call it with what has no problem."""
    return {name: engine_value(name, value) for name, value in given.items()}


def _names_one_of(fault: Fault, given: Mapping[str, object]) -> bool:
    named = {_plain(str(part)) for part in (*fault.path, fault.value)}
    return bool(named & {_plain(key) for key in given})


def _plain(word: str) -> str:
    return word.lstrip("-").partition("=")[0].replace("-", "_")
