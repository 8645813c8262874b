"""Picks out what attempts of an instance have shown of its memory, for later plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vllm_warden.api.schema import IncidentDocument, MeasuredDocument
from vllm_warden.core.lifecycle.events import BecameReady
from vllm_warden.core.lifecycle.states import Instance

TELLING = "weights_bytes"
"""Printed once the weights are loaded: an attempt without it has measured nothing of use."""


def figures_at_ready(
    instance: Instance, event: BecameReady, printed_version: str | None
) -> dict[str, object]:
    """What is kept of an attempt for ever once it is ready; empty where it printed no figures."""
    if TELLING not in event.figures:
        return {}
    figures: dict[str, object] = dict(event.figures)
    attempt = instance.attempt
    if attempt is not None and attempt.total_at_launch_bytes is not None:
        figures["total_bytes"] = attempt.total_at_launch_bytes
    return {"figures": figures, "engine_version": printed_version or instance.engine.version}


def measured_document(
    attempts: Sequence[Mapping[str, object]], incident: IncidentDocument | None
) -> MeasuredDocument | None:
    """Of the newest attempt, ready or dead, that got as far as its weights; newest come first."""
    ready = next((one for one in attempts if isinstance(one.get("figures"), dict)), None)
    number = ready.get("number") if ready is not None else None
    newest = number if isinstance(number, int) else 0
    if incident is not None and incident["attempt"] > newest:
        diagnosis = incident["diagnosis"]
        if TELLING in diagnosis["figures"]:
            return {
                "attempt": incident["attempt"],
                "moment": "death",
                "settings": incident["settings_before"],
                "figures": diagnosis["figures"],
                "engine_version": diagnosis["engine_version"],
            }
    if ready is None:
        return None
    figures, settings, version = (ready.get(x) for x in ("figures", "settings", "engine_version"))
    return {
        "attempt": newest,
        "moment": "ready",
        "settings": dict(settings) if isinstance(settings, dict) else {},
        "figures": dict(figures) if isinstance(figures, dict) else {},
        "engine_version": version if isinstance(version, str) else None,
    }
