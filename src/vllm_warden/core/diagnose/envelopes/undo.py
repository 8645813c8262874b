"""Decides once for a whole log what lies around it, and takes that off block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import dropwhile
from typing import Protocol

from vllm_warden.core.diagnose.envelopes.block import Block, blocks
from vllm_warden.core.diagnose.envelopes.container_file import ContainerFile
from vllm_warden.core.diagnose.envelopes.encodings import as_utf8
from vllm_warden.core.diagnose.envelopes.journal import Export, PrettyJson, Verbose
from vllm_warden.core.diagnose.envelopes.json_lines import JsonLines, object_in, text_member
from vllm_warden.core.diagnose.envelopes.prefixes import prefix_of
from vllm_warden.core.diagnose.envelopes.terminal import Unbroken, broken_at, broken_behind

SAMPLE_BYTES = 256 << 10
SAMPLE_LINES = 1000
NEEDED_FRACTION = 0.75
"""So many of the lines must have an envelope. A program outside writes it around all of them; a
prompt that looks like one is never that common."""
DEEPEST = 4
"""A pod's log, its time stamps, and what a terminal did to both."""
_SHAPE_BYTES = 4096


class Envelope(Protocol):
    """One layer around a log. ``strip`` is for samples, ``undo`` keeps what goes over blocks."""

    name: str

    def undo(self, block: Block) -> Block | None: ...
    def strip(self, lines: list[bytes]) -> list[bytes]: ...
    def finish(self) -> Block | None: ...


def undone(chunks: Iterable[bytes], names: list[str] | None = None) -> Iterator[Block]:
    """The log itself; the names of what was around it are appended to ``names``, outermost first.

    Decided by the begin of the log, for all of it: no line's own text has a say.
    """
    all_blocks = blocks(as_utf8(chunks))
    begin: list[Block] = []
    size = 0
    for block in all_blocks:
        begin.append(block)
        size += len(block.data)
        if size >= SAMPLE_BYTES:
            break
    layers = envelopes_of([line for block in begin for line in block.lines()])
    if names is not None:
        names += [layer.name for layer in layers]
    for block in begin:
        yield from _through(layers, block)
    begin.clear()
    for block in all_blocks:
        yield from _through(layers, block)
    for depth, layer in enumerate(layers, 1):
        last = layer.finish()
        if last is not None:
            yield from _through(layers[depth:], last)


def _through(layers: list[Envelope], block: Block) -> Iterator[Block]:
    inner: Block | None = block
    for layer in layers:
        inner = layer.undo(inner) if inner is not None else None
    if inner is not None:
        yield inner


def envelopes_of(lines: list[bytes]) -> list[Envelope]:
    """What lies around a log that begins with these lines, outermost first."""
    layers: list[Envelope] = []
    lines = [line.rstrip(b"\r") for line in lines[:SAMPLE_LINES]]
    while len(layers) < DEEPEST:
        layer = _outermost(lines)
        if layer is None:
            break
        layers.append(layer)
        lines = layer.strip(lines)
    return layers


def _outermost(lines: list[bytes]) -> Envelope | None:
    filled = [line[:_SHAPE_BYTES] for line in _below_the_comment(lines) if line.strip()]
    if not filled:
        return None
    for kind in (Export, Verbose, PrettyJson):
        if kind.begins(filled):
            return kind()
    return _around_each_line(lines, filled)


def _below_the_comment(lines: list[bytes]) -> list[bytes]:
    """Without what a person or a script noted on top of the log."""
    return list(dropwhile(lambda line: line.startswith(b"#"), lines))


def _around_each_line(lines: list[bytes], filled: list[bytes]) -> Envelope | None:
    needed = NEEDED_FRACTION * len(filled)
    objects = [line for line in lines if line.startswith((b"{", b"data: {", b"\x1e{"))]
    if len(objects) >= needed:
        known = sum(1 for line in objects if text_member(object_in(line)) is not None)
        return JsonLines() if known >= needed else None
    if sum(1 for line in filled if ContainerFile.has(line)) >= needed:
        return ContainerFile()
    width = broken_at(lines)
    if width is not None:
        return Unbroken(width)
    prefix = prefix_of(filled, NEEDED_FRACTION)
    width = broken_behind(prefix.has, lines) if prefix else None
    return prefix if width is None else Unbroken(width)
