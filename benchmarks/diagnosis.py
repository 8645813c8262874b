"""``python -m benchmarks.diagnosis``: how often the diagnosis and its advice are right.

Measured on logs that nobody wrote for this program (tests/corpus), in the same way as `diagnose`
reads a file; prints the table and writes docs/benchmarks/diagnosis.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.diagnosis_judge import Label, Marks, judge
from vllm_warden.adapters.log_source.file import open_log
from vllm_warden.core.decide.advice import advise
from vllm_warden.core.diagnose.document import document
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.whole_log import diagnosed_runs
from vllm_warden.core.model import Failure, SettingValue

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests/corpus"
PAGE = ROOT / "docs/benchmarks/diagnosis.md"
REVIEWED = CORPUS / "reviewed.toml"
F1_LIMITS = {"captured": 0.99, "public": 0.93}
USEFUL_LIMIT = 0.95


@dataclass(frozen=True, slots=True)
class Answer:
    """One log, what was said of it, and what that is worth. ``told``: settings were known."""

    name: str
    label: Label
    found: dict[str, object]
    remedy: str
    told: bool
    marks: Marks
    seconds: float


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of one set of logs."""

    name: str
    logs: int
    f1: float
    classes: dict[str, float]
    phase: Counter[str]
    site: Counter[str]
    figures: tuple[int, int, int]
    harmful: int
    useful: tuple[int, int]
    slowest_seconds: float

    @property
    def useful_fraction(self) -> float:
        good, of = self.useful
        return good / of if of else 1.0


def sets() -> dict[str, Path]:
    return {"captured": CORPUS / "captured", "public": CORPUS}


def answers(directory: Path) -> list[Answer]:
    """Every labelled log of a directory, in the order of its labels."""
    lines = (directory / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    return [_answer(directory, json.loads(line)) for line in lines]


def _answer(directory: Path, label: dict[str, object]) -> Answer:
    name = str(label["id"])
    begin = time.perf_counter()
    log = open_log(str(directory / f"{name}.log"))
    *_, run = diagnosed_runs(log, Evidence(()), _given(label))
    failed = run.diagnosis.failure is not Failure.NONE
    decision = advise(run.diagnosis, run.evidence) if failed else None
    seconds = time.perf_counter() - begin
    found = document(run.diagnosis)
    return Answer(
        name=name,
        label=label,
        found=found,
        remedy=decision.remedy.value if decision else "none",
        told=bool(run.evidence.settings),
        marks=judge(label, found, decision),
        seconds=seconds,
    )


def _given(label: Label) -> dict[str, SettingValue]:
    """Settings that the label knows of the run, as a person would give them with --engine."""
    settings = label.get("settings") or {}
    assert isinstance(settings, dict)
    return {name: value for name, value in settings.items() if name != "model"}


def score(name: str, found: Sequence[Answer]) -> Score:
    marks = [one.marks for one in found]
    classes = f1_of_classes((one.truth, one.said) for one in marks)
    judged = [one.marks.useful for one in found if one.marks.useful is not None and one.told]
    return Score(
        name=name,
        logs=len(found),
        f1=sum(classes.values()) / len(classes),
        classes=classes,
        phase=Counter(one.phase for one in marks if one.phase),
        site=Counter(one.site for one in marks if one.site),
        figures=tuple(map(sum, zip(*(one.figures for one in marks), strict=True))),  # type: ignore[arg-type]
        harmful=sum(one.harm is not None for one in marks),
        useful=(sum(judged), len(judged)),
        slowest_seconds=max(one.seconds for one in found),
    )


def f1_of_classes(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """2TP / (2TP + FP + FN) of each class that a label names, from (truth, said)."""
    hits: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for truth, said in pairs:
        if truth == said:
            hits[truth] += 1
        else:
            misses[truth] += 1
            wrong[said] += 1
    return {
        name: 2 * hits[name] / (2 * hits[name] + wrong[name] + misses[name])
        for name in sorted(hits.keys() | misses.keys())
    }


def reviewed() -> dict[str, dict[str, str]]:
    """Why each miss is one: ``kind`` (text, label or open) and ``why``, by set/log."""
    with REVIEWED.open("rb") as file:
        return tomllib.load(file)


def misses(name: str, found: Sequence[Answer]) -> dict[str, str]:
    """What differs from its label, by set/log: wanted, and got."""
    return {f"{name}/{one.name}": _difference(one) for one in found if _is_miss(one)}


def _is_miss(one: Answer) -> bool:
    marks = one.marks
    useless = marks.useful is False and one.told
    absent = "absent" in (marks.phase, marks.site)
    return not marks.is_right or absent or marks.harm is not None or useless


def _difference(one: Answer) -> str:
    names = ("failure", "phase", "site")
    want = "/".join(str(one.label[name]) for name in names)
    got = "/".join(str(one.found[name]) for name in names)
    notes = [f"by {one.found['signature']}"]
    right, wrong, absent = one.marks.figures
    if wrong or absent:
        notes.append(f"figures {right} right, {wrong} wrong, {absent} absent")
    if one.marks.harm:
        notes.append(f"harmful: {one.marks.harm}")
    if one.marks.useful is False and one.told:
        notes.append(f"of no use: {one.remedy}")
    return f"wanted {want}, got {got} ({'; '.join(notes)})"


def page() -> str:
    """The whole table and every miss with its reason, in Markdown."""
    found = {name: answers(directory) for name, directory in sets().items()}
    scores = [score(name, each) for name, each in found.items()]
    lines = [
        "# How often the diagnosis is right",
        "",
        "Written by `make bench-diagnosis` from the logs in `tests/corpus`; the tests fail where",
        "a limit is missed. Macro-F1 is the mean over the labelled failures of",
        "2TP / (2TP + FP + FN); an `unknown` counts as a miss and as a false `unknown`.",
        "Abstentions are given apart.",
        "",
        *_table(scores),
        "",
        "## F1 of each failure",
        "",
        *_classes(scores),
        "",
        "## Every miss, with its reason",
        "",
        "`text`: the log does not show it. `label`: the label is doubtful. `open`: to be done.",
        "",
        *_reasons({key: text for name in found for key, text in misses(name, found[name]).items()}),
    ]
    return "\n".join(lines) + "\n"


def _table(scores: Sequence[Score]) -> list[str]:
    rows = ["| | " + " | ".join(one.name for one in scores) + " | limit |"]
    rows.append("|---" * (len(scores) + 2) + "|")
    limits = ", ".join(f"{name} {limit}" for name, limit in F1_LIMITS.items())
    cells: tuple[tuple[str, Callable[[Score], str], str], ...] = (
        ("logs", lambda one: str(one.logs), ""),
        ("macro-F1 of failure", lambda one: f"{one.f1:.4f}", f">= {limits}"),
        ("phase: right / wrong / abstained", lambda one: _counted(one.phase), ""),
        ("site: right / wrong / abstained", lambda one: _counted(one.site), ""),
        ("figures: right / wrong / absent", lambda one: " / ".join(map(str, one.figures)), ""),
        ("harmful advice", lambda one: str(one.harmful), "0"),
        (
            "useful advice, where settings are known",
            lambda one: f"{one.useful[0]} of {one.useful[1]}",
            f">= {USEFUL_LIMIT}",
        ),
    )
    rows += [
        f"| {name} | " + " | ".join(show(one) for one in scores) + f" | {limit} |"
        for name, show, limit in cells
    ]
    return rows


def _counted(counts: Counter[str]) -> str:
    return " / ".join(str(counts[name]) for name in ("right", "wrong", "absent"))


def _classes(scores: Sequence[Score]) -> list[str]:
    names = sorted({name for one in scores for name in one.classes})
    rows = ["| failure | " + " | ".join(one.name for one in scores) + " |"]
    rows.append("|---" * (len(scores) + 1) + "|")
    for name in names:
        shown = (f"{one.classes[name]:.3f}" if name in one.classes else "" for one in scores)
        rows.append(f"| {name} | " + " | ".join(shown) + " |")
    return rows


def _reasons(missed: dict[str, str]) -> list[str]:
    known = reviewed()
    rows = ["| log | difference | reason |", "|---|---|---|"]
    for key, difference in missed.items():
        entry = known.get(key)
        reason = f"{entry['kind']}: {entry['why']}" if entry else "not reviewed"
        rows.append(f"| {key} | {difference} | {reason} |")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.diagnosis", description=__doc__)
    parser.add_argument("--no-page", action="store_true", help="print only")
    options = parser.parse_args()
    text = page()
    print(text, end="")
    if not options.no_page:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
