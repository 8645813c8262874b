"""Recognises the line with which an exception is printed: by Python, pydantic, C++ and others."""

from __future__ import annotations

import re

_EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}(?:_{0,2}[A-Z]\w{0,80}|[a-z]\w{0,80}Error))"
    r"(?:\(\w{1,60}\))?(?:(?:: |:$)(?P<message>.*))?$",
    re.DOTALL,
)
_BARE = re.compile(r"(?:Error|Exception|Interrupt|Exit|Timeout|Refused|Iteration|ExceptionGroup)$")
_REPR = re.compile(
    r"(?P<type>(?:\w{1,80}\.){0,8}[A-Z]\w{0,80}Error)\(['\"](?P<message>.*)", re.DOTALL
)
_FATAL = "Fatal Python error: "
_NATIVE = re.compile(r"\s{0,8}what\(\):  ?|.{0,240}? terminated with exception: ")
"""How std::terminate and torch's watchdog threads introduce what a C++ exception said."""
_VALIDATED = "Value error, "
"""So pydantic introduces the ValueError that a check of vLLM's configuration raised."""
FATAL = "FatalError"
"""Kind of what faulthandler reports: no exception, but it has a call stack."""
_NOT_TYPES = frozenset({"INFO", "WARNING", "ERROR", "DEBUG", "Process", "Killed", "File", "PC"})


def exception_of(message: str) -> re.Match[str] | None:
    """Type and message when the line is an exception as Python prints one."""
    found = _EXCEPTION.match(message)
    if not found:
        return None
    name = found["type"].rpartition(".")[2]
    if name in _NOT_TYPES or not (found["message"] is not None or _BARE.search(name)):
        return None
    return found if _BARE.search(name) or "." in found["type"] or name == "Exception" else None


def introduced(message: str) -> tuple[str, str] | None:
    """Type and message of an exception: as Python, pydantic, faulthandler or C++ introduce it."""
    if message.startswith(_FATAL):
        return FATAL, message[len(_FATAL) :]
    if message.lstrip().startswith(_VALIDATED):
        return "ValueError", message.lstrip()[len(_VALIDATED) :].partition(" [type=")[0]
    if ("what():" in message or "terminated with exception: " in message) and (
        native := _NATIVE.match(message)
    ):
        return "c10.Error", message[native.end() :]
    if message.startswith((" ", "\t")):
        return None
    found = exception_of(message)
    return (found["type"], found["message"] or "") if found else None


def repr_of(message: str) -> tuple[str, str] | None:
    found = _REPR.match(message)
    return (found["type"], found["message"]) if found else None


def ends_message(message: str) -> bool:
    """Whether another exception begins. NCCL and NIXL write theirs in lower case, and within."""
    found = exception_of(message)
    return found is not None and found["type"].rpartition(".")[2][:1].isupper()
