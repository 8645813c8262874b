"""Writes a diagnosis as the JSON object that every command, incident and API answer uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vllm_warden.core.diagnose.diagnosis import Diagnosis, ProofLine


def document(diagnosis: Diagnosis, advice: Mapping[str, object] | None = None) -> dict[str, object]:
    """The object of docs/reference/diagnosis.md; ``advice`` is taken as it is."""
    return {
        "failure": diagnosis.failure.value,
        "phase": diagnosis.phase.value if diagnosis.phase else None,
        "site": diagnosis.site.value if diagnosis.site else None,
        "signature": diagnosis.signature,
        "confidence": diagnosis.confidence.value,
        "ranks": list(diagnosis.ranks),
        "gpus": list(diagnosis.gpus),
        "figures": _figures(diagnosis.figures),
        "evidence": _lines(diagnosis.evidence),
        "consequences": _lines(diagnosis.consequences),
        "engine_version": diagnosis.engine_version,
        "summary": diagnosis.summary,
        "incomplete": diagnosis.incomplete,
        "advice": advice,
    }


def _lines(lines: Iterable[ProofLine]) -> list[dict[str, object]]:
    return [{"line": proof.line, "text": proof.text} for proof in lines]


def _figures(figures: Mapping[str, int | float | str]) -> dict[str, object]:
    """Other processes are kept as "pid:bytes pid:bytes" in the core and listed here."""
    shown: dict[str, object] = dict(figures)
    others = figures.get("other_processes")
    if isinstance(others, str):
        pairs = (pair.partition(":") for pair in others.split())
        shown["other_processes"] = [{"pid": int(pid), "bytes": int(size)} for pid, _, size in pairs]
    return shown
