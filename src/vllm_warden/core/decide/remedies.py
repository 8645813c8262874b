"""Which remedy each failure gets; a table, so that no failure can be forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.kv_cache import larger_kv_cache
from vllm_warden.core.decide.memory import out_of_memory
from vllm_warden.core.decide.neighbours import beside_at_check
from vllm_warden.core.decide.proposal import Proposal
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.model import Failure

Propose = Callable[[Case], Proposal]


def _always(remedy: Remedy, reason: str, *options: str) -> Propose:
    def propose(_: Case) -> Proposal:
        return Proposal(remedy, reason, options=options)

    return propose


_PASSING = frozenset(row.id for row in SIGNATURES if row.passing)


def _unless_it_passes(reason: str, otherwise: Propose) -> Propose:
    """One more try for what goes away by itself, by the row that recognised it."""

    def propose(case: Case) -> Proposal:
        if case.diagnosis.signature in _PASSING:
            return Proposal(Remedy.RELAUNCH, reason)
        return otherwise(case)

    return propose


def _host_out_of_memory(case: Case) -> Proposal:
    if case.diagnosis.site is not None:
        return out_of_memory(case)
    return Proposal(
        Remedy.RELAUNCH,
        "the kernel killed a process for lack of host memory; nothing shows which setting took it",
        options=("more host memory or a higher limit", "fewer instances that start at once"),
    )


def _configuration_invalid(case: Case) -> Proposal:
    option, message = (case.diagnosis.figures.get(name) for name in ("option", "message"))
    what = f"its option {option}" if option else "its configuration"
    said = f" ({message})" if message else ""
    return Proposal(Remedy.GIVE_UP, f"the engine refuses {what}{said}: it would refuse it again")


def _memory_taken(case: Case) -> Proposal:
    return beside_at_check(case) or Proposal(
        Remedy.WAIT,
        "something else held the memory at start: the same start works once it is free",
        options=("stop what holds the memory", "adapt.share_with_neighbours = true"),
    )


_OWN_FAULTS = frozenset({4, 5, 6, 7, 8, 11})
"""SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE and SIGSEGV: a process brings them upon itself."""
_REQUESTS = frozenset({1, 2, 15})
"""SIGHUP, SIGINT and SIGTERM: how people and programs ask a process to stop."""
_CRASHED = frozenset({"segfault", "worker-aborted"})


def _killed_by_signal(case: Case) -> Proposal:
    """Who ended a process is hardly ever in its own log, the out-of-memory killer least of all."""
    signal = case.figure("signal")
    if signal in _OWN_FAULTS or case.diagnosis.signature in _CRASHED:
        return Proposal(
            Remedy.RELAUNCH,
            "a process crashed in native code: worth one more try",
            options=(
                "keep its native call stack for a report (coredumpctl, where that is set up)",
            ),
        )
    if signal in _REQUESTS:
        return Proposal(Remedy.RELAUNCH, "a process was told to stop, and not by its engine")
    return Proposal(
        Remedy.RELAUNCH,
        "a process ended without a word of its own, and nothing shows who ended it",
        options=(
            "look for the kernel's out-of-memory killer: journalctl -k, or dmesg",
            "in a container: its memory limit, and whether its state says OOMKilled",
        ),
    )


COMPILER_FAILED = "graph-compiler-failed"
"""The signature that a damaged compile cache shares with a compiler that cannot do it."""


def _kernel_failure(case: Case) -> Proposal:
    reason = "a kernel could not be compiled or started: worth one more try"
    if case.diagnosis.signature == COMPILER_FAILED:
        reason = "the compiler failed, or its cache is damaged: worth one more try"
    return Proposal(
        Remedy.RELAUNCH,
        reason,
        options=(
            "install what the message lacks: a C compiler (or CC), nvcc, ninja, Python.h",
            "another backend than the one whose kernel failed",
        ),
    )


REMEDIES: Mapping[Failure, Propose] = MappingProxyType(
    {
        Failure.NONE: _always(
            Remedy.RELAUNCH, "the engine ended by itself although nobody had asked it to"
        ),
        Failure.GPU_OUT_OF_MEMORY: out_of_memory,
        Failure.GPU_MEMORY_TAKEN: _memory_taken,
        Failure.MEMORY_PROFILING_DISTURBED: _always(
            Remedy.RELAUNCH,
            "another process freed memory during profiling: a repeat measures right",
        ),
        Failure.KV_CACHE_TOO_SMALL: larger_kv_cache,
        Failure.HOST_OUT_OF_MEMORY: _host_out_of_memory,
        Failure.SHARED_MEMORY_TOO_SMALL: _always(
            Remedy.HOLD,
            "shared memory is too small or full, and no engine setting makes it larger",
            "a larger /dev/shm (mount -o remount,size=...)",
            "remove leftovers of dead processes from /dev/shm",
        ),
        Failure.CONFIGURATION_INVALID: _configuration_invalid,
        Failure.PARALLELISM_INVALID: _always(
            Remedy.GIVE_UP,
            "this split over GPUs is impossible for the model",
            "a layout that fits: vllm-warden plan MODEL --gpus N lists them",
        ),
        Failure.MODEL_UNSUPPORTED: _always(
            Remedy.GIVE_UP,
            "this engine version cannot run the model",
            "another version of vLLM, or a GPU that has what the message asks for",
        ),
        Failure.MODEL_UNAVAILABLE: _unless_it_passes(
            "fetching the model's files broke off: worth one more try",
            _always(
                Remedy.GIVE_UP,
                "the model's files cannot be had",
                "check the model's path or name, and HF_TOKEN for gated models",
            ),
        ),
        Failure.DEPENDENCY_MISMATCH: _always(
            Remedy.GIVE_UP,
            "the engine's installation does not fit together",
            "install what the message asks for into the engine's environment",
        ),
        Failure.KERNEL_FAILURE: _kernel_failure,
        Failure.COMMUNICATION_FAILURE: _always(
            Remedy.RELAUNCH, "the ranks lost each other: usually passing"
        ),
        Failure.ILLEGAL_MEMORY_ACCESS: _always(
            Remedy.RELAUNCH, "the CUDA context is lost; only a new process gets a new one"
        ),
        Failure.GPU_FAULT: _unless_it_passes(
            "the GPU refused or lost this process, and may take a new one",
            _always(
                Remedy.HOLD,
                "the GPU or its driver reported a fault: a restart cannot mend it",
                "see nvidia-smi -q and the kernel log; reset the GPU or reboot",
            ),
        ),
        Failure.ENGINE_STALLED: _always(Remedy.RELAUNCH, "the engine stood still"),
        Failure.PORT_IN_USE: _always(
            Remedy.WAIT,
            "another process has the port: the same start works once it is free",
            "end what has it: ss -ltnp names the process",
            "another port",
        ),
        Failure.REQUEST_TRIGGERED_CRASH: _always(
            Remedy.RELAUNCH, "a request brought the engine down; the settings are not at fault"
        ),
        Failure.KILLED_BY_SIGNAL: _killed_by_signal,
        Failure.UNKNOWN: _always(
            Remedy.RELAUNCH, "the cause is not known: one unchanged try shows whether it passes"
        ),
    }
)
