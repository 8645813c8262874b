"""Diagnoses a corpus of labelled logs and prints how often failure, phase and site are right.

Usage: python benchmarks/diagnosis_accuracy.py DIRECTORY [--misses]

DIRECTORY holds labels.jsonl (id, failure, phase, site, alternatives) and ID.log; folders below it
with a labels.jsonl of their own are taken as further sets. A phase or site that the label leaves
open (null) counts as right, and so does any of the label's alternatives.
"""

import json
import sys
import time
from pathlib import Path

from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord

MEMORY = {"gpu_out_of_memory", "host_out_of_memory", "kv_cache_too_small", "gpu_memory_taken"}


def load(path):
    text = path.read_bytes().decode("utf-8", "replace")
    lines = text.split("\n")
    return Evidence(tuple(LogRecord(number, line) for number, line in enumerate(lines, 1)))


def judge(label, found):
    wanted = [label, *({**label, **other} for other in label.get("alternatives") or [])]
    failure = any(found.failure == one["failure"] for one in wanted)
    right = [one for one in wanted if found.failure == one["failure"]]
    phase = any(one["phase"] in (None, found.phase) for one in right)
    site = any(one["site"] in (None, found.site) for one in right)
    return failure, phase, site


def score_figures(label, found):
    wanted = {k: v for k, v in (label.get("figures") or {}).items() if k not in UNTOLD}
    return sum(near(found.figures.get(k), v) for k, v in wanted.items()), len(wanted)


UNTOLD = {"signal", "rank", "other_processes"}


def near(found, wanted):
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return abs(found - wanted) <= abs(wanted) * 1e-6 + 1
    return found == wanted


def run(directory, show):
    labels = [json.loads(line) for line in (directory / "labels.jsonl").read_text().splitlines()]
    totals = [0, 0, 0]
    figures = [0, 0]
    harmful = 0
    slowest = 0.0
    for label in labels:
        evidence = load(directory / f"{label['id']}.log")
        begin = time.perf_counter()
        found = diagnose(evidence)
        slowest = max(slowest, time.perf_counter() - begin)
        verdict = judge(label, found)
        totals = [total + ok for total, ok in zip(totals, verdict, strict=True)]
        right, of = score_figures(label, found)
        figures = [figures[0] + right, figures[1] + of]
        memory = found.failure in MEMORY
        harmful += memory and not all(verdict)
        if show and (not all(verdict) or right < of):
            want = f"{label['failure']}/{label['phase']}/{label['site']}"
            got = f"{found.failure}/{found.phase}/{found.site} ({found.signature})"
            print(f"  {label['id']}: want {want} got {got} figures {right}/{of} | {found.summary}")
    count = len(labels)
    named = zip(("failure", "phase", "site"), totals, strict=True)
    shares = ", ".join(f"{name} {100 * total / count:.1f} %" for name, total in named)
    print(
        f"{directory.name}: {count} logs, {shares}, figures {figures[0]}/{figures[1]}, "
        f"harmful {harmful}, slowest {1000 * slowest:.1f} ms"
    )


def main():
    root = Path(sys.argv[1])
    for labels in sorted(root.rglob("labels.jsonl")):
        run(labels.parent, "--misses" in sys.argv)


if __name__ == "__main__":
    main()
