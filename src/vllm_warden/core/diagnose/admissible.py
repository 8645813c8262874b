"""Tells which exceptions may be believed: users' words can stand in a log of a serving engine."""

from __future__ import annotations

from vllm_warden.core.diagnose.detect import Raises
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.diagnose.tracebacks import Raised
from vllm_warden.core.model import Phase, Role

_ENGINE_LOGGERS = frozenset(
    {
        "core.py",
        "multiproc_executor.py",
        "engine.py",
        "multiproc_worker_utils.py",
        "uniproc_executor.py",
    }
)
_SERVING = frozenset({Phase.SERVING, Phase.SHUTDOWN})


def is_admissible(raised: Raised, row: Signature) -> bool:
    """Whether the row may trust this text."""
    if not (raised.logged or raised.bare):
        return False
    if raised.before not in _SERVING:
        return True
    if row.role is Role.CONSEQUENCE or (isinstance(row.detect, Raises) and row.detect.anywhere):
        return True
    return _speaks_for_engine(raised)


def _speaks_for_engine(raised: Raised) -> bool:
    process = raised.process
    if process.startswith(("APIServer", "ApiServer")):
        return False
    if process:
        return True
    return raised.logged and (
        raised.in_engine or (raised.file or "").rpartition("/")[2] in _ENGINE_LOGGERS
    )


def may_be_unnamed_cause(raised: Raised) -> bool:
    """Whether an exception that no row names may have ended the engine."""
    if not (raised.logged or raised.bare):
        return False
    return raised.before not in _SERVING or _speaks_for_engine(raised)
