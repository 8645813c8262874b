"""``python -m benchmarks``: measures every budget in one run and prints one table.

The exit status says nothing about the figures: a busy machine is no bug.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks import adoption, crash, gate, relaunch, rest, scale
from benchmarks.table import Row, document, render

RIG = Path(__file__).parents[1] / "tests/rigs/journald.sh"
JOURNALD = Path("/lib/systemd/systemd-journald")
PARTS = ("crash", "relaunch", "gate", "adoption", "rest", "scale")


def main() -> int:
    options = _options()
    if options.log_backend is None:
        options.log_backend = _choose_backend()
    conditions = _conditions(options.log_backend)
    print("\n".join(conditions), flush=True)
    rows: list[Row] = []
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        for part in options.only or PARTS:
            print(f"measuring: {part}", flush=True)
            rows += _measure(part, directory / part, options)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(render(rows))
    if options.json is not None:
        options.json.write_text(document(rows, conditions))
    return 0


def _measure(part: str, directory: Path, options: argparse.Namespace) -> list[Row]:
    if part == "crash":
        return crash.measure(directory, options.log_backend, options.rounds)
    if part == "relaunch":
        return relaunch.measure(directory, options.log_backend, options.rounds)
    if part == "gate":
        return gate.measure(directory, options.log_backend, options.rounds)
    if part == "scale":
        return scale.measure(directory, options.log_backend, options.seconds)
    if part == "adoption":
        return adoption.measure(directory, options.log_backend, options.rounds)
    return rest.measure(directory, options.log_backend, options.seconds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measures the budgets.")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be repeated")
    parser.add_argument("--rounds", type=int, default=15, help="crashes and kills each [15]")
    parser.add_argument("--seconds", type=float, default=60.0, help="at rest [60]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every value, as JSON")
    parser.add_argument("--log-backend", choices=("journal", "file"), help=argparse.SUPPRESS)
    return parser.parse_args()


def _choose_backend() -> str:
    """The default, the journal: in a private journald, which this process becomes a child of."""
    if os.geteuid() == 0 and JOURNALD.exists() and shutil.which("unshare"):
        sys.stdout.flush()
        words = ["bash", str(RIG), sys.executable, "-m", "benchmarks", *sys.argv[1:]]
        os.execvp("bash", [*words, "--log-backend", "journal"])
    print('no private journald here (needs root and systemd-journald): log_backend = "file"')
    return "file"


def _conditions(log_backend: str) -> list[str]:
    model = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    versions = f"Linux {platform.release()}, Python {platform.python_version()}"
    return [
        f"{os.cpu_count()} x {model}, {versions}, load {load}",
        f'log_backend = "{log_backend}"',
    ]


if __name__ == "__main__":
    sys.exit(main())
