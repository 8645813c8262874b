"""Judges one answer of the diagnosis against the label of its log: parts, figures, advice.

Advice is judged by the label, not by the diagnosis it came from. Harmful is advice that changes a
knob for a failure that none cures, raises the utilization after the KV cache exists, moves it
alone for an out-of-memory during profiling, lowers it where the KV cache is too small, or gives up
on what a relaunch or a knob cures. Useful is a relaunch with the right knob in the right direction,
or waiting, for a memory failure that a knob can cure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vllm_warden.core.decide.decision import Change, Decision, Remedy

Label = Mapping[str, object]

NOT_PRINTED = frozenset({"signal", "rank", "ranks"})
"""Figures known to who made the log; most logs do not tell."""
AFTER_KV = frozenset({"kv_alloc", "kernels", "cudagraph", "warmup", "serving", "shutdown"})
BEFORE_PROFILE = frozenset({"args", "download", "init_device", "load"})
MEMORY = frozenset({"gpu_out_of_memory", "host_out_of_memory", "kv_cache_too_small"})
HOPELESS = frozenset(
    {
        "none",
        "configuration_invalid",
        "parallelism_invalid",
        "model_unsupported",
        "model_unavailable",
        "dependency_mismatch",
        "kernel_failure",
        "shared_memory_too_small",
        "gpu_fault",
    }
)
"""Failures that neither a relaunch nor a knob of the warden's cures: giving up is no harm."""
UTILIZATION = "gpu_memory_utilization"
SMALLER_BATCH = ("max_num_batched_tokens", "max_num_seqs")


@dataclass(frozen=True, slots=True)
class Marks:
    """What one answer got: each part "right", "wrong" or "absent" (an abstention), or None.

    None means that the label leaves the part open. ``truth`` and ``said`` are the failures for
    F1; an accepted alternative counts as the label's own failure.
    """

    truth: str
    said: str
    phase: str | None
    site: str | None
    figures: tuple[int, int, int]
    harm: str | None
    useful: bool | None

    @property
    def is_right(self) -> bool:
        _right, wrong, absent = self.figures
        parts = (self.phase, self.site)
        return self.truth == self.said and "wrong" not in parts and wrong == absent == 0


def accepted(label: Label) -> list[dict[str, object]]:
    """The label and its alternatives; what an alternative does not name is as in the label."""
    others = label.get("alternatives") or []
    assert isinstance(others, list)
    return [dict(label), *({**label, **other} for other in others)]


def judge(label: Label, found: Mapping[str, object], decision: Decision | None) -> Marks:
    """``found`` is the JSON document of the diagnosis; no decision means that nothing failed."""
    readings = accepted(label)
    matching = [one for one in readings if one["failure"] == found["failure"]]
    truth = str(label["failure"])
    return Marks(
        truth=truth,
        said=truth if matching else str(found["failure"]),
        phase=_part("phase", matching or readings, found),
        site=_part("site", matching or readings, found),
        figures=_figures(label, found),
        harm=_harm(matching or readings[:1], decision),
        useful=_useful(matching or readings[:1], decision),
    )


def _part(name: str, readings: Sequence[Label], found: Mapping[str, object]) -> str | None:
    if found["failure"] == "none":
        return None
    wanted = {one.get(name) for one in readings}
    if found[name] is None:
        return None if None in wanted else "absent"
    if found[name] in wanted:
        return "right"
    return None if None in wanted else "wrong"


def _figures(label: Label, found: Mapping[str, object]) -> tuple[int, int, int]:
    wanted, printed = label.get("figures") or {}, found["figures"]
    assert isinstance(wanted, dict)
    assert isinstance(printed, dict)
    names = [name for name in wanted if name not in NOT_PRINTED]
    absent = sum(name not in printed for name in names)
    right = sum(_near(printed.get(name), wanted[name]) for name in names)
    return right, len(names) - right - absent, absent


def _near(found: object, wanted: object) -> bool:
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return abs(found - wanted) <= abs(wanted) * 1e-6 + 1
    return found == wanted


def _harm(readings: Sequence[Label], decision: Decision | None) -> str | None:
    """Why the advice is harmful under each accepted reading, None where one bears it."""
    if decision is None:
        return None
    harms = [_harm_under(one, decision) for one in readings]
    return harms[0] if all(harms) else None


def _harm_under(label: Label, decision: Decision) -> str | None:
    if decision.remedy is Remedy.GIVE_UP:
        hopeless = label["failure"] in HOPELESS or _is_weights(label)
        return None if hopeless else "gives up on what a relaunch or a knob cures"
    if decision.remedy is not Remedy.RELAUNCH_WITH:
        return None
    ways = {change.setting: _way(change) for change in decision.changes}
    return next((harm for harm, does in _harms_of_changes(label, ways) if does), None)


def _harms_of_changes(label: Label, ways: Mapping[str, str]) -> tuple[tuple[str, bool], ...]:
    failure, phase, way = label["failure"], label["phase"], ways.get(UTILIZATION)
    lowers_for_neighbour = failure == "gpu_memory_taken" and ways == {UTILIZATION: "down"}
    return (
        (
            "changes a knob for a failure that none cures",
            not curable(label) and not lowers_for_neighbour,
        ),
        (
            "raises the utilization after the KV cache exists",
            phase in AFTER_KV and way == "up",
        ),
        (
            "moves the utilization alone for an out-of-memory during profiling",
            phase == "profile" and set(ways) == {UTILIZATION},
        ),
        (
            "lowers the utilization where the KV cache is too small",
            failure == "kv_cache_too_small" and way == "down",
        ),
    )


def _useful(readings: Sequence[Label], decision: Decision | None) -> bool | None:
    """None where no knob cures the failure; with several readings the best counts."""
    if not curable(readings[0]):
        return None
    return any(_is_useful(one, decision) for one in readings if curable(one))


def _is_useful(label: Label, decision: Decision | None) -> bool:
    if decision is None:
        return False
    if decision.remedy is Remedy.WAIT:
        return label["phase"] in (None, "init_device", "kv_alloc")
    if decision.remedy is not Remedy.RELAUNCH_WITH:
        return False
    helps = _helps(label)
    return any(helps.get(change.setting) == _way(change) for change in decision.changes)


def curable(label: Label) -> bool:
    """Memory that a knob can free: not weights, and of the host only what an allocator refused."""
    failure = label["failure"]
    if failure not in MEMORY or _is_weights(label):
        return False
    return failure != "host_out_of_memory" or label["site"] is not None


def _is_weights(label: Label) -> bool:
    if label["failure"] not in ("gpu_out_of_memory", "host_out_of_memory"):
        return False
    return label["site"] == "weights" or (label["phase"] == "load" and label["site"] is None)


def _helps(label: Label) -> dict[str, str]:
    """Which way each knob has to go for this failure."""
    if label["failure"] == "kv_cache_too_small":
        return {
            UTILIZATION: "up",
            "kv_cache_memory_bytes": "up",
            "max_model_len": "down",
            **dict.fromkeys(SMALLER_BATCH, "down"),
        }
    if label["phase"] in AFTER_KV:
        # Fewer sequences alone give the cache what they free, so only the budget counts.
        return {UTILIZATION: "down", "kv_cache_memory_bytes": "down"}
    if label["site"] in ("sampler", "pooler"):
        return {"max_num_seqs": "down"}
    return dict.fromkeys(SMALLER_BATCH, "down")


def _way(change: Change) -> str:
    before, after = change.before, change.after
    if isinstance(before, int | float) and isinstance(after, int | float):
        return "up" if after > before else "down"
    return "changed"
