"""What would be done about a failure, asked of the remedies themselves with an example engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Change, Remedy, Useless
from vllm_warden.core.decide.knobs import number
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.proposal import Proposal
from vllm_warden.core.decide.remedies import REMEDIES
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.recognised import places_of
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import GIB, MIB, Failure, Phase, Role, Settings, Site
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, EngineFacts, ModelFacts

USUALLY = ""
SHORTER = "where adapt.max_model_len allows a shorter context"
LARGER = "where adapt.gpu_memory_utilization allows a larger budget"
SAMPLER_PEAK = "where the sampler's trial run sets the peak"
SHARED, SERVED = "where other processes hold memory of the GPU", "after it served for a while"
_SETTINGS: Settings = {
    "tensor_parallel_size": 2,
    "gpu_memory_utilization": 0.9,
    "max_num_seqs": 1024,
    "max_num_batched_tokens": 8192,
    "max_model_len": 131072,
}
_TOTAL_BYTES = 80 * GIB
_FIGURES: Mapping[str, int | float | str] = {
    "tried_bytes": 2 * GIB,
    "free_bytes": 600 * MIB,
    "total_bytes": _TOTAL_BYTES,
    "allocated_bytes": 76 * GIB,
    "weights_bytes": 40 * GIB,
}
_CACHE_FIGURES: Mapping[str, int | float | str] = {
    "needed_bytes": 16 * GIB,
    "available_bytes": 9 * GIB,
    "estimated_max_model_len": 73_728,
}
_SAMPLER_FIGURES: Mapping[str, int | float | str] = {
    "weights_bytes": 40 * GIB,
    "available_bytes": round(29.4 * GIB),
    "needed_bytes": round(30.4 * GIB),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a failure was met; ``condition`` is "" for what holds as a rule."""

    phase: Phase | None
    site: Site | None
    condition: str = USUALLY


@dataclass(frozen=True, slots=True)
class Treatment:
    """The answer of the remedies for all places that get the same one.

    ``lowered`` and ``raised`` are the settings that it moves; the amounts are an example's and
    therefore left out.
    """

    places: tuple[Place, ...]
    signatures: tuple[str, ...]
    remedy: Remedy
    reason: str
    lowered: tuple[str, ...] = ()
    raised: tuple[str, ...] = ()
    useless: tuple[Useless, ...] = ()
    options: tuple[str, ...] = ()


def treatments(failure: Failure, row: Signature | None = None) -> tuple[Treatment, ...]:
    """All answers that a failure (or one row's findings) can get, the commonest place first."""
    gathered: dict[Treatment, tuple[dict[Place, None], dict[str, None]]] = {}
    for place, signature, proposal in _answers(failure, row):
        places, signatures = gathered.setdefault(_treatment(proposal), ({}, {}))
        places[place] = None
        if signature is not None:
            signatures[signature] = None
    return tuple(
        replace(one, places=tuple(places), signatures=tuple(signatures))
        for one, (places, signatures) in gathered.items()
    )


def _answers(
    failure: Failure, row: Signature | None
) -> Iterator[tuple[Place, str | None, Proposal]]:
    for each in (row,) if row is not None else _rows(failure):
        for phase, site in places_of(each) if each is not None else ((None, None),):
            signature = each.id if each is not None else None
            example = _case(Diagnosis(failure, phase, site, signature))
            usual = REMEDIES[failure](example)
            yield Place(phase, site), signature, usual
            for condition, case in _variants(example):
                answer = REMEDIES[failure](case)
                if _differs(answer, usual):
                    yield Place(phase, site, condition), signature, answer


def _rows(failure: Failure) -> list[Signature | None]:
    found: list[Signature | None] = [
        row for row in SIGNATURES if row.failure is failure and row.role is Role.CAUSE
    ]
    return found or [None]


def _case(diagnosis: Diagnosis) -> Case:
    on_host = diagnosis.failure is Failure.HOST_OUT_OF_MEMORY
    settings: Settings = {**_SETTINGS, "kv_cache_memory_bytes": 8 * GIB} if on_host else _SETTINGS
    figures = {**_FIGURES} if diagnosis.failure is not Failure.KV_CACHE_TOO_SMALL else {}
    if not diagnosis.signature or "request" in diagnosis.signature:
        figures |= _CACHE_FIGURES
    return Case(
        diagnosis=replace(diagnosis, figures=figures),
        entry=LedgerEntry(
            0.0,
            diagnosis.failure,
            diagnosis.phase,
            was_ready=diagnosis.phase is Phase.SERVING,
            after_soak=False,
        ),
        asked=settings,
        in_force=settings,
        model=ModelFacts(weight_bytes=80 * GIB, vocab_size=151_936),
        engine=EngineFacts(),
        has_gpus=not on_host,
        gpu_total_bytes=None if on_host else _TOTAL_BYTES,
    )


def _variants(case: Case) -> Iterator[tuple[str, Case]]:
    diagnosis, figures = case.diagnosis, case.diagnosis.figures
    yield SHORTER, replace(case, adapt=AdaptSpec(knobs={"max_model_len": Bounds()}))
    if case.has_gpus:
        larger = AdaptSpec(knobs={"gpu_memory_utilization": Bounds(max=0.95)})
        yield LARGER, replace(case, adapt=larger)
        shared = {**figures, "other_processes": f"4242:{4 * GIB}"}
        yield SHARED, replace(case, diagnosis=replace(diagnosis, figures=shared))
    if diagnosis.failure is Failure.KV_CACHE_TOO_SMALL:
        peak = {**figures, **_SAMPLER_FIGURES}
        yield SAMPLER_PEAK, replace(case, diagnosis=replace(diagnosis, figures=peak))
    if diagnosis.phase is Phase.SERVING:
        yield SERVED, replace(case, entry=replace(case.entry, after_soak=True))


def _differs(one: Proposal, other: Proposal) -> bool:
    return one.remedy is not other.remedy or _moved(one.changes) != _moved(other.changes)


def _moved(changes: tuple[Change, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    lowered: list[str] = []
    raised: list[str] = []
    for change in changes:
        before, after = number(change.before), number(change.after)
        goes_up = before is not None and after is not None and after > before
        (raised if goes_up else lowered).append(change.setting)
    return tuple(lowered), tuple(raised)


def _treatment(proposal: Proposal) -> Treatment:
    lowered, raised = _moved(proposal.changes)
    return Treatment(
        (),
        (),
        proposal.remedy,
        proposal.reason,
        lowered,
        raised,
        proposal.useless,
        proposal.options,
    )
