"""Times crash to decision: from the engine's last log line to what the daemon decided."""

from __future__ import annotations

import re
import time
from pathlib import Path

from benchmarks import engine as engines
from benchmarks.table import Row
from benchmarks.warden import INSTANCE, Scene, Warden, running

CAPTURED = Path(__file__).parents[1] / "tests/corpus/captured/0.9.2/26-oom-load-tp2-rank1.log"
LINES = 2000
BUDGET_MILLISECONDS = 100.0
LIMIT_SECONDS = 20.0
RANK = re.compile(r"(rank=)1\b|(pid=)(\d+)")


def measure(directory: Path, log_backend: str, rounds: int) -> list[Row]:
    """One death after another of an engine that prints 2,000 lines in one go and exits 1."""
    engine = engines.build(directory / "engine")
    replay = directory / "engine" / "replay.log"
    replay.write_text(long_crash(CAPTURED.read_text()))
    scene = Scene(
        directory,
        log_backend,
        engine.program,
        environment=engine.environment(replay),
        # Budgets and delays only pace the rounds; every decision is made as usual.
        restart={
            "startup_failures_max": 100_000,
            "unchanged_repeats_max": 100_000,
            "backoff_first_seconds": 0.2,
            "backoff_max_seconds": 0.2,
        },
    )
    with running(scene) as warden:
        decided = _decisions(warden, rounds)
    ended = [at / 1e9 for _, at in engine.end_stamps()]
    values = [
        (decision - end) * 1000 for decision, end in zip(decided[1:], ended[1:], strict=False)
    ]
    note = f"{LINES} lines written at once; the first of {len(decided)} rounds is left out"
    return [Row("crash to decision", "ms", tuple(values), BUDGET_MILLISECONDS, note)]


def long_crash(captured: str) -> str:
    """A captured tensor-parallel crash with its traceback printed by more and more ranks.

    The lines of rank 1 are repeated for higher ranks until the log has its 2,000 lines.
    """
    lines = captured.splitlines()
    ranks = [line for line in lines if "rank=1 " in line and "ERROR" in line]
    if not ranks:
        raise ValueError("the captured log has no traceback of rank 1")
    last = max(at for at, line in enumerate(lines) if line in set(ranks)) + 1
    extra: list[str] = []
    rank = 2
    while len(lines) + len(extra) < LINES:
        extra += [_of_rank(line, rank) for line in ranks]
        rank += 1
    extra = extra[: LINES - len(lines)]
    return "\n".join([*lines[:last], *extra, *lines[last:]]) + "\n"


def _of_rank(line: str, rank: int) -> str:
    return RANK.sub(
        lambda found: f"rank={rank}" if found[1] else f"pid={int(found[3]) + rank}", line
    )


def _decisions(warden: Warden, rounds: int) -> list[float]:
    """Wall time of the decisions; an instance that is held is started again."""
    deadline = time.monotonic() + LIMIT_SECONDS + 3 * rounds
    warden.wait_for_state("diagnosing", "backoff", "held", "failed", "starting", "waiting")
    while time.monotonic() < deadline:
        decided = [float(str(one["at"])) for one in warden.events() if _is_decision(one)]
        if len(decided) > rounds:
            return decided
        if warden.instance()["state"] in {"held", "failed"}:
            warden.client.post(f"/v1/instances/{INSTANCE}/start")
        time.sleep(0.5)
    raise TimeoutError(f"fewer than {rounds} decisions")


def _is_decision(event: dict[str, object]) -> bool:
    return event["event"] == "decision-made"
