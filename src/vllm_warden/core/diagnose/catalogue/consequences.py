"""Lines that only follow from a failure: wrappers, siblings that were stopped, and shutdown noise."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import Prints, Raises
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Failure, Role

_FOLLOWS = "Follows from any death; proves nothing of the cause."

SIGNATURES = (
    Signature(
        id="wrapper",
        failure=Failure.UNKNOWN,
        detect=Raises(
            "",
            "",
            re.compile(
                r"See root cause above|See stack trace \(above\) for the root cause|EngineCore encountered an issue"
                r"|Executor failed\.|RuntimeError: cancelled$|WorkerProc initialization failed due to an exception"
                r"|Engine process failed to start|Engine core process \S{1,60} died unexpectedly"
                r"|Background loop (?:is stopped|has errored)|Task finished unexpectedly|EngineDeadError|EngineGenerateError"
            ),
            anywhere=True,
        ),
        role=Role.CONSEQUENCE,
        announces=True,
        summary="One process reports that another one failed.",
        caution=_FOLLOWS,
    ),
    Signature(
        id="sibling-stopped",
        failure=Failure.UNKNOWN,
        detect=Prints(
            (
                "WorkerProc was terminated",
                "Worker proc VllmWorker-",
                "Parent process exited, terminating worker",
                "Worker VllmWorkerProcess pid",
            ),
            re.compile(r"was terminated|exit code: (?:0|-15)\b|Parent process exited"),
        ),
        role=Role.CONSEQUENCE,
        summary="A worker was stopped because the engine ended.",
        caution=_FOLLOWS,
    ),
    Signature(
        id="output-handler-failed",
        failure=Failure.UNKNOWN,
        detect=Prints(
            (
                "AsyncLLM output_handler failed",
                "EngineCore failed to start.",
                "EngineCore encountered a fatal error",
                "WorkerProc hit an exception",
                "WorkerProc failed to start",
            )
        ),
        role=Role.CONSEQUENCE,
        announces=True,
        summary="A process announces the traceback that follows.",
        caution=_FOLLOWS,
    ),
    Signature(
        id="broken-pipe",
        failure=Failure.UNKNOWN,
        detect=Raises(
            "",
            "",
            re.compile(
                r"^(?:BrokenPipeError|ConnectionResetError|EOFError|asyncio\.exceptions\.CancelledError|KeyboardInterrupt|SystemExit|concurrent\.futures\.\S{0,40}CancelledError|GeneratorExit)\b"
            ),
            anywhere=True,
        ),
        role=Role.CONSEQUENCE,
        summary="A process lost its partner or was told to stop.",
        caution=_FOLLOWS,
    ),
    Signature(
        id="shutdown-trouble",
        failure=Failure.UNKNOWN,
        detect=Raises(
            "",
            "",
            re.compile(
                r"'NoneType' object has no attribute '(?:ensure_kv_transfer_shutdown|shutdown)'|FileNotFoundError: \[Errno 2\] No such file or directory: '/psm_"
            ),
            anywhere=True,
        ),
        role=Role.CONSEQUENCE,
        summary="Cleaning up failed because the start never got that far.",
        caution=_FOLLOWS,
    ),
    Signature(
        id="leak-report",
        failure=Failure.UNKNOWN,
        detect=Prints(
            ("nanobind: leaked", "resource_tracker: There appear to be"),
            levels=(None,),
            within=True,
        ),
        role=Role.CONSEQUENCE,
        summary="Python and nanobind report objects that were alive at the exit.",
        caution="Printed after clean stops as well.",
    ),
)
