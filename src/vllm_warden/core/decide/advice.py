"""What the warden would do about a death that it only reads about (``diagnose FILE``)."""

from __future__ import annotations

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.policy import decide
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.model import Failure, Phase
from vllm_warden.core.plan.defaults import engine_defaults
from vllm_warden.core.plan.spec import EngineFacts


def advise(diagnosis: Diagnosis, evidence: Evidence) -> Decision:
    """Decide with default bounds on the settings that the log itself names."""
    total = diagnosis.figures.get("total_bytes")
    has_gpus = diagnosis.failure is not Failure.HOST_OUT_OF_MEMORY
    engine = EngineFacts(version=diagnosis.engine_version)
    defaults = engine_defaults(
        evidence.settings,
        engine,
        ("unknown",) if has_gpus else (),
        int(total) if isinstance(total, int | float) else None,
    )
    return decide(
        Case(
            diagnosis=diagnosis,
            entry=LedgerEntry(
                0.0,
                diagnosis.failure,
                diagnosis.phase,
                was_ready=diagnosis.phase is Phase.SERVING,
                after_soak=False,
            ),
            asked=evidence.settings,
            in_force=evidence.settings,
            defaults=defaults,
            engine=engine,
            has_gpus=has_gpus,
        )
    )
