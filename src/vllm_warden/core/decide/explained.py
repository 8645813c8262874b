"""Writes an explanation as the JSON object that ``explain --json`` prints."""

from __future__ import annotations

from vllm_warden.core.decide.explanation import Treatment, treatments
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.meanings import MEANINGS
from vllm_warden.core.diagnose.recognised import places_of, recognised
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Failure, Role


def failure_document(failure: Failure) -> dict[str, object]:
    """Everything about one failure: its rows, and what would be done."""
    return {
        "failure": failure.value,
        "means": MEANINGS[failure],
        "signatures": [row_document(row) for row in rows_of(failure)],
        "treatments": [_treatment(one) for one in treatments(failure)],
    }


def signature_document(row: Signature) -> dict[str, object]:
    """The same for one row alone; a consequence is never treated."""
    decides = row.role is Role.CAUSE
    return {
        "failure": row.failure.value if decides else None,
        "means": MEANINGS[row.failure] if decides else row.summary,
        "signatures": [row_document(row)],
        "treatments": [_treatment(one) for one in treatments(row.failure, row)] if decides else [],
    }


def rows_of(failure: Failure) -> tuple[Signature, ...]:
    """The rows that can answer it, in the order of the catalogue."""
    return tuple(row for row in SIGNATURES if row.failure is failure and row.role is Role.CAUSE)


def row_document(row: Signature) -> dict[str, object]:
    """One row of the catalogue, in words."""
    places = places_of(row)
    return {
        "signature": row.id,
        "says": row.summary,
        "role": row.role.value,
        "phases": list(dict.fromkeys(str(phase) for phase, _ in places if phase is not None)),
        "sites": list(dict.fromkeys(str(site) for _, site in places if site is not None)),
        "recognised_by": recognised(row),
        "caution": row.caution,
        "passing": row.passing,
        "since": row.since,
        "until": row.until,
    }


def _treatment(one: Treatment) -> dict[str, object]:
    return {
        "places": [
            {"phase": place.phase, "site": place.site, "condition": place.condition or None}
            for place in one.places
        ],
        "signatures": list(one.signatures),
        "remedy": one.remedy.value,
        "reason": one.reason,
        "lowers": list(one.lowered),
        "raises": list(one.raised),
        "useless": [{"setting": it.setting, "why": it.why} for it in one.useless],
        "options": list(one.options),
    }
