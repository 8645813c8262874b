"""The picture of the demo: one pure function from what was seen to something rich can draw."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from vllm_warden.api.client import Json
from vllm_warden.cli.demo.state import ORDER, PHASES, Attempt, DemoState, as_number, listed
from vllm_warden.cli.demo.words import (
    arithmetic_words,
    change_words,
    decision_words,
    price_words,
    proof_words,
    reason_words,
    seconds_words,
)
from vllm_warden.cli.render import harmless

GIB = 1 << 30
BAR_CELLS = 36
SPARKS = "▁▂▃▄▅▆▇█"
SPARK_CELLS = 48
WORKER_COLOURS = ("cyan", "blue", "magenta", "green")
TALL = 36
EVENTS_SHOWN = 4
EVENTS_DRAWN_OTHERWISE = frozenset({"phase-entered", "settings-changed"})
NOBODYS_FRACTION = 0.02
"""Less than this is what driver and firmware keep for themselves."""


def frame(state: DemoState, width: int = 100, height: int = TALL) -> RenderableType:
    """The whole picture at this moment; a low terminal gets it without blank and small print."""
    tall = height >= TALL
    gap = [Text("")] if tall else []
    parts: list[RenderableType] = [_headline(), *gap]
    parts += [_attempt(each, state) for each in state.attempts.values()]
    if not state.attempts:
        parts.append(Text("  the daemon is starting", style="dim"))
    parts += [*gap, _gpus(state), _timeline(state)]
    story = _story(state, tall=tall)
    if story.row_count:
        parts += [*gap, story]
    parts += [*gap, *_events(state, EVENTS_SHOWN if tall else 1)]
    title = Text.assemble((" vllm-warden ", "bold"), ("the GPUs are simulated ", "yellow"))
    clock = Text(f" {seconds_words(state.now_seconds)} ", style="dim")
    return Panel(
        Group(*parts),
        title=title,
        subtitle=clock,
        subtitle_align="right",
        border_style="dim",
        width=min(width, 110),
    )


def _headline() -> Text:
    return Text.assemble(
        ("MiniMax-M2.5", "bold"),
        (
            ", 230 GB of weights, on 4 of 8 GPUs; asked for: utilization 0.95, 1024 sequences",
            "dim",
        ),
    )


def _attempt(attempt: Attempt, state: DemoState) -> Text:
    text = Text(no_wrap=True)
    text.append(f"attempt {attempt.number}  ", "bold")
    here = ORDER[attempt.phase]
    for place, (_, label) in enumerate(PHASES):
        if place < here or (place == here and attempt.ready_seconds is not None):
            text.append(f"✔ {label}  " if place == here else "✔ ", "green")
        elif place > here:
            text.append("· ", "dim")
        elif attempt.ended_seconds is not None:
            text.append(f"✘ {label}  ", "bold red")
        else:
            text.append(f"{_spinner(state.now_seconds)} {label}  ", "bold yellow")
    text.append(_outcome(attempt, state), "dim")
    return text


def _outcome(attempt: Attempt, state: DemoState) -> str:
    if attempt.ended_seconds is not None:
        return f"died after {seconds_words(attempt.ended_seconds - attempt.began_seconds)}"
    if attempt.ready_seconds is not None:
        return f"ready after {seconds_words(attempt.ready_seconds - attempt.began_seconds)}"
    return seconds_words(state.now_seconds - attempt.began_seconds)


def _spinner(now_seconds: float) -> str:
    return "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(now_seconds * 10) % 10]


def _gpus(state: DemoState) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    idle: list[int] = []
    for gpu in state.gpus:
        index = int(as_number(gpu.get("index")))
        if index not in state.used_by_instance and not listed(gpu, "holders"):
            idle.append(index)
            continue
        owner = _owner(state, gpu, index)
        table.add_row(f"GPU {index}", _bar(gpu, index, owner), _amount(gpu), _who(gpu, owner))
    if idle:
        span = f"{idle[0]}-{idle[-1]}" if len(idle) > 1 else str(idle[0])
        table.add_row(Text(f"GPU {span}", style="dim"), Text("idle", style="dim"), "", "")
    return table


def _owner(state: DemoState, gpu: Json, index: int) -> str:
    """Who holds the memory; the daemon names holders of a GPU only when it looked for them."""
    if holders := listed(gpu, "holders"):
        return ", ".join(f"{each.get('command')} ({each.get('pid')})" for each in holders)
    if index in state.used_by_instance:
        rank = f"TP{state.used_by_instance.index(index)}"
        for pid, title in state.processes.items():
            if str(title).endswith(rank):
                return f"{title} ({pid})"
    return ""


def _used_fraction(gpu: Json) -> float:
    total = as_number(gpu.get("total_bytes"))
    return 1 - as_number(gpu.get("free_bytes")) / total if total else 0.0


def _bar(gpu: Json, index: int, owner: str) -> Text:
    if gpu.get("error"):
        return Text(f"unknown: {harmless(str(gpu['error']))}", style="red")
    filled = round(_used_fraction(gpu) * BAR_CELLS)
    colour = WORKER_COLOURS[index % len(WORKER_COLOURS)] if owner else "yellow"
    return Text.assemble(
        (("█" if owner else "▒") * filled, colour), ("─" * (BAR_CELLS - filled), "dim")
    )


def _amount(gpu: Json) -> Text:
    total = as_number(gpu.get("total_bytes"))
    used = total - as_number(gpu.get("free_bytes"))
    return Text(f"{used / GIB:5.1f} of {total / GIB:.1f} GiB")


def _who(gpu: Json, owner: str) -> Text:
    if owner:
        return Text(harmless(owner), style="dim", overflow="ellipsis", no_wrap=True)
    if _used_fraction(gpu) > NOBODYS_FRACTION:
        return Text("owner dead, driver gives it back", style="yellow")
    return Text("free", style="dim")


def _timeline(state: DemoState) -> Text:
    """Use of the fullest GPU since the attempt began, squeezed into one line."""
    uses = [used for _, used in state.timeline]
    total = max((as_number(gpu.get("total_bytes")) for gpu in state.gpus), default=0.0)
    if not uses or not total:
        return Text("")
    step = max(1, -(-len(uses) // SPARK_CELLS))
    peaks = [max(uses[at : at + step]) for at in range(0, len(uses), step)]
    line = "".join(SPARKS[min(7, int(peak / total * 7.999))] for peak in peaks)
    return Text.assemble(("memory ", "dim"), (line, "cyan"), (" of this attempt", "dim"))


def _story(state: DemoState, *, tall: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = (
        ("why", Text(reason_words(state), style="red")),
        ("proof", Text(proof_words(state), style="dim")),
        ("decision", Text(decision_words(state))),
        ("change", Text(change_words(state), style="bold cyan")),
        ("reckoning", Text(arithmetic_words(state) if tall else "", style="dim")),
        ("price", Text(price_words(state))),
        ("gate", Text(_gate(state), style="yellow" if state.gate else "")),
        ("answer", Text(state.completion or "", style="green")),
    )
    for name, text in rows:
        if text.plain:
            table.add_row(name, text)
    if state.state in {"held", "failed"}:
        table.add_row(state.state, Text(harmless(state.reason), style="red"))
    return table


def _gate(state: DemoState) -> str:
    if state.gate:
        waited = seconds_words(state.gate_wait_seconds)
        return f"closed for {waited}: {harmless(state.gate)}"
    if state.gate_waits:
        waited = seconds_words(state.gate_wait_seconds)
        return f"opened after {waited}, when the memory was really back"
    return ""


def _events(state: DemoState, number: int) -> list[RenderableType]:
    told = [each for each in state.events if each[1] not in EVENTS_DRAWN_OTHERWISE]
    shown = told[-number:]
    lines: list[RenderableType] = []
    for at, kind, text in shown:
        line = Text(f"{at:5.1f} s  {kind}: {harmless(text)}", style="dim", no_wrap=True)
        line.overflow = "ellipsis"
        lines.append(Padding(line, (0, 0)))
    return lines
