"""Failures, phases, sites and remedies in words that need no manual."""

from __future__ import annotations

import re

FAILURES = {
    "none": "nothing failed",
    "gpu_out_of_memory": "out of GPU memory",
    "gpu_memory_taken": "too little free GPU memory at the start",
    "memory_profiling_disturbed": "another process changed GPU memory while vLLM measured it",
    "kv_cache_too_small": "the KV cache is too small",
    "host_out_of_memory": "out of host memory",
    "shared_memory_too_small": "shared memory is too small",
    "configuration_invalid": "vLLM refuses the configuration",
    "parallelism_invalid": "this parallelism does not work for this model",
    "model_unsupported": "this vLLM does not support the model",
    "model_unavailable": "the model cannot be had",
    "dependency_mismatch": "installed packages do not fit together",
    "kernel_failure": "a kernel could not be compiled or run",
    "communication_failure": "the workers could not talk to each other",
    "illegal_memory_access": "illegal GPU memory access",
    "gpu_fault": "a GPU or its driver failed",
    "engine_stalled": "the engine stalled",
    "port_in_use": "the port is in use",
    "request_triggered_crash": "a request crashed the engine",
    "killed_by_signal": "killed by a signal",
    "unknown": "unknown failure",
}

PHASES = {
    "args": "reading its arguments",
    "download": "downloading the model",
    "init_device": "setting up the GPUs",
    "load": "loading weights",
    "profile": "measuring memory",
    "kv_plan": "planning the KV cache",
    "kv_alloc": "allocating the KV cache",
    "kernels": "preparing kernels",
    "cudagraph": "capturing CUDA graphs",
    "warmup": "warming up",
    "serving": "serving",
    "shutdown": "shutting down",
}

SITES = {
    "weights": "weights",
    "activations": "activations",
    "encoder": "the encoder",
    "lora": "LoRA adapters",
    "kv_cache": "the KV cache",
    "cuda_graphs": "CUDA graphs",
    "sampler": "the sampler",
    "pooler": "the pooler",
    "kernels": "kernels",
    "communication": "communication buffers",
}

_SAID_BY_PHASE = frozenset(
    {
        ("load", "weights"),
        ("kv_plan", "kv_cache"),
        ("kv_alloc", "kv_cache"),
        ("kernels", "kernels"),
        ("cudagraph", "cuda_graphs"),
    }
)
"""Sites that the words for the phase name already."""

REMEDIES = {
    "none": "nothing to do",
    "relaunch": "launch again, unchanged",
    "relaunch_with": "launch again with changed settings",
    "wait": "wait",
    "hold": "hold, for a person to decide",
    "give_up": "give up: no setting can help",
}


def failure_in_words(failure: object, phase: object, site: object) -> str:
    """``out of GPU memory while warming up, for the sampler``."""
    words = FAILURES.get(str(failure), str(failure))
    if phase is not None:
        words += f" while {PHASES.get(str(phase), str(phase))}"
    if site is not None and (str(phase), str(site)) not in _SAID_BY_PHASE:
        words += f", for {SITES.get(str(site), str(site))}"
    return words


def sentence(words: str) -> str:
    """With a capital where that spells no name wrongly (it is vLLM, never VLLM)."""
    return words if words.startswith("vLLM") else f"{words[:1].upper()}{words[1:]}"


def hint_in_words(hint: str) -> str:
    """The API's hints name its own paths; people at a terminal have commands."""
    hint = hint.replace("GET /v1/incidents lists them", "vllm-warden incidents lists them")
    return re.sub(r"GET /v1/instances/([\w-]+) lists", r"vllm-warden status \1 lists", hint)
