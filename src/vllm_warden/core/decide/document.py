"""Writes a decision as the JSON object that incidents, ``diagnose`` and the API use."""

from __future__ import annotations

from dataclasses import fields

from vllm_warden.core.decide.decision import Change, Decision, Price


def decision_document(decision: Decision) -> dict[str, object]:
    """The "advice" of a diagnosis and the "decision" of an incident."""
    return {
        "remedy": decision.remedy.value,
        "changes": [change_document(change) for change in decision.changes],
        "useless": [{"setting": one.setting, "why": one.why} for one in decision.useless],
        "price": None if decision.price is None else price_document(decision.price),
        "reason": decision.reason,
        "arithmetic": list(decision.arithmetic),
        "options": list(decision.options),
        "delay_seconds": decision.delay_seconds,
    }


def change_document(change: Change) -> dict[str, object]:
    """``before`` and ``after`` are called from and to outside Python."""
    return {"setting": change.setting, "from": change.before, "to": change.after}


def price_document(price: Price) -> dict[str, object]:
    return {field.name: getattr(price, field.name) for field in fields(price)}
