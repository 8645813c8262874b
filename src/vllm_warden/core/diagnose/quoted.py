"""Recognises what an engine quotes of its users: such lines are never evidence."""

from __future__ import annotations

import re
from functools import lru_cache

from vllm_warden.core.diagnose.grammar import LogLine

_FILES = re.compile(
    r"(?:dump_input|(?:request_)?logger|protocol|(?:batch_)?serving\w{0,40}|api_router|chat_utils"
    r"|\w{0,40}(?:tool|reasoning)_parsers?|preprocess\w{0,20}|online_derenderer|harmony|context"
    r"|response_template|connection|validation|vllm_error|exception|http|server_utils)\.py"
)
"""Files of vLLM 0.8 to 0.33 that print requests, or what they failed on (chat templates, tool
calls, fields): none of them speaks for the engine, at whatever level."""

_BEGINS = re.compile(
    r"Received request |Request \S{1,200} details: |Generated response |Added request "
    r"|Dumping (?:input data|scheduler output|scheduler stats)"
)
"""How those records begin, also where an older version or another format prints them."""

_WHOLE = re.compile(r"prompt: (?:None|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")|: params: ")
"""A prompt that ends on the line on which it begins."""


class Quotes:
    """Fed every line in order. What follows a quotation without a head of its own belongs to it.

    vLLM's own format repeats the head on each line of a record; others do not.
    """

    def __init__(self) -> None:
        self._source = ""
        self._process = ""
        self._open = False

    def hold(self, line: LogLine) -> bool:
        """True when the line, or the record that it continues, quotes users."""
        if line.source or line.process or line.level:
            self._open = False
        if is_quotation(line):
            self._source, self._process = line.source, line.process
            self._open = not _WHOLE.search(line.message, 0, 16_384)
            return True
        if self._source and line.source == self._source and line.process == self._process:
            return True
        if line.source:
            self._source = ""
        return self._open


@lru_cache(maxsize=512)
def prints_requests(file: str) -> bool:
    """True for a file of vLLM (as its records name it) that quotes users."""
    return _FILES.fullmatch(file.rpartition("/")[2]) is not None


def is_quotation(line: LogLine) -> bool:
    """True for a line that begins a record of a request, or has the head of one."""
    if line.file is not None and prints_requests(line.file):
        return True
    return line.message.startswith(("Rec", "Req", "Gen", "Add", "Dum")) and bool(
        _BEGINS.match(line.message)
    )
