"""The answer of the diagnosis stage: what failed, where, with the lines that prove it."""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm_warden.core.model import Confidence, Failure, Figures, Phase, Site


@dataclass(frozen=True, slots=True)
class ProofLine:
    """A log line, by its number in the attempt's log, kept as proof."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Failure, phase, site and figures of one death, and the evidence for them.

    ``signature`` is the id of the catalogue row that decided, None when nothing matched.
    ``summary`` is one plain sentence for a person. Ranks are tensor parallel or global ranks as
    the log names them; ``gpus`` are ordinals visible to the engine, not NVML indices.
    ``overheard`` means that the proof is no record of the engine's, so that it moves no knob.
    """

    failure: Failure
    phase: Phase | None = None
    site: Site | None = None
    signature: str | None = None
    confidence: Confidence = Confidence.CERTAIN
    ranks: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    figures: Figures = field(default_factory=dict)
    evidence: tuple[ProofLine, ...] = ()
    consequences: tuple[ProofLine, ...] = ()
    engine_version: str | None = None
    summary: str = ""
    incomplete: bool = False
    overheard: bool = False
