"""Follows an attempt's log as it grows: the phase it is in, and the figures it prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from vllm_warden.core.diagnose.quoted import prints_requests
from vllm_warden.core.model import Phase

ORDER = {phase: place for place, phase in enumerate(Phase)}
"""Start-up order, for comparisons."""

SERVED = frozenset({Phase.SERVING, Phase.SHUTDOWN})
"""Phases in which users' text may be in the log."""

_LOOK_AT = 400
"""Characters of a line that can hold a marker: markers begin a message."""

_MESSAGE = re.compile(r"\.py:\d{1,6}\] (?:\[[\w .-]{1,40}\] )?|: {4,6}")
_SIZE = r"(-?\d{1,12}(?:\.\d{1,20})?)"

_MARKERS: tuple[tuple[str, Phase, str | None], ...] = (
    ("non-default args:", Phase.ARGS, None),
    ("vLLM API server version ", Phase.ARGS, r"version (\d[\w.+-]{0,40})"),
    ("vLLM server version ", Phase.ARGS, r"version (\d[\w.+-]{0,40})"),
    ("Initializing a V", Phase.INIT_DEVICE, r"engine \(v(\d[\w.+-]{0,40})\)"),
    ("Initializing an LLM engine (v", Phase.INIT_DEVICE, r"engine \(v(\d[\w.+-]{0,40})\)"),
    ("Starting to load model ", Phase.LOAD, None),
    ("Loading model from scratch", Phase.LOAD, None),
    ("Loading safetensors checkpoint shards:", Phase.LOAD, None),
    ("Loading weights took ", Phase.LOAD, None),
    ("Loading model weights took ", Phase.PROFILE, rf"took {_SIZE} G(?:iB|B)"),
    ("Model loading took ", Phase.PROFILE, rf"took {_SIZE} G(?:iB|B)"),
    ("Warming up model for the compilation", Phase.PROFILE, None),
    ("Encoder cache will be initialized", Phase.PROFILE, None),
    ("Dynamo bytecode transform time", Phase.PROFILE, None),
    ("Compiling a graph for", Phase.PROFILE, None),
    ("Profiling CUDA graph memory:", Phase.PROFILE, None),
    ("Estimated CUDA graph memory:", Phase.PROFILE, rf"memory: {_SIZE} GiB"),
    ("Memory profiling takes ", Phase.KV_PLAN, None),
    ("Available KV cache memory:", Phase.KV_PLAN, rf"memory: {_SIZE} GiB"),
    ("Initial free memory ", Phase.KV_PLAN, rf"reserved {_SIZE} GiB"),
    ("Explicitly set (", Phase.KV_PLAN, rf"set \({_SIZE}/"),
    ("# GPU blocks: ", Phase.KV_ALLOC, None),
    ("# cuda blocks: ", Phase.KV_ALLOC, None),
    ("# rocm blocks: ", Phase.KV_ALLOC, None),
    ("GPU KV cache size:", Phase.KV_ALLOC, r"size: ([\d,]{1,20}) tokens"),
    ("GPU + host KV cache size:", Phase.KV_ALLOC, r"size: ([\d,]{1,20}) tokens"),
    ("CPU KV cache size:", Phase.KV_ALLOC, r"size: ([\d,]{1,20}) tokens"),
    ("Maximum concurrency for ", Phase.KV_ALLOC, r"request: ([\d.]{1,20})x"),
    ("Compile and warming up model for size", Phase.WARMUP, None),
    ("Capturing CUDA graph", Phase.CUDAGRAPH, r"\| *(\d{1,4})/(\d{1,4}) \["),
    ("Capturing cudagraphs for decoding", Phase.CUDAGRAPH, None),
    ("Capturing the model for CUDA graphs", Phase.CUDAGRAPH, None),
    ("Graph capturing finished in ", Phase.WARMUP, rf"took {_SIZE} GiB"),
    ("Skipping CUDA graph capture", Phase.WARMUP, None),
    ("CUDA graph pool memory:", Phase.WARMUP, None),
    ("init engine (profile, create kv cache, warmup model) took", Phase.WARMUP, None),
    ("Starting vLLM API server ", Phase.SERVING, None),
    ("Starting vLLM server on ", Phase.SERVING, None),
    ("Application startup complete.", Phase.SERVING, None),
    ("Available routes are:", Phase.SERVING, None),
    ("Route: /", Phase.SERVING, None),
    ("Started server process ", Phase.SERVING, None),
    ("Avg prompt throughput: ", Phase.SERVING, None),
    ("Engine 000: Avg prompt throughput: ", Phase.SERVING, None),
    ("EngineCore encountered a fatal error", Phase.SERVING, None),
    ("Shutting down", Phase.SHUTDOWN, None),
)
MARKERS = tuple(text for text, _, _ in _MARKERS)
"""How the engine's own records of its progress begin."""
_KEY = 8
_TABLE: dict[str, list[tuple[str, Phase, re.Pattern[str] | None]]] = {}
for _text, _phase, _pattern in _MARKERS:
    _TABLE.setdefault(_text[:_KEY], []).append(
        (_text, _phase, re.compile(_pattern) if _pattern else None)
    )
_POOL = re.compile(rf"{_SIZE} GiB \(actual\), {_SIZE} GiB \(estimated\)")
_CONCURRENCY = re.compile(r"tokens per request: ([\d.]{1,20})x")
_NOT_HEADERED = ("Capturing CUDA graph", "Loading safetensors checkpoint shards:")


@dataclass(slots=True)
class LogFacts:
    """What a log has said of the engine so far; None is not said. GiB as printed (rounded).

    ``available_kv_gib`` and ``weights_gib`` are of the worst rank that spoke: the smallest KV
    memory, the largest weights. ``graphs_gib`` is what captured graphs took (G),
    ``graphs_estimated_gib`` what was budgeted for them (vLLM 0.18 and later).
    ``graphs_captured`` of ``graphs_sizes`` batch sizes had their graph at the last progress bar.
    """

    engine_version: str | None = None
    weights_gib: float | None = None
    available_kv_gib: float | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    graphs_gib: float | None = None
    graphs_estimated_gib: float | None = None
    graphs_captured: int | None = None
    graphs_sizes: int | None = None


class PhaseTracker:
    """Fed every line of one attempt in order; phases only move forward.

    Cheap enough for each line of a busy log: one short search and one dictionary look-up.
    """

    def __init__(self) -> None:
        self.phase: Phase | None = None
        self.before_shutdown: Phase | None = None
        self.first: Phase | None = None
        self.facts = LogFacts()

    def feed(self, text: str) -> Phase | None:
        """Take one raw record; return the phase when a new one has been entered."""
        begin = text.find("] ", 0, _LOOK_AT) + 2
        if begin > 1 and _is_no_marker(text, begin) and _ends_header(text[:begin]):
            return None
        if "\x1b" in text:
            text = _strip_colour(text[:_LOOK_AT])
        if text.startswith("{"):
            return self._feed_json(text)
        if "\r" in text:
            text = text.rpartition("\r")[2] or text
        found = _MESSAGE.search(text, 0, _LOOK_AT)
        if found:
            file = text[: found.start()].rpartition("[")[2]
            if prints_requests(f"{file}.py"):
                return None
            return self.feed_message(text[found.end() :])
        if text.startswith(_NOT_HEADERED) or ") Loading safe" in text or ") Capturing" in text:
            return self.feed_message(text[max(text.find("Loading safe"), text.find("Capturing")) :])
        return None

    def feed_message(self, message: str) -> Phase | None:
        """Take one message without its prefixes; return the phase when a new one was entered."""
        for marker, phase, pattern in _TABLE.get(message[:_KEY], ()):
            if message.startswith(marker):
                if pattern:
                    self._note(marker, pattern, message[:_LOOK_AT])
                elif marker.startswith("CUDA graph pool"):
                    self._note_pool(message[:_LOOK_AT])
                return self._enter(phase)
        return None

    def _feed_json(self, text: str) -> Phase | None:
        at = text.find('"message": "', 0, _LOOK_AT)
        return self.feed_message(text[at + 12 :]) if at >= 0 else None

    def _enter(self, phase: Phase) -> Phase | None:
        if self.phase is not None and ORDER[phase] <= ORDER[self.phase]:
            return None
        if phase is Phase.SHUTDOWN:
            self.before_shutdown = self.phase
        self.phase = phase
        self.first = self.first or phase
        return phase

    def _note(self, marker: str, pattern: re.Pattern[str], message: str) -> None:
        found = pattern.search(message)
        if not found:
            return
        facts, value = self.facts, found[1]
        if "version" in marker or marker.startswith("Initializing"):
            facts.engine_version = value
        elif marker.startswith("Capturing"):
            if self.phase in SERVED:
                return  # a bar has no head that says who wrote it, and users can write by now
            facts.graphs_captured, facts.graphs_sizes = int(value), int(found[2])
        elif "KV cache size" in marker:
            tokens = int(value.replace(",", ""))
            facts.kv_tokens = min(facts.kv_tokens or tokens, tokens)
            concurrency = _CONCURRENCY.search(message)
            if concurrency:
                facts.max_concurrency = _number(concurrency[1])
        else:
            self._note_gib(marker, _number(value))

    def _note_gib(self, marker: str, gib: float | None) -> None:
        facts = self.facts
        if gib is None:
            return
        if marker.startswith("Model loading"):
            facts.weights_gib = max(facts.weights_gib or gib, gib)
        elif marker.startswith("Maximum"):
            facts.max_concurrency = gib
        elif marker.startswith("Graph capturing"):
            facts.graphs_gib = max(facts.graphs_gib or gib, gib)
        elif marker.startswith("Estimated"):
            facts.graphs_estimated_gib = gib
        else:
            known = facts.available_kv_gib
            facts.available_kv_gib = gib if known is None else min(known, gib)

    def _note_pool(self, message: str) -> None:
        if found := _POOL.search(message):
            self.facts.graphs_gib = _number(found[1])
            self.facts.graphs_estimated_gib = _number(found[2])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_no_marker(text: str, begin: int) -> bool:
    """True when no marker stands there, nor anything behind which one could."""
    key = text[begin : begin + _KEY]
    return key not in _TABLE and key[:1] != "[" and "\x1b" not in key and "\r" not in text


@lru_cache(maxsize=256)
def _ends_header(text: str) -> bool:
    """True when a message begins behind it. A traceback has the same head on each line."""
    text = _strip_colour(text)
    found = _MESSAGE.search(text)
    return found is not None and found.end() == len(text) and not text.startswith("{")


_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,16}[@-~]")


def _strip_colour(text: str) -> str:
    return _COLOUR.sub("", text)
