"""Makes hostile text out of the catalogue's own samples, and quotes it as vLLM would."""
# ruff: noqa: D403 - vLLM is written so

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from hypothesis import strategies as st

from tests.core.diagnose.sample_files import CORPUS, all_samples, load, records
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.detect import Prints
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.grammar import LogLine, parse
from vllm_warden.core.diagnose.introductions import exception_of
from vllm_warden.core.diagnose.phases import PhaseTracker
from vllm_warden.core.diagnose.signature import Weight
from vllm_warden.core.model import Phase, Role

BASES = (
    "captured/0.9.2/02-healthy-stop",
    "captured/0.9.2/46-no-cache-blocks-gpu",
    "captured/0.9.2/17-sigkill-worker-serving-tp2",
    "captured/0.9.2/25-oom-load",
    "captured/0.9.2/34-oom-warmup-sampler",
    "captured/0.9.2/38-oom-serving",
    "captured/0.9.2/40-illegal-memory-serving",
    "captured/0.13.0/02-healthy-stop",
    "captured/0.13.0/18-sigkill-worker-serving-tp2",
    "captured/0.13.0/30-oom-profile-sampler",
    "captured/0.13.0/39-oom-serving",
    "captured/0.13.0/48-kv-too-small-gpu",
    "captured/0.15.1/03-healthy-stop-tp2",
    "captured/0.15.1/15-sigkill-engine-serving",
    "captured/0.15.1/34-oom-cuda-graphs",
    "captured/0.15.1/41-illegal-memory-serving",
    "captured/0.15.1/45-gpu-memory-taken",
    "captured/0.27.1/02-healthy-stop",
    "captured/0.27.1/25-oom-load",
    "captured/0.27.1/32-oom-kv-tp2-rank1",
    "captured/0.27.1/35-oom-warmup-sampler-tp2",
    "captured/0.27.1/39-oom-serving-tp2-rank0",
    "json/r_json_logs",
    "json/r7_json_crash",
)
"""Healthy and dying logs of four eras, and two in JSON."""


@dataclass(frozen=True)
class Base:
    """One captured log: where it serves, where it dies, and how its API server begins a record."""

    name: str
    lines: tuple[str, ...]
    serving: int
    dying: tuple[int, int]
    tag: str
    core_tag: str
    time: str
    in_json: bool

    @property
    def tagged(self) -> bool:
        return bool(self.tag)


@cache
def base_of(name: str) -> Base:
    if name.startswith("json/"):
        raw = load(CORPUS / "cpu" / f"{name[5:]}.log").lines
        lines = tuple(line[8:] for line in raw if not line.startswith("#"))
    else:
        lines = tuple(line.rstrip("\r") for line in load(CORPUS / f"{name}.log").lines)
    lines = tuple(line for line in lines if line)
    parsed = [next(parse(number, line)) for number, line in enumerate(lines)]
    tracker = PhaseTracker()
    serving = len(lines)
    for at, line in enumerate(lines):
        if tracker.feed(line) is Phase.SERVING:
            serving = at + 1
    raised = [at for at, line in enumerate(parsed) if line.level == "ERROR" and line.source]
    dying = (raised[0], raised[-1]) if raised else (len(lines) - 1, len(lines) - 1)
    headed = next(line for line in parsed if line.source)
    return Base(
        name,
        lines,
        serving,
        dying,
        _tag(parsed, "APIServer"),
        _tag(parsed, "EngineCore"),
        headed.source[-60:].partition("[")[0][-15:].strip() if not lines[1].startswith("{") else "",
        any(line.startswith("{") for line in lines[:10]),
    )


def _tag(lines: Iterable[LogLine], process: str) -> str:
    found = next((line for line in lines if line.process.startswith(process) and line.pid), None)
    return f"({found.process} pid={found.pid}) " if found else ""


# ---- text


def _messages(lines: Iterable[str]) -> list[str]:
    return [line.message for number, text in enumerate(lines) for line in parse(number, text)]


def _blocks(lines: Sequence[str]) -> list[tuple[str, ...]]:
    """Whole tracebacks, and lines that a row looks for."""
    messages = [next(parse(0, line)).message if line else "" for line in lines]
    blocks: list[tuple[str, ...]] = []
    begin: int | None = None
    for at, message in enumerate(messages):
        if message.startswith("Traceback (most recent"):
            begin = at
        elif begin is not None and exception_of(message):
            blocks.append(tuple(lines[begin : at + 1]))
            begin = None
        elif begin is None and (exception_of(message) or message.startswith(_BEGINS)):
            blocks.append((lines[at],))
    return blocks


_BEGINS = tuple(
    text for row in SIGNATURES if isinstance(row.detect, Prints) for text in row.detect.begins
)


_HARMLESS = {"none"} | {row.id for row in SIGNATURES if row.role is Role.CONSEQUENCE}


@cache
def hostile_blocks() -> tuple[tuple[str, ...], ...]:
    """Each thing that some row looks for, as the samples show it: with the heads of every era."""
    seen: dict[tuple[str, ...], None] = {}
    for sample in all_samples():
        if sample.folder not in _HARMLESS:
            for block in _blocks(sample.lines):
                seen[block[:1] + block[-30:] if len(block) > 31 else block] = None
    return tuple(block for block in seen if _names_a_root(block))


def _names_a_root(block: tuple[str, ...]) -> bool:
    found = diagnose(Evidence(records(*block)))
    return found.signature in _ROOTS


_ROOTS = {row.id for row in SIGNATURES if row.weight is Weight.ROOT}


@cache
def marker_lines() -> tuple[str, ...]:
    """Records by which phases and figures are told, and by which a run begins or stops."""
    found: dict[str, None] = {}
    for sample in all_samples():
        tracker = PhaseTracker()
        for line in sample.lines:
            if tracker.feed(line) is not None or "non-default args" in line or "KV cache" in line:
                found[line] = None
    return tuple(found)


@st.composite
def blocks(draw: st.DrawFn, *, heads: bool | None = None) -> tuple[str, ...]:
    """Some lines of hostile text. ``heads`` False takes away what vLLM puts in front of a line."""
    chosen: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.integers(0, 7)):
            chosen += draw(st.sampled_from(hostile_blocks()))
        else:
            chosen.append(draw(st.sampled_from(marker_lines())))
    keep = not draw(st.integers(0, 2)) if heads is None else heads
    lines = chosen if keep else _messages(chosen)
    lines = [_other_figures(draw, line) for line in lines]
    return tuple(draw(st.sampled_from(_DRESS))(line) for line in lines)


def _other_figures(draw: st.DrawFn, line: str) -> str:
    if "Tried to allocate " not in line:
        return line
    head, _, tail = line.partition("Tried to allocate ")
    size = draw(st.decimals(0, 9999, places=2, allow_nan=False))
    unit = draw(st.sampled_from(["MiB", "GiB", "bytes"]))
    return f"{head}Tried to allocate {size} {unit}.{tail.partition('.')[2].partition('.')[2]}"


def _plain(line: str) -> str:
    return line


_DRESS: tuple[Callable[[str], str], ...] = (
    _plain,
    _plain,
    _plain,
    lambda line: f"\x1b[31m{line}\x1b[0m",
    lambda line: f"\x1b[1;36m(EngineCore_DP0 pid=1)\x1b[0;0m {line}",
    lambda line: line.replace("\\", "\\\\").replace('"', '\\"'),
)


# ---- places


def request_record(base: Base, text: Sequence[str], *, by_repr: bool) -> list[str]:
    """vLLM's request logger; older versions print the prompt as it is."""
    begin, end = "Received request cmpl-1-0: prompt: ", ", params: SamplingParams(n=1)"
    if by_repr:
        lines = [begin + repr("\n".join(text)) + end]
    else:
        lines = [f"{begin}'{text[0]}", *text[1:], "'" + end]
    return _record(base, base.tag, "INFO", "logger.py:43", lines)


def dumped_input(base: Base, text: Sequence[str], *, by_repr: bool) -> list[str]:
    """dump_input.py prints strings without escapes, at ERROR, in the engine core."""
    begin = "Dumping scheduler output for model execution: SchedulerOutput(x="
    value = [repr("\n".join(text))] if by_repr else [f"'{text[0]}", *text[1:], "'"]
    lines = [begin + value[0], *value[1:]]
    return _record(base, base.core_tag, "ERROR", "dump_input.py:79", lines)


def quoted_field(base: Base, text: Sequence[str], *, by_repr: bool) -> list[str]:
    """A warning that quotes fields of a request, or pydantic's input_value at ERROR."""
    value = repr("\n".join(text))
    if by_repr:
        begin = "The following fields were present in the request but ignored: "
        return _record(base, base.tag, "WARNING", "protocol.py:117", [f"{begin}{{{value}}}"])
    what = f"[type=string_type, input_value={value}, input_type=str]"
    lines = [
        "1 validation error for ChatCompletionRequest",
        "messages.0.content",
        f"  Input should be a valid string {what}",
    ]
    return _record(base, base.tag, "ERROR", "serving_chat.py:200", lines)


def api_server_error(base: Base, text: Sequence[str], *, by_repr: bool) -> list[str]:
    """Chat templates raise with the user's words, and tool parsers print what they failed on."""
    file = "hermes_tool_parser.py:140" if by_repr else "serving_chat.py:237"
    what = "extracting tool call from response." if by_repr else "preprocessing prompt inputs"
    lines = [
        f"Error in {what}",
        "Traceback (most recent call last):",
        f'  File "{_PACKAGES}/vllm/entrypoints/openai/serving_chat.py", line 209, in create',
        "    ) = await self._preprocess_chat(",
        f'  File "{_PACKAGES}/jinja2/environment.py", line 939, in handle_exception',
        f"jinja2.exceptions.TemplateError: {text[0]}",
        *text[1:],
    ]
    return _record(base, base.tag, "ERROR", file, lines)


_PACKAGES = "/opt/venv/lib/python3.11/site-packages"


def access_line(base: Base, text: Sequence[str], *, by_repr: bool) -> list[str]:
    """One line of uvicorn's for each line of text."""
    quote = repr if by_repr else str
    lines = [f'127.0.0.1:4711 - "GET /{quote(line)} HTTP/1.1" 404 Not Found' for line in text]
    if base.in_json:
        return [_json("INFO", "uvicorn.access", line) for line in lines]
    return [f"{base.tag}INFO:     {line}" for line in lines]


def carriage_returns(base: Base, text: Sequence[str], *, by_repr: bool) -> list[str]:
    """A user's CR is printed as it is: what follows has no head, or one of the user's making."""
    file, level = ("protocol.py:117", "WARNING") if by_repr else ("logger.py:43", "INFO")
    line = "Received request cmpl-1-0: prompt: 'x" + "".join(f"\r{part}" for part in text)
    return _record(base, base.tag, level, file, [line])


def json_form(base: Base, text: Sequence[str], *, by_repr: bool) -> list[str]:
    """In a text log a record in JSON form is somebody else's; in JSON a message quotes JSON."""
    name = "vllm.v1.engine.core" if by_repr else "vllm.entrypoints.openai.serving_chat"
    forged = _json("ERROR", name, "\n".join(text))
    return request_record(base, [forged], by_repr=by_repr) if base.in_json else [forged]


def _record(base: Base, tag: str, level: str, place: str, lines: Sequence[str]) -> list[str]:
    """vLLM's formatter repeats the head on every line, behind CR LF."""
    if base.in_json:
        name = "vllm." + place.partition(".")[0]
        return [_json(level, name, "\n".join(lines))]
    head = f"{tag}{level} {base.time} [{place}] "
    return [f"{head}{part}\r" for line in lines for part in line.split("\n")]


def _json(level: str, name: str, message: str) -> str:
    return json.dumps(
        {
            "asctime": "2026-11-29 13:52:59,581",
            "levelname": level,
            "name": name,
            "process": 542,
            "processName": "MainProcess",
            "message": message,
        }
    )


PLACES = {
    "request record": request_record,
    "dumped input": dumped_input,
    "quoted field": quoted_field,
    "api server error": api_server_error,
    "access line": access_line,
    "carriage returns": carriage_returns,
    "json form": json_form,
}


@st.composite
def positions(draw: st.DrawFn, base: Base) -> int:
    """Before serving, while serving, in between the dying words, or behind everything."""
    end = len(base.lines)
    serving = min(base.serving, end)
    first = base.dying[0]
    before = (max(1, first - 9), first)
    ranges = [(1, serving), (serving, end), before, before, (first, base.dying[1] + 1), (end, end)]
    low, high = draw(st.sampled_from(ranges))
    return draw(st.integers(low, max(low, high)))


def interleave(base: Base, at: int, text: Sequence[str], gap: int) -> list[str]:
    """The text from that line on, with so many of the log's own lines between each two."""
    lines = list(base.lines[:at])
    rest = list(base.lines[at:])
    for line in text:
        lines.append(line)
        lines += rest[:gap]
        rest = rest[gap:]
    return lines + rest
