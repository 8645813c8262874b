"""Puts the lines of a log together to the exceptions that its processes raised."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from vllm_warden.core.diagnose.flattened import START as _START
from vllm_warden.core.diagnose.flattened import is_flat, unflattened
from vllm_warden.core.diagnose.grammar import LogLine
from vllm_warden.core.diagnose.introductions import FATAL, ends_message, introduced, repr_of
from vllm_warden.core.diagnose.places import KNOWN, frame_names, phase_of, site_of, source_names
from vllm_warden.core.model import Phase, Site

MESSAGE_LINES_LIMIT = 12
"""Lines of a multi-line exception message that are kept (NCCL and pydantic print up to ten)."""
MESSAGE_CHARACTERS_LIMIT = 8_000
"""Characters of one exception's message that are kept; no row looks further than 3,000."""
RAISED_LIMIT = 600
"""Exceptions of one log that are kept until it ends."""
OPEN_LIMIT = 4096
"""Processes whose lines are being put together; of more, the one that began first is done with."""
CHAIN_LIMIT = 8
"""Exceptions of one chain that are kept: the first ones, where the root is, and the last."""

_FRAME = re.compile(
    r'\s{0,12}(?:\|\s{1,8})?File "([^"]{1,400})", line \d{1,7}(?:,)? in (\S{1,120})'
)
_RPC = re.compile(r'collective_rpc\(\s{0,4}"(\w{1,60})"')
_CALL = re.compile(r"\.(\w{3,60})\(")
_METHOD = re.compile(
    r"(?P<type>Exception) in worker \w{1,60} while processing method (?P<method>\w{1,60})"
    r"(?:\.|: (?P<message>.*))?",
    re.DOTALL,
)
_TIMED_OUT = re.compile(r"RPC call to (\w{1,60}) timed out")
_CHAIN = ("The above exception was the direct cause", "During handling of the above exception")
_STACK = ("Stack (most recent call first):", "Current thread 0x")
"""What faulthandler prints between a fatal error and the stack of the thread that had it."""
_QUOTED = re.compile(r"Worker failed with error '(.{0,4000}?)(?:', please check|$)", re.DOTALL)
_ENGINE_FILE = re.compile(
    r"vllm/(?:v1/)?(?:engine/(?:core|llm_engine|async_llm_engine)\.py|engine/multiprocessing/"
    r"|worker/|executor/|core/sched|sample/|attention/|spec_decode/)|vllm/model_executor/"
    r"|vllm/distributed/"
)
_FAILED = ("ERROR", "CRITICAL")
_Key = tuple[str, int | None, bool]
"""Process, process number, and whether its lines are records of a logger."""


@dataclass(slots=True)
class Raised:
    """One exception as printed, with the call stack of its whole chain.

    ``text`` is type and message, ``whole`` the texts of all exceptions chained to it. ``logged``
    is True for the engine's own ERROR records, ``bare`` for text without any record (stderr);
    neither is set for records of lower levels. ``quoted`` is True when the text is what another
    process was told ("Worker failed with error '...'").
    """

    type: str
    message: str
    line: int
    process: str = ""
    rank: int | None = None
    functions: frozenset[str] = frozenset()
    in_engine: bool = False
    logged: bool = False
    bare: bool = False
    quoted: bool = False
    before: Phase | None = None
    whole: str = ""
    file: str | None = None
    proof: str = ""
    phase: Phase | None = None
    site: Site | None = None
    guessed: bool = False
    """True where the phase is only the likelier of two that the text fits."""

    @property
    def text(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(slots=True)
class _Open:
    """A traceback that is being read."""

    first: LogLine
    before: Phase | None
    functions: set[str] = field(default_factory=set)
    in_engine: bool = False
    kind: str | None = None
    at: int = 0
    proof: str = ""
    message: list[str] = field(default_factory=list)
    links: list[_Open] = field(default_factory=list)
    chained: bool = False


class Tracebacks:
    """Fed the lines of all processes in order; exceptions come out of ``finish``."""

    def __init__(self) -> None:
        self._open: dict[_Key, _Open] = {}
        self._loose: dict[_Key, tuple[str, set[str]]] = {}
        self._done: list[Raised] = []
        self.cut: list[Raised] = []
        """Call stacks of which the exception is missing; complete after ``finish``."""

    def feed(self, line: LogLine, before: Phase | None) -> bool:
        """Take one line; True when it belongs to a traceback or is an exception line."""
        key = (line.process, line.pid, bool(line.source))
        current = self._open.get(key)
        message = line.message
        if current is not None and line.source and line.source != current.first.source:
            self._close(self._open.pop(key))  # another record: the traceback was cut
            current = None
        if _START in message or is_flat(message):
            return self._begin(key, current, line, before)
        is_short = len(message) < _REMEMBERED_MAX
        frame = _known_frame(message) if is_short else _frame(message)
        if frame:
            if current is None or current.kind is not None:
                if current is not None and _same_record(current, line):
                    current.chained = True  # an excerpt that lost the line between the two
                current = self._start(key, current, line, before)
            current.functions.update(frame[0])
            current.in_engine = current.in_engine or frame[1]
            return True
        if current is None:
            return self._stand_alone(key, line, before)
        if current.kind is None:
            return self._inside(current, line)
        return self._behind(key, current, line, before)

    def _begin(self, key: _Key, current: _Open | None, line: LogLine, before: Phase | None) -> bool:
        first, *rest = unflattened(line.message)
        announced = _METHOD.match(first.removesuffix(_START).rstrip(", "))
        if announced:  # V0 names the exception ahead of its traceback
            current = self._start(key, current, line, before)
            current.functions.add(announced["method"])
            if announced["message"]:
                self._name(current, announced["type"], announced["message"], line)
                current.chained = True
        elif current is not None and not current.functions and _same_record(current, line):
            current.chained = True  # the exception was printed ahead of its traceback
        self._start(key, current, line, before)
        for part in rest:
            self.feed(line._replace(message=part), before)
        return True

    def finish(self) -> list[Raised]:
        """All exceptions, in the order of their lines; repeats of one process are left out."""
        for current in self._open.values():
            self._close(current)
        self._open.clear()
        return _without_repeats(self._done)

    def _keep(self, raised: Raised) -> None:
        """A server may refuse requests for weeks: of very many exceptions the middle goes."""
        self._done.append(raised)
        if len(self._done) > RAISED_LIMIT:
            done = _without_repeats(self._done)
            half = RAISED_LIMIT // 4
            self._done = done if len(done) <= 2 * half else [*done[:half], *done[-half:]]

    def _start(
        self,
        key: _Key,
        current: _Open | None,
        line: LogLine,
        before: Phase | None,
    ) -> _Open:
        opened = _Open(line, before)
        source, names = self._loose.pop(key, ("", None))
        if names and source == line.source:
            opened.functions |= names
        if current is not None:
            if current.chained:
                opened.links = [*current.links[: CHAIN_LIMIT - 2], current]
            else:
                self._close(current)
        self._open[key] = opened
        if len(self._open) > OPEN_LIMIT:
            self._close(self._open.pop(next(iter(self._open))))
        return opened

    def _stand_alone(self, key: _Key, line: LogLine, before: Phase | None) -> bool:
        while_doing = _METHOD.match(line.message)
        if while_doing:
            current = self._start(key, None, line, before)
            current.functions.add(while_doing["method"])
            if while_doing["message"]:
                self._name(current, while_doing["type"], while_doing["message"], line)
            return True
        found = introduced(line.message) or repr_of(line.message)
        if found is None:
            self._keep_calls(key, line)
            return False
        self._name(self._start(key, None, line, before), *found, line)
        return found[0] != FATAL

    def _keep_calls(self, key: _Key, line: LogLine) -> None:
        """Of an excerpt that begins within a traceback: its first source lines."""
        if line.level not in _FAILED or not line.source or "(" not in line.message:
            return
        calls: set[str] = set()
        _take_calls(calls, line.message)
        if calls:
            source, names = self._loose.get(key, (line.source, set()))
            self._loose[key] = (line.source, names | calls if source == line.source else calls)
            if len(self._loose) > OPEN_LIMIT:
                del self._loose[next(iter(self._loose))]

    def _inside(self, current: _Open, line: LogLine) -> bool:
        message = line.message
        is_short = len(message) < _REMEMBERED_MAX
        if found := _known_introduced(message) if is_short else introduced(message):
            self._name(current, *found, line)
        else:
            _take_calls(current.functions, message)
        return found[0] != FATAL if found else message[:1] in " \t"

    def _behind(
        self,
        key: _Key,
        current: _Open,
        line: LogLine,
        before: Phase | None,
    ) -> bool:
        message = line.message
        if message.startswith(_CHAIN) or (current.kind == FATAL and message.startswith(_STACK)):
            current.chained = True
            return True
        if not message:
            return True
        same = line.source == current.first.source and line.level == current.first.level
        if same and len(current.message) < MESSAGE_LINES_LIMIT and not ends_message(message):
            current.message.append(message)
            return not _looks_separate(message)
        self._close(current)
        del self._open[key]
        return self._stand_alone(key, line, before)

    def _name(self, current: _Open, kind: str, message: str, line: LogLine) -> None:
        current.kind = kind
        current.at = line.number
        current.proof = line.message
        current.message = [message]
        if rpc := _TIMED_OUT.match(current.message[0]):
            current.functions.add(rpc[1])

    def _close(self, last: _Open) -> None:
        chain = [*last.links, last]
        functions = frozenset(name for one in chain for name in one.functions)
        texts = [f"{one.kind}: {_message(one)}" for one in chain if one.kind is not None]
        in_engine = any(one.in_engine for one in chain)
        for one in chain:
            if one.kind is not None:
                self._keep(_raised(one, functions, in_engine, "\n".join(texts)))
        if not texts and functions and len(self.cut) < RAISED_LIMIT:
            self.cut.append(_raised(last, functions, in_engine, ""))


def _without_repeats(done: list[Raised]) -> list[Raised]:
    """In the order of their lines, what a process raised again left out."""
    seen: set[tuple[str, int | None, str]] = set()
    raised = []
    for one in sorted(done, key=lambda item: item.line):
        mark = (one.process, one.rank, one.text[:300])
        if mark not in seen:
            seen.add(mark)
            raised.append(one)
    return raised


def _same_record(current: _Open, line: LogLine) -> bool:
    return bool(line.source) and line.source == current.first.source


def _take_calls(functions: set[str], source: str) -> None:
    """The line being executed names the next function, also where its frame was cut away."""
    functions.update(_known_calls(source) if len(source) < _REMEMBERED_MAX else _calls(source))


def _calls(source: str) -> tuple[str, ...]:
    names = source_names(source)
    if "collective_rpc(" in source and (rpc := _RPC.search(source)):
        names += (rpc[1],)
    if "(" in source and "." in source:
        names += tuple(name for name in _CALL.findall(source[:200]) if name in KNOWN)
    return names


def _frame(message: str) -> tuple[tuple[str, ...], bool] | None:
    """The names that a frame stands for, and whether its file is one of the engine's own."""
    found = _FRAME.match(message) if "File " in message[:40] else None
    return found and (frame_names(found[1], found[2]), bool(_ENGINE_FILE.search(found[1])))


_REMEMBERED_MAX = 300
_known_frame, _known_introduced, _known_calls = (
    lru_cache(maxsize=256)(_frame),
    lru_cache(maxsize=256)(introduced),
    lru_cache(maxsize=256)(_calls),
)
"""Each rank prints the same traceback; what a line of it tells is found out once. Long lines are
not remembered: they would take memory, and hardly come again."""


def _looks_separate(message: str) -> bool:
    return message.startswith(("INFO", "Process ", "usage:", "[")) or ": error: " in message


def _message(one: _Open) -> str:
    return "\n".join(one.message)[:MESSAGE_CHARACTERS_LIMIT]


def _raised(one: _Open, functions: frozenset[str], in_engine: bool, whole: str) -> Raised:
    first = one.first
    kind = one.kind or ""
    message = _message(one)
    quoted = _QUOTED.match(message)
    if quoted:
        kind, message = _quoted_type(quoted[1]), quoted[1]
    phase = phase_of(functions)
    return Raised(
        type=kind,
        message=message,
        line=one.at or first.number,
        process=first.process,
        rank=first.rank,
        functions=functions,
        in_engine=in_engine,
        logged=bool(first.source) and first.level in _FAILED,
        bare=not first.source and first.level in (None, "ERROR", "CRITICAL"),
        quoted=bool(quoted),
        before=one.before,
        whole=whole,
        file=first.file,
        proof=one.proof or first.message,
        phase=phase,
        site=site_of(phase, functions),
    )


def _quoted_type(text: str) -> str:
    """The executor quotes the message without its type; allocation failures name themselves."""
    if " out of memory. Tried to allocate" in text:
        return "torch.OutOfMemoryError"
    return "RuntimeError"
