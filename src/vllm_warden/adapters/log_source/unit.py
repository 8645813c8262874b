"""Finds the invocations of a systemd unit in the journal, and reads one of them.

Asks ``journalctl`` in child processes: it is there wherever a journal is, also where
systemd-python is not, and its matches are answered from the journal's index. journalctl 252 has
no ``--invocation``, so the field is matched.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vllm_warden.adapters.log_source.file import CHUNK_BYTES, UnreadableLogError

_ANSWER_SECONDS = 60.0
_ID = re.compile(r"[0-9a-f]{32}")
_FIELDS = "MESSAGE,_PID,_SYSTEMD_INVOCATION_ID,INVOCATION_ID,EXIT_CODE,EXIT_STATUS,UNIT_RESULT"
_RUNS_IN = frozenset({"active", "activating", "deactivating", "reloading", "refreshing"})
_OLDEST = 1000
"""So far back invocations are looked for."""


_TYPES = (
    "service",
    "scope",
    "socket",
    "slice",
    "mount",
    "timer",
    "target",
    "path",
    "swap",
    "device",
)


def unit_name(text: str) -> str:
    """The name as the journal has it: ``vllm`` is ``vllm.service``, as for systemctl."""
    return text if text.rpartition(".")[2] in _TYPES and "." in text else f"{text}.service"


@dataclass(frozen=True, slots=True)
class Invocation:
    """One start of a unit. ``offset`` is 0 for the one that runs, -1 for the newest that ended."""

    id: str
    offset: int


@dataclass(frozen=True, slots=True)
class UnitEnd:
    """What systemd itself said of the end: None where it said nothing.

    ``exit_status`` is as ``subprocess`` counts; ``result`` is systemd's word (``exit-code``,
    ``signal``, ``oom-kill``, ``success``, ...).
    """

    exit_status: int | None = None
    result: str | None = None


def find_invocation(unit: str, offset: int, running: str | None) -> Invocation:
    """The unit's invocation so far back. ``running`` is the id of the one that runs, if any does.

    Raises UnreadableLogError where there is none.
    """
    found = -1
    for number, identifier in enumerate(invocation_ids(unit)):
        if number == 0 and identifier == running:
            found = 0
        elif number:
            found -= 1
        if found == offset:
            return Invocation(identifier, offset)
        if found < offset or number > _OLDEST:
            break
    raise _missing(unit, offset, found)


def invocation_ids(unit: str) -> Iterator[str]:
    """The ids of the unit's invocations in this machine's journal, newest first.

    From the last entry of one its first is looked up, and from there the entry before it: a
    handful of look-ups each, however long the log is.
    """
    entry = _one(f"--unit={unit}", "--lines=1", "--reverse")
    if entry is None:
        _explain_nothing(unit)
    while entry is not None:
        identifier = _invocation_of(entry)
        if identifier is None:  # from before the unit had invocations, or not its own entry
            entry = _before(unit, entry)
            continue
        yield identifier
        first = _first_of(unit, identifier) or entry
        entry = _before(unit, first)


def running_invocation(unit: str) -> str | None:
    """The id of the invocation that runs now; None where none does, or systemd is not there."""
    try:
        answer = _ask("systemctl", "show", "--property=InvocationID,ActiveState,SubState", unit)
    except (OSError, subprocess.SubprocessError):
        return None
    shown = dict(line.partition("=")[::2] for line in answer.stdout.decode().splitlines())
    runs = shown.get("ActiveState") in _RUNS_IN and shown.get("SubState") != "auto-restart"
    return shown.get("InvocationID") or None if runs else None


def unit_end(invocation: Invocation) -> UnitEnd:
    """Reads what systemd (PID 1, which nobody can forge) said of this invocation's end."""
    answer = _journal("_PID=1", f"INVOCATION_ID={invocation.id}", "--output=json", "--all")
    status = result = None
    for line in answer.splitlines():
        entry = _object(line)
        code, number = entry.get("EXIT_CODE"), str(entry.get("EXIT_STATUS", ""))
        if code in ("exited", "killed", "dumped") and number.isdigit():
            status = int(number) if code == "exited" else -int(number)
        if entry.get("UNIT_RESULT"):
            result = str(entry["UNIT_RESULT"])
    return UnitEnd(status, result)


class InvocationLog:
    """Iterated once: what the processes of one invocation wrote, as journalctl exports it."""

    total_bytes = None

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self.read_bytes = 0
        self.damaged: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        words = _command(
            f"_SYSTEMD_INVOCATION_ID={self._invocation.id}", "--output=export", "--all"
        )
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None  # noqa: S101 -- asked for
            assert child.stderr is not None  # noqa: S101
            while chunk := child.stdout.read(CHUNK_BYTES):
                self.read_bytes += len(chunk)
                yield chunk
            complaint = child.stderr.read(2000).decode("utf-8", "replace").strip()
        if child.returncode:
            self.damaged = f"journalctl ended with status {child.returncode}: {complaint}"


def _command(*words: str) -> list[str]:
    return ["journalctl", "--quiet", "--no-pager", "--output-fields=" + _FIELDS, *words]


def _ask(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        words, check=False, capture_output=True, timeout=_ANSWER_SECONDS, stdin=subprocess.DEVNULL
    )


def _journal(*words: str) -> bytes:
    """What journalctl answers; raises UnreadableLogError where it cannot."""
    try:
        answer = _ask(*_command(*words))
    except FileNotFoundError:
        raise UnreadableLogError("there is no journalctl here", "give the log as a file") from None
    except subprocess.TimeoutExpired:
        raise UnreadableLogError(
            f"journalctl did not answer within {_ANSWER_SECONDS:g} s",
            "try: journalctl -u UNIT -o export | vllm-warden diagnose -",
        ) from None
    if answer.returncode:
        said = answer.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UnreadableLogError(
            said[-1] if said else f"journalctl ended with status {answer.returncode}",
            "journalctl reads the journals of root, and of members of systemd-journal or adm",
        )
    return answer.stdout


def _one(*words: str) -> dict[str, object] | None:
    lines = _journal("--output=json", *words).splitlines()
    return _object(lines[0]) if lines else None


def _first_of(unit: str, identifier: str) -> dict[str, object] | None:
    """The oldest entry of this invocation, whoever of the two wrote it.

    ``--lines`` counts from the end, so the child is ended after its first line.
    """
    words = _command("--output=json", *_matches(unit, identifier))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None  # noqa: S101 -- asked for
        line = child.stdout.readline()
        child.kill()
    return _object(line) if line else None


def _matches(unit: str, identifier: str) -> Sequence[str]:
    """The unit's own entries, or systemd's about it."""
    return (
        f"_SYSTEMD_UNIT={unit}",
        f"_SYSTEMD_INVOCATION_ID={identifier}",
        "+",
        "_PID=1",
        f"UNIT={unit}",
        f"INVOCATION_ID={identifier}",
    )


def _before(unit: str, entry: dict[str, object]) -> dict[str, object] | None:
    """The unit's newest entry before this one."""
    cursor = entry.get("__CURSOR")
    if not isinstance(cursor, str):
        return None
    words = (f"--unit={unit}", "--reverse", f"--cursor={cursor}", "--lines=2")
    answer = _journal("--output=json", *words).splitlines()
    found = [_object(line) for line in answer]
    return next((each for each in found if each.get("__CURSOR") != cursor), None)


def _invocation_of(entry: dict[str, object]) -> str | None:
    """What the unit's processes write carries their own; PID 1 names the one it writes of."""
    name = "INVOCATION_ID" if entry.get("_PID") == "1" else "_SYSTEMD_INVOCATION_ID"
    found = entry.get(name)
    return found if isinstance(found, str) and _ID.fullmatch(found) else None


def _object(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _explain_nothing(unit: str) -> None:
    raise UnreadableLogError(
        "the journal has no entry of this unit that this user may read",
        f"systemctl status {unit} knows whether it exists; reading another user's entries takes"
        " root, or a member of systemd-journal or adm",
    )


def _missing(unit: str, offset: int, found: int) -> UnreadableLogError:
    if offset == 0:
        return UnreadableLogError("it does not run", "leave --invocation out: the last that ended")
    if offset > 0:
        return UnreadableLogError(
            f"there is no invocation {offset}", "0 is the one that runs, -1 the last that ended"
        )
    held = f"the oldest in the journal is {found}" if found < 0 else "none has ended yet"
    return UnreadableLogError(
        f"there is no invocation {offset}: {held}", f"journalctl -u {unit} shows what there is"
    )
