"""``vllm-warden status`` as text: what needs a person first, 80 columns, no scrolling."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vllm_warden.cli.render import (
    GIB,
    Style,
    bar,
    columns,
    cut,
    duration,
    harmless,
    ranges,
    size,
    value,
    wrapped,
)
from vllm_warden.cli.wording import PHASES, failure_in_words

if TYPE_CHECKING:  # building the TypedDicts costs milliseconds that `status` can do without
    from vllm_warden.api.schema import (
        GpuDocument,
        InstanceDocument,
        StatusDocument,
        TrialDocument,
    )

_LOOKS = {
    "ready": "green",
    "held": "red",
    "failed": "red",
    "unready": "red",
    "stopped": "dim",
}
_LABEL = 10


def overview(document: StatusDocument, now: float, style: Style) -> list[str]:
    """All lines; instances that do not serve as asked come first."""
    lines = [style.paint(_headline(document, now), "bold")]
    lines += condition_lines(document, style)
    for instance in sorted(document["instances"], key=urgency):
        lines += ["", *instance_lines(instance, now, style)]
    if document["gpus_problem"]:
        lines += ["", *wrapped(f"GPUs: {document['gpus_problem']}", style, "  ", "")]
    if document["gpus"]:
        lines += ["", *gpu_lines(document["gpus"], style)]
    return lines


def condition_lines(document: StatusDocument, style: Style) -> list[str]:
    """What is wrong with the daemon itself, one item each."""
    return [
        line
        for condition in document["daemon"]["conditions"]
        for line in wrapped(condition, style, "  ", "! ")
    ]


def urgency(instance: InstanceDocument) -> tuple[int, str]:
    """Sort key: stuck, on the way, degraded, healthy, stopped on purpose."""
    state = instance["state"]
    if state in ("held", "failed"):
        rank = 0
    elif state == "ready":
        rank = 2 if instance["degraded"] else 3
    else:
        rank = 4 if state == "stopped" and instance["wanted"] == "stopped" else 1
    return rank, instance["name"]


def instance_lines(instance: InstanceDocument, now: float, style: Style) -> list[str]:
    lines = _title(instance, now, style)
    if instance["reason"]:
        lines += _labelled("why", instance["reason"], style)
    if next_try := next_try_in_words(instance, now):
        lines += _labelled("next try", next_try, style)
    if instance["wanted"] == "held" and instance["state"] != "held":
        lines += _labelled("hold", "it will not be relaunched when it ends", style)
    if gate := instance["gate"]:
        waiting = f" (for {duration(now - gate['since'])})" if gate["since"] else ""
        lines += _labelled("gate", gate["text"] + waiting, style)
    if foreseen := instance.get("foreseen"):
        lines += _labelled("warning", foreseen["text"], style)
    lines += setting_lines(instance, style)
    if trial := instance.get("trial"):
        lines += _labelled("trial", trial_in_words(trial), style)
    if reasons := instance.get("retry_promising"):
        lines += _labelled("retry", retry_in_words(reasons, instance["name"]), style)
    if last := instance["last_incident"]:
        words = failure_in_words(last["failure"], last["phase"], last["site"])
        ago = duration(now - last["at"])
        lines += _labelled("incident", f"#{last['number']} {ago} ago: {words}", style)
    if instance["restart_pending"]:
        lines += _labelled("pending", "the configuration changed; restart to use it", style)
    if instance["state"] in ("held", "failed"):
        lines += _labelled("more", f"vllm-warden why {instance['name']}", style)
    return lines


def trial_in_words(trial: TrialDocument) -> str:
    """What is tried, for whom."""
    asked = trial["kind"] == "retry-capacity"
    what = "the asked settings" if asked else "settings given for one launch"
    return f"{what}, for {trial['by']}; back to the learned ones if it does not last"


def retry_in_words(reasons: list[str], name: str) -> str:
    """Why lost capacity may be had again, and how."""
    why = "; ".join(reasons)
    return f"the asked settings may work by now: {why}. vllm-warden restart {name} --retry-capacity"


def next_try_in_words(instance: InstanceDocument, now: float) -> str:
    """When an instance in backoff is launched again; empty where that is not known."""
    at = instance.get("next_try")
    if instance["state"] != "backoff" or at is None:
        return ""
    clock = time.strftime("%H:%M:%S", time.localtime(at))
    return f"in {duration(at - now)}, at {clock}"


def setting_lines(instance: InstanceDocument, style: Style) -> list[str]:
    """Settings in force that differ from the asked ones, each with its why."""
    changed = [each for each in instance["settings"] if each["asked"] != each["in_force"]]
    rows = [
        (
            "settings" if index == 0 else "",
            each["name"],
            f"{cut(value(each['asked']), 24)} -> {cut(value(each['in_force']), 24)}",
        )
        for index, each in enumerate(changed)
    ]
    lines = []
    for row, each in zip(columns(rows, "  "), changed, strict=True):
        why = f"  {harmless(each['why'])}" if each["why"] else ""
        if len(row) + len(why) <= style.width:
            lines.append(row + why)
        else:
            lines.append(cut(row, style.width))
            lines += wrapped(each["why"], style, " " * (_LABEL + 4))
    return lines


def gpu_lines(gpus: list[GpuDocument], style: Style) -> list[str]:
    rows = [("GPU", "used", "of", "", "for")]
    for gpu in gpus:
        total, used = gpu["total_bytes"], gpu["total_bytes"] - gpu["free_bytes"]
        if gpu["error"]:
            rows.append((f"{gpu['index']:>3}", "unknown", "", "", harmless(gpu["error"])))
            continue
        figures = (f"{used / GIB:.1f}", f"{total / GIB:.1f} GiB")
        meter = bar(used / total if total else 0, 12)
        rows.append((f"{gpu['index']:>3}", *figures, meter, _users(gpu)))
    return [cut(line, style.width) for line in columns(rows)]


def _headline(document: StatusDocument, now: float) -> str:
    counts: dict[str, int] = {}
    for instance in sorted(document["instances"], key=urgency):
        counts[instance["state"]] = counts.get(instance["state"], 0) + 1
    daemon = document["daemon"]
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    return (
        f"vllm-warden {daemon['version']}, up {duration(now - daemon['since'])}: "
        f"{states or 'no instances'}"
    )


def _title(instance: InstanceDocument, now: float, style: Style) -> list[str]:
    state = instance["state"]
    look = "yellow" if instance["degraded"] and state == "ready" else _LOOKS.get(state, "yellow")
    text = state + (" (degraded)" if instance["degraded"] else "")
    parts = []
    if instance["since"] is not None:
        parts.append(f"for {duration(now - instance['since'])}")
    if state in ("starting", "unready") and instance["phase"]:
        parts.append(PHASES.get(instance["phase"], instance["phase"]))
    if instance["attempt"]:
        parts.append(f"attempt {instance['attempt']}")
    if state != "stopped" and instance["wanted"] == "stopped":
        parts.append("wanted: stopped")
    name, details = instance["name"], ", ".join(parts)
    painted = f"{style.paint(name, 'bold')}  {style.paint(text, look)} {details}".rstrip()
    lines = [painted]
    if len(f"{name}  {text} {details}") > style.width:
        lines = [f"{style.paint(name, 'bold')}  {style.paint(text, look)}"]
        lines += wrapped(details, style, "  ")
    if not instance["gpus"]:
        return lines
    return [*lines, *_labelled("GPUs", ranges(instance["gpus"]) + _memory(instance), style)]


def _memory(instance: InstanceDocument) -> str:
    used = instance["memory"]["used_bytes"]
    if not used:
        return ""
    least, most = min(used.values()), max(used.values())
    if size(least) == size(most):
        return f", {size(most)} used{' on each' if len(used) > 1 else ''}"
    return f", {size(least)} to {size(most)} used on each"


def _labelled(label: str, text: str, style: Style) -> list[str]:
    return wrapped(text, style, " " * (_LABEL + 2), f"  {label.ljust(_LABEL)}")


def _users(gpu: GpuDocument) -> str:
    foreign = [
        f"{harmless(each['user'])}: {harmless(each['command']).split(' ')[0]} (pid {each['pid']}"
        + (f", {size(each['used_bytes'])})" if each["used_bytes"] is not None else ")")
        for each in gpu["holders"]
        if not each["ours"]
    ]
    return ", ".join([*gpu["instances"], *foreign])
