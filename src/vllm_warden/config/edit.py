"""Changes engine options in a settings file and leaves every other byte as it is.

The edit is proven before it is kept: the new text, parsed, must be the old document with exactly
these options changed. What it cannot prove it refuses.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from vllm_warden.config.lines import key_lines
from vllm_warden.core.model import SettingValue

_SCALAR = re.compile(r"""^(\s*[^=#]+?\s*=\s*)("[^"\\]*"|'[^']*'|[A-Za-z0-9_.+-]+)(\s*(?:\#.*)?)$""")


class EditRefusedError(Exception):
    """The file cannot be changed safely; the text says why and what to do instead."""


def digest_of(content: bytes) -> str:
    """What tells one state of the file from another."""
    return hashlib.sha256(content).hexdigest()


def with_options(text: str, instance: str, options: Mapping[str, SettingValue]) -> str:
    """The text with these options of ``[instance.NAME.engine]``. Raises EditRefusedError."""
    changed = text
    for key, value in options.items():
        changed = _with_option(changed, instance, key, value)
    if not _is_exactly(text, changed, instance, options):
        raise EditRefusedError("cannot edit the file: the change would alter more than it should")
    return changed


def toml_value(value: SettingValue) -> str:
    """A number, a switch or text as TOML. Raises EditRefusedError for lists and tables."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    raise EditRefusedError("cannot edit the file: a list or table has to be written by hand")


def read_text(path: Path, expected_digest: str) -> str:
    """The file as the daemon loaded it. Raises OSError, and EditRefusedError where it is another.

    What a daemon has loaded is UTF-8.
    """
    content = path.read_bytes()
    _expect(path, content, expected_digest)
    return content.decode()


def _expect(path: Path, content: bytes, digest: str) -> None:
    if digest_of(content) != digest:
        raise EditRefusedError(
            f"cannot edit {path}: it has changed since the daemon loaded it; restart the daemon, "
            "it takes the engines over"
        )


def replace_file(path: Path, expected_digest: str, text: str) -> bytes:
    """Put the text in the place of the file at once, mode and owner kept; returns what was there.

    A link is followed. Raises OSError, and EditRefusedError where the file is no longer the
    expected one or its owner could not be kept.
    """
    target = Path(os.path.realpath(path))
    before = target.read_bytes()
    _expect(path, before, expected_digest)
    known = target.stat()
    _put(target, text.encode(), known)
    return before


def _put(target: Path, content: bytes, known: os.stat_result) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _keep_owner(file.fileno(), known)
            os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    _sync_directory(target.parent)


def _with_option(text: str, instance: str, key: str, value: SettingValue) -> str:
    """The first way of writing it that is proven to change this option and nothing else."""
    ways = list(_ways(text, instance, key, toml_value(value)))
    for changed in ways:
        if _is_exactly(text, changed, instance, {key: value}):
            return changed
    raise EditRefusedError(
        f"cannot edit the file: [instance.{instance}.engine] is written in a form that only a "
        f"person can change; change {key} in it by hand, then restart the daemon"
    )


def _ways(text: str, instance: str, key: str, value: str) -> Iterator[str]:
    lines, table = text.splitlines(keepends=True), ("instance", instance, "engine")
    found = key_lines(text)
    header = found.get(table)
    if (at := found.get((*table, key))) is not None:
        yield from _replaced(lines, at, _with_value(lines[at - 1], value))
    elif header is not None:
        last = max(line for path, line in found.items() if path[:3] == table)
        for after, name in ((last, key), (header, key), (last, f"engine.{key}")):
            yield _inserted(lines, after, _ended(f"{name} = {value}", text), text)
        yield from _replaced(lines, header, _within_braces(lines[header - 1], key, value))
    gap = "" if not text or text.endswith("\n") else _ended("", text)
    title = _ended("", text) + _ended(f"[{'.'.join(table)}]", text)
    yield text + gap + title + _ended(f"{key} = {value}", text)


def _replaced(lines: list[str], at: int, line: str | None) -> Iterator[str]:
    if line is not None:
        yield "".join([*lines[: at - 1], line, *lines[at:]])


def _inserted(lines: list[str], after: int, new: str, text: str) -> str:
    before = lines[:after]
    if not before[-1].endswith("\n"):
        before[-1] = _ended(before[-1], text)
    return "".join([*before, new, *lines[after:]])


def _with_value(line: str, value: str) -> str | None:
    bare = line.rstrip("\r\n")
    found = _SCALAR.match(bare)
    return found and f"{found[1]}{value}{found[3]}{line[len(bare) :]}"


def _within_braces(line: str, key: str, value: str) -> str | None:
    """``engine = { ... }`` on one line, the option changed or put at its end."""
    there = re.compile(
        rf"""([{{,]\s*{re.escape(key)}\s*=\s*)("[^"\\]*"|'[^']*'|[A-Za-z0-9_.+-]+)"""
    )
    if there.search(line):
        return there.sub(lambda match: match[1] + value, line, count=1)
    end = re.fullmatch(r"(.*?)(\s*)\}(\s*(?:#.*)?)", line, re.DOTALL)
    if end is None:
        return None
    comma = "" if end[1].endswith("{") else ","
    return f"{end[1]}{comma} {key} = {value}{end[2] or ' '}}}{end[3]}"


def _ended(line: str, text: str) -> str:
    return line + ("\r\n" if "\r\n" in text else "\n")


def _is_exactly(
    before: str, after: str, instance: str, options: Mapping[str, SettingValue]
) -> bool:
    try:
        wanted = copy.deepcopy(tomllib.loads(before))
        wanted["instance"][instance].setdefault("engine", {}).update(options)
        return tomllib.loads(after) == wanted
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError):
        return False


def _keep_owner(descriptor: int, known: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) == (known.st_uid, known.st_gid):
        return
    try:
        os.fchown(descriptor, known.st_uid, known.st_gid)
    except PermissionError:
        raise EditRefusedError(
            f"cannot edit the file: its owner (uid {known.st_uid}, gid {known.st_gid}) could not "
            "be kept; run this as root"
        ) from None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
