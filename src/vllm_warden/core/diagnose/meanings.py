"""What each failure means, in a sentence or two for a person."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vllm_warden.core.model import Failure

MEANINGS: Mapping[Failure, str] = MappingProxyType(
    {
        Failure.NONE: "The log shows no failure. A stop that somebody asked for is none either.",
        Failure.GPU_OUT_OF_MEMORY: (
            "A GPU had less free memory than the engine asked it for. What can be done depends on "
            "the phase: before the KV cache exists its size plays no part, afterwards it is what "
            "has to give way."
        ),
        Failure.GPU_MEMORY_TAKEN: (
            "At its start the engine found less free memory than its share of the device: "
            "something else holds it, often an earlier engine that has not let go yet."
        ),
        Failure.MEMORY_PROFILING_DISTURBED: (
            "The device's free memory changed by another process's doing while the engine was "
            "measuring its own use, so the measurement was worth nothing."
        ),
        Failure.KV_CACHE_TOO_SMALL: (
            "Weights and activations fit, but what the budget leaves for the KV cache cannot hold "
            "what was asked for."
        ),
        Failure.HOST_OUT_OF_MEMORY: (
            "The host, or a limit set on the engine, had no memory left: an allocation was refused "
            "or the kernel killed a process."
        ),
        Failure.SHARED_MEMORY_TOO_SMALL: (
            "The host's shared memory has no room for the buffers through which the engine's "
            "processes talk."
        ),
        Failure.CONFIGURATION_INVALID: (
            "The engine refused an option, a value or a combination of them. The same command is "
            "refused again."
        ),
        Failure.PARALLELISM_INVALID: (
            "The model cannot be spread over GPUs in the way that was asked for, or there are not "
            "as many GPUs."
        ),
        Failure.MODEL_UNSUPPORTED: (
            "This release of vLLM, or this GPU, does not run the model as it is."
        ),
        Failure.MODEL_UNAVAILABLE: (
            "The model's files are not where they were looked for, may not be fetched, or are "
            "damaged."
        ),
        Failure.DEPENDENCY_MISMATCH: (
            "Packages or drivers of the engine's installation do not fit together."
        ),
        Failure.KERNEL_FAILURE: (
            "A GPU kernel could not be compiled, does not exist for this device, or refused what "
            "it was given."
        ),
        Failure.COMMUNICATION_FAILURE: (
            "The ranks could not reach each other. When one rank dies the others say this too, so "
            "it counts only where nobody says anything else."
        ),
        Failure.ILLEGAL_MEMORY_ACCESS: (
            "A GPU kernel touched memory that is not its own. Most often a flaw of software."
        ),
        Failure.GPU_FAULT: (
            "A GPU, its driver or a link between GPUs failed, is missing or is not ready."
        ),
        Failure.ENGINE_STALLED: (
            "The engine lived, but made no progress or did not answer within its limit."
        ),
        Failure.PORT_IN_USE: "Another process listens on the port, or has not closed it yet.",
        Failure.REQUEST_TRIGGERED_CRASH: (
            "What the requests of a moment asked for brought the engine down: a flaw of vLLM."
        ),
        Failure.KILLED_BY_SIGNAL: (
            "A process of the engine was ended from outside, or crashed in native code, and left "
            "no words of its own."
        ),
        Failure.UNKNOWN: (
            "Something died, and no row of the catalogue says why; the first exception that "
            "nobody recognised is shown."
        ),
    }
)
