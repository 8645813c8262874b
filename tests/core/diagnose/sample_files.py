"""Reads sample logs: a header of ``#: key = value`` lines, then the log as it was printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vllm_warden.core.diagnose.evidence import Evidence, LogRecord, LostProcess
from vllm_warden.core.diagnose.runs import runs
from vllm_warden.core.model import Phase

SAMPLES = Path(__file__).parents[2] / "samples"
CORPUS = Path(__file__).parents[2] / "corpus"
CAPTURED = CORPUS / "captured"


@dataclass(frozen=True)
class Sample:
    folder: str
    name: str
    header: dict[str, str]
    lines: tuple[str, ...]

    def expected(self) -> tuple[str, str | None, str | None]:
        return self.header["failure"], self.header.get("phase"), self.header.get("site")

    def evidence(self) -> Evidence:
        """A bare log, with what the header says was counted or observed beside it."""
        header = self.header
        lost = header["lost"].split(" ") if "lost" in header else None
        return Evidence(
            records=tuple(LogRecord(number, text) for number, text in enumerate(self.lines, 1)),
            exit_status=int(header["exit_status"]) if "supervised" in header else None,
            reached=Phase(header["reached"]) if "reached" in header else None,
            was_ready=header.get("reached") == "serving",
            oom_kills=int(header.get("oom_kills", "0")),
            kernel_lines=(header["kernel"],) if "kernel" in header else (),
            lost_processes=(LostProcess(int(lost[0]), lost[1], int(lost[2])),) if lost else (),
            note=header.get("note"),
        )


def load(path: Path) -> Sample:
    header: dict[str, str] = {}
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith("#: ") and not lines:
            key, _, value = line[3:].partition(" = ")
            header[key] = value
        else:
            lines.append(line)
    return Sample(path.parent.name, path.stem, header, tuple(lines))


def all_samples() -> list[Sample]:
    return [load(path) for path in sorted(SAMPLES.glob("*/*.log"))]


def records(*lines: str) -> tuple[LogRecord, ...]:
    return tuple(LogRecord(number, text) for number, text in enumerate(lines, 1))


def last_run(log: Iterable[LogRecord]) -> tuple[list[LogRecord], int]:
    """The records of the last run in a log, and how many it holds."""
    count, last = 0, []
    for count, run in enumerate(runs(log), 1):  # noqa: B007
        last = list(run)
    return last, count
