"""Makes evidence of what systemd itself said when a unit ended."""

from __future__ import annotations

from vllm_warden.adapters.log_source.unit import UnitEnd
from vllm_warden.core.diagnose.evidence import Evidence

_DEATHS = frozenset({"exit-code", "signal", "core-dump", "oom-kill"})
"""Results of units that nobody had asked to stop, or that failed while they did (systemd.service).
After ``timeout`` systemd had killed it itself, and the log alone says what hung."""


def evidence_of(end: UnitEnd) -> Evidence:
    """Nothing but the empty log where systemd saw no failure: a stop that was asked for."""
    if end.result not in _DEATHS:
        return Evidence(())
    return Evidence((), exit_status=end.exit_status, oom_kills=1 if end.result == "oom-kill" else 0)
