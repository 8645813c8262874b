"""Processes that vanished, failed to talk to each other, or broke the GPU's rules."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import Counted, Prints, RaisedUnder, Raises
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.places import SCHEDULER
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.model import Failure, Phase

_KILLED = Failure.KILLED_BY_SIGNAL
_WHO = "Does not say who sent the signal: the kernel's OOM killer leaves the same lines."


def _lost(evidence: Evidence) -> str | None:
    if not evidence.lost_processes:
        return None
    lost = evidence.lost_processes[0]
    return f"{lost.title} (pid {lost.pid}) vanished while its parent lived on"


def _signalled(evidence: Evidence) -> str | None:
    status = evidence.exit_status
    if status is not None and status < 0 and evidence.note is None:
        return f"the API server ended by signal {-status}"
    return None


def _stalled(evidence: Evidence) -> str | None:
    note = evidence.note
    if note and any(
        word in note.lower() for word in ("stall", "probe", "progress", "hang", "hung")
    ):
        return note
    return None


SIGNATURES = (
    Signature(
        id="process-lost",
        failure=_KILLED,
        detect=Counted(_lost),
        summary="An engine process vanished while its parent lived on.",
        caution=_WHO,
        weight=Weight.DEATH,
    ),
    Signature(
        id="ended-by-signal",
        failure=_KILLED,
        detect=Counted(_signalled),
        summary="The API server was ended by a signal that the warden did not send.",
        caution=_WHO,
        weight=Weight.DEATH,
    ),
    Signature(
        id="warden-ended-it",
        failure=Failure.ENGINE_STALLED,
        detect=Counted(_stalled),
        summary="The warden ended the engine because it made no progress.",
        caution="Says nothing of why it made none.",
        weight=Weight.DEATH,
    ),
    Signature(
        id="worker-died",
        failure=_KILLED,
        detect=Prints(
            ("Worker proc VllmWorker-", "Worker VllmWorkerProcess pid"),
            re.compile(
                r"died unexpectedly(?:,| \(exit code: (?:None|-(?!15\b|6\b)\d+)\))|died, exit code: -(?!15\b|6\b)\d+"
            ),
            levels=("ERROR", "CRITICAL"),
        ),
        summary="A worker process died without a word of its own.",
        caution=_WHO,
        weight=Weight.DEATH,
    ),
    Signature(
        id="worker-aborted",
        failure=_KILLED,
        detect=Prints(
            ("Worker proc VllmWorker-", "Worker VllmWorkerProcess pid"),
            re.compile(r"exit code: -6\b"),
            levels=("ERROR", "CRITICAL"),
        ),
        summary="A worker process aborted itself.",
        caution="NCCL's watchdog and C++ exceptions end a process so; what they said is the cause.",
        weight=Weight.HINT,
        likely=True,
    ),
    Signature(
        id="shell-reports-signal",
        failure=_KILLED,
        detect=Prints(
            ("Killed", "Segmentation fault", "Bus error", "Aborted"),
            re.compile(r"^(?:Killed|Segmentation fault|Bus error|Aborted)(?: +\(core dumped\))?$"),
            levels=(None,),
        ),
        summary="The shell that started the engine says that a signal ended it.",
        caution=_WHO,
        weight=Weight.HINT,
        likely=True,
    ),
    Signature(
        id="engine-core-died",
        failure=_KILLED,
        detect=Prints(
            (
                "Engine core proc ",
                "[shutdown] MPClient: engine core exited unexpectedly",
                "Engine core process ",
            ),
            re.compile(r"died unexpectedly|exited unexpectedly"),
            levels=("ERROR", "CRITICAL", "WARNING"),
        ),
        summary="The engine core died without a word of its own.",
        caution=_WHO,
        weight=Weight.DEATH,
    ),
    Signature(
        id="data-parallel-core-died",
        failure=_KILLED,
        detect=Raises(
            "RuntimeError",
            "Engine core process ",
            re.compile(r"Engine core process \S{1,60} died unexpectedly"),
        ),
        summary="One of several engine cores died without a word of its own.",
        caution=_WHO,
        weight=Weight.DEATH,
    ),
    Signature(
        id="engine-process-died",
        failure=_KILLED,
        detect=Raises(
            "RuntimeError",
            "Engine process (pid ",
            re.compile(r"^RuntimeError: Engine process \(pid \d{1,10}\) died\.(?:'\))?(?:\n|$)"),
            anywhere=True,
        ),
        summary="The engine process of vLLM's V0 ended without a word of its own.",
        caution="The API server's heartbeat only saw that it was gone. " + _WHO,
        weight=Weight.DEATH,
    ),
    Signature(
        id="engine-core-killed-at-start",
        failure=_KILLED,
        detect=Raises(
            "RuntimeError",
            "Engine core initialization failed",
            re.compile(r"Failed core proc\(s\): \{[^}]{0,200}: -\d"),
        ),
        summary="The engine core was ended by a signal while it started.",
        caution=_WHO,
        weight=Weight.DEATH,
    ),
    Signature(
        id="segfault",
        failure=_KILLED,
        detect=Prints(
            (
                "*** SIGSEGV received",
                "!!!!!!! Segfault encountered",
                "Fatal Python error: Segmentation fault",
                "Fatal Python error: Bus error",
                "Fatal Python error: Aborted",
                "*** SIGABRT received",
                "*** SIGBUS received",
            ),
            levels=(None,),
        ),
        summary="A process of the engine crashed in native code.",
        caution="Says where it crashed, not whose fault it is.",
        weight=Weight.DEATH,
    ),
    Signature(
        id="worker-vanished-at-start",
        failure=_KILLED,
        detect=Raises(
            "Exception",
            "WorkerProc initialization failed due to an exception in a background process",
        ),
        of_whole_log=True,
        summary="A worker ended during its start without a word of its own.",
        caution=_WHO,
        weight=Weight.HINT,
        likely=True,
    ),
    Signature(
        id="engine-core-vanished-at-start",
        failure=_KILLED,
        detect=Raises("RuntimeError", "Engine core initialization failed"),
        of_whole_log=True,
        summary="The engine core ended during its start without a word of its own.",
        caution=_WHO,
        weight=Weight.HINT,
        likely=True,
    ),
    Signature(
        id="engine-core-vanished",
        failure=_KILLED,
        detect=Raises("EngineDeadError", "EngineCore encountered an issue", anywhere=True),
        of_whole_log=True,
        summary="The engine core ended while serving without a word of its own.",
        caution="Also printed during an orderly stop; then it proves nothing. " + _WHO,
        weight=Weight.HINT,
        likely=True,
    ),
    Signature(
        id="interrupted-at-start",
        failure=_KILLED,
        detect=Raises("KeyboardInterrupt", ""),
        summary="The engine was told to stop while it started.",
        caution="Does not say who asked.",
        weight=Weight.HINT,
        likely=True,
        asked=True,
    ),
    Signature(
        id="core-told-to-stop-at-start",
        failure=_KILLED,
        detect=Prints(("[shutdown] EngineCore: trigger received signal=",), levels=("INFO",)),
        summary="The engine core was told to stop while it started.",
        caution="Does not say who asked; the API server tells it so as well when it gives up.",
        weight=Weight.HINT,
        likely=True,
        asked=True,
    ),
    Signature(
        id="workers-stopped",
        failure=_KILLED,
        detect=Prints(("WorkerProc was terminated",), levels=("WARNING",)),
        of_whole_log=True,
        summary="The workers were told to stop, and nothing says why.",
        caution="Usually follows from another rank's failure.",
        weight=Weight.HINT,
        likely=True,
    ),
    Signature(
        id="communication-failed",
        failure=Failure.COMMUNICATION_FAILURE,
        detect=Raises(
            "",
            "",
            re.compile(
                r"NCCL error|DistBackendError|gloo/transport|ncclSystemError|ncclRemoteError|ncclInternalError|DistNetworkError|DistStoreError"
                r"|NIXL_ERR_|nixlBackendError|Connection closed by peer|Watchdog caught collective operation timeout"
            ),
        ),
        summary="The ranks could not talk to each other.",
        caution="Every rank says so when one of them dies; look for one that says something else.",
        weight=Weight.COMMUNICATION,
    ),
    Signature(
        id="collective-timeout",
        failure=Failure.COMMUNICATION_FAILURE,
        detect=Prints(
            ("Watchdog caught collective operation timeout",), levels=(None, "ERROR"), within=True
        ),
        summary="A collective operation between the ranks timed out.",
        caution="Another rank may have died or hung before.",
        weight=Weight.COMMUNICATION,
    ),
    Signature(
        id="illegal-memory-access",
        failure=Failure.ILLEGAL_MEMORY_ACCESS,
        detect=Raises(
            "", "", re.compile(r"an illegal memory access was encountered|cudaErrorIllegalAddress")
        ),
        summary="A GPU kernel touched memory that is not its own.",
        caution="Reported late: the call stack need not show the guilty kernel.",
    ),
    Signature(
        id="gpu-broken",
        failure=Failure.GPU_FAULT,
        detect=Raises(
            "",
            "",
            re.compile(
                r"uncorrectable (?:ECC|NVLink) error|system has unsupported display driver|Error 80[23]:|GPU is lost|unspecified launch failure"
                r"|CUDA error: (?:device not ready|initialization error|system not yet initialized)|all CUDA-capable devices are busy or unavailable"
            ),
        ),
        summary="The GPU or its driver reported a fault.",
        caution="Software can provoke some of these; the kernel's log (Xid) tells more.",
    ),
    Signature(
        id="step-timeout",
        failure=Failure.ENGINE_STALLED,
        detect=Raises(
            "TimeoutError", "", re.compile(r"RPC call to \w{1,60} timed out|^TimeoutError$")
        ),
        summary="A worker did not answer in time.",
        caution="A rank that hangs in a collective or a broken GPU looks the same.",
        phase=None,
    ),
    Signature(
        id="shared-memory-too-small",
        failure=Failure.SHARED_MEMORY_TOO_SMALL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"Insufficient space in /dev/shm|Error while creating shared memory segment /dev/shm|No space left on device[^\n]{0,200}/dev/shm"
            ),
        ),
        summary="Shared memory has no room for the buffers between the processes.",
        caution="May be filled by what earlier crashes left behind.",
    ),
    Signature(
        id="shared-memory-segment",
        failure=Failure.SHARED_MEMORY_TOO_SMALL,
        detect=Prints(
            ("NCCL WARN Error while creating shared memory segment /dev/shm",),
            levels=(None,),
            within=True,
        ),
        summary="NCCL found no room in /dev/shm for its buffers.",
        caution="May be filled by what earlier crashes left behind.",
        phase=Phase.INIT_DEVICE,
    ),
    Signature(
        id="kernel-build-failed",
        failure=Failure.KERNEL_FAILURE,
        detect=Raises(
            "",
            "",
            re.compile(
                r"Could not find nvcc|Failed to find C compiler|no kernel image is available for execution|Ninja build failed|nvcc fatal|PTXASError|Error building extension"
            ),
        ),
        summary="A GPU kernel could not be built or does not exist for this GPU.",
        caution="Raised wherever the kernel is first used; nothing ran out of memory.",
    ),
    Signature(
        id="library-mismatch",
        failure=Failure.DEPENDENCY_MISMATCH,
        detect=Raises(
            "", "", re.compile(r"undefined symbol: |cannot open shared object file|version `GLIBC")
        ),
        usual=Phase.ARGS,
        summary="Two installed libraries do not fit together.",
        caution="Says which symbol or file is missing, not which package to change.",
    ),
    Signature(
        id="scheduler-broke",
        failure=Failure.REQUEST_TRIGGERED_CRASH,
        detect=RaisedUnder((), SCHEDULER, frozenset({Phase.SERVING})),
        summary="The engine's scheduler broke on the requests of that moment.",
        caution="Read from where it was raised; which request it was is not known.",
        weight=Weight.DEATH,
        likely=True,
    ),
)
