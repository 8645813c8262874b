"""The diagnosis of one run as text: the verdict, its proof, what helps, what to do next."""

from __future__ import annotations

from vllm_warden.cli.render import Style, harmless, size, value, wrapped
from vllm_warden.cli.wording import REMEDIES, failure_in_words, sentence
from vllm_warden.core.decide.decision import Decision, Remedy
from vllm_warden.core.diagnose.diagnosis import Diagnosis, ProofLine
from vllm_warden.core.diagnose.whole_log import DiagnosedRun
from vllm_warden.core.model import Failure
from vllm_warden.core.plan.command_line import option_words, printable

CONSEQUENCES_SHOWN = 3
PROOF_CHARACTERS = 480
"""Six lines of a terminal: torch's message with all its figures takes nine."""
_ATTACH = (
    "the whole log from the first line of that start on, as printed (not a screenshot)",
    "the exact vllm serve line, without its secrets",
    "the output of: vllm collect-env",
    "what the kernel said then: journalctl -k, or dmesg",
)


def verdict(name: str, run: DiagnosedRun, decision: Decision | None, style: Style) -> list[str]:
    """All that is known of this run, for a person."""
    diagnosis = run.diagnosis
    if diagnosis.failure is Failure.NONE and not run.has_records:
        return _no_log(name, run, style)
    words = failure_in_words(diagnosis.failure, diagnosis.phase, diagnosis.site)
    head = f"{harmless(name)}: {sentence(words)}."
    lines = [style.paint(line, "bold") for line in wrapped(head, style, "  ", "")]
    lines += wrapped(diagnosis.summary, style, "  ")
    lines += wrapped(", ".join(_facts(diagnosis)), style, "  ")
    lines += _section("Proof", _proof(diagnosis.evidence, style), style)
    if diagnosis.failure is not Failure.NONE:
        shown = diagnosis.consequences[:CONSEQUENCES_SHOWN]
        lines += _section("Only followed from it", _proof(shown, style), style)
    lines += _section("Figures", _figures(diagnosis, style), style)
    if decision is not None:
        lines += _section("What helps", _helps(decision, style), style)
        lines += _section("What does not help", _useless(decision, style), style)
    if diagnosis.failure is Failure.UNKNOWN:
        lines += _section("Looked at", wrapped(looked_at(run), style, "  "), style)
        lines += _section("To report it, attach", _bullets(_ATTACH, style), style)
    lines += _section("Next", _bullets(_next(diagnosis, decision), style), style)
    return lines


def looked_at(run: DiagnosedRun) -> str:
    """``lines 1 to 812 of a log in docker compose, time stamps; vLLM 0.13.0``."""
    if not run.last_line:
        return "nothing: there is no line"
    words = f"lines {run.first_line} to {run.last_line}"
    if run.around:
        words += f" (taken out of: {', '.join(run.around)})"
    if not run.has_records:
        return f"{words}; none has the form of a record of vLLM's"
    version = run.diagnosis.engine_version
    return f"{words}; " + (f"vLLM {version}" if version else "no line names the version of vLLM")


def _no_log(name: str, run: DiagnosedRun, style: Style) -> list[str]:
    lines = wrapped(f"{name}: no vLLM record recognised", style, "  ", "")
    hint = (
        "vLLM's own lines look like: INFO 11-29 12:00:00 [file.py:12] text. Give what it printed"
        " to standard output and standard error, from its start on"
    )
    return [
        *lines,
        *wrapped(f"looked at {looked_at(run)}", style, "  "),
        *wrapped(hint, style, "  "),
    ]


def _facts(diagnosis: Diagnosis) -> list[str]:
    facts = [] if diagnosis.failure is Failure.NONE else [f"confidence {diagnosis.confidence}"]
    if diagnosis.engine_version:
        facts.append(f"vLLM {diagnosis.engine_version}")
    facts += [f"rank {rank}" for rank in diagnosis.ranks]
    facts += [f"GPU {gpu} as the engine sees it" for gpu in diagnosis.gpus]
    if diagnosis.signature:
        facts.append(f"signature {diagnosis.signature}")
    return facts


def _proof(proofs: tuple[ProofLine, ...], style: Style) -> list[str]:
    lines = []
    for proof in proofs:
        text = harmless(proof.text)
        if len(text) > PROOF_CHARACTERS:
            text = f"{text[:PROOF_CHARACTERS]} [...]"
        number = f"  {proof.line:>5}| " if proof.line else "       | "
        lines += wrapped(text, style, " " * len(number), number)
    return lines


def _figures(diagnosis: Diagnosis, style: Style) -> list[str]:
    lines = []
    for figure, number in diagnosis.figures.items():
        if figure == "other_processes" and isinstance(number, str):
            number = _processes(number)  # noqa: PLW2901 -- the same figure, for a person
        is_size = figure.endswith("_bytes") and isinstance(number, int | float)
        shown = size(float(number)) if is_size else number
        lines += wrapped(f"{figure} = {shown}", style, "    ", "  ")
    return lines


def _processes(pairs: str) -> str:
    """The core's "pid:bytes pid:bytes" in words."""
    parts = (pair.partition(":") for pair in pairs.split())
    return ", ".join(f"process {pid}: {size(int(held))}" for pid, _, held in parts)


def _helps(decision: Decision, style: Style) -> list[str]:
    remedy = REMEDIES[decision.remedy.value]
    lines = wrapped(f"{sentence(remedy)}: {decision.reason}", style, "  ")
    for change in decision.changes:
        moved = f"{change.setting}: {value(change.before)} -> {value(change.after)}"
        lines += wrapped(moved, style, "      ", "    ")
    if decision.price is not None and decision.price.note:
        lines += wrapped(f"price: {decision.price.note}", style, "  ")
    changed = [change.setting for change in decision.changes]
    for option in decision.options:
        if any(setting in option for setting in changed):
            continue  # said above, with its value
        lines += wrapped(option, style, "    ", "  or ")
    return lines


def _useless(decision: Decision, style: Style) -> list[str]:
    lines = []
    for one in decision.useless:
        lines += wrapped(f"{one.setting}: {one.why}", style, "    ", "  - ")
    return lines


def _next(diagnosis: Diagnosis, decision: Decision | None) -> list[str]:
    if diagnosis.failure is Failure.NONE or decision is None:
        return []
    steps = []
    if decision.remedy is Remedy.RELAUNCH_WITH:
        words = [
            word
            for change in decision.changes
            if change.after is not None
            for word in option_words(change.setting, change.after, frozenset())
        ]
        steps.append(f"start it again with: {printable(words)}")
    elif decision.remedy in (Remedy.RELAUNCH, Remedy.WAIT):
        steps.append("start it again with the same vllm serve line")
    if diagnosis.failure is not Failure.UNKNOWN:
        steps.append(f"all about this failure: vllm-warden explain {diagnosis.failure}")
    if decision.remedy not in (Remedy.GIVE_UP, Remedy.NONE):
        steps.append("to have this done by itself: vllm-warden serve MODEL [your arguments]")
    return steps


def _section(title: str, lines: list[str], style: Style) -> list[str]:
    return [style.paint(title, "cyan"), *lines] if lines else []


def _bullets(texts: tuple[str, ...] | list[str], style: Style) -> list[str]:
    return [line for text in texts for line in wrapped(text, style, "    ", "  - ")]
