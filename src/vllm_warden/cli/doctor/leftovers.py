"""Lists what dead engines left on this host; removes nothing."""

from __future__ import annotations

import pwd
import re
import time
from collections.abc import Iterator
from pathlib import Path

from vllm_warden.adapters.cgroup.naming import ATTEMPT, INSTANCE, is_of_an_attempt
from vllm_warden.adapters.process.proc_files import PROC, all_pids, command_words, read_stat
from vllm_warden.adapters.process.shared_memory import INIT, SHARED, list_shared, unused
from vllm_warden.adapters.process.tree import ENGINE_TITLE
from vllm_warden.cli.doctor.check import Check, State
from vllm_warden.cli.render import duration, size

NAME = "leftovers"
OF_ENGINES = re.compile(r"(?:psm_|sem\.mp-|vllm|nccl-|torch_|mp-)\S*")
"""How vLLM 0.8 to 0.33, torch, NCCL and Python's multiprocessing name files in /dev/shm."""
_ATTEMPT_GROUP = re.compile(f"/{INSTANCE.pattern}/{ATTEMPT.pattern}")
_TREE = re.compile(
    r"^(?:/.*)?/(?:vllm-warden-[0-9a-f]{8}|vllm-warden[^/]*\.service)/(?P<below>.+)$",
    re.MULTILINE,
)
"""A root that a daemon made itself, or its unit's cgroup."""
PIDS_TOLD = 8
YOUNG_SECONDS = 60.0
"""A file may be made a moment before it is used."""
MIB = 1 << 20


def check_leftovers(proc: Path = PROC, shared: Path = SHARED) -> Check:
    """Engine processes without a parent, what no warden can place, shared memory nobody uses."""
    details = (*_orphans(proc), *_strangers(proc), *_shared(proc, shared))
    if not details:
        return Check(NAME, State.OK, "no engine left anything behind on this host")
    return Check(
        NAME,
        State.WARN,
        f"engines left {len(details)} things behind on this host",
        details,
        "the daemon ends and removes only what it can prove to be its own; look at the rest, then "
        "remove it by hand",
    )


def _orphans(proc: Path) -> Iterator[str]:
    """Engine cores and workers without a parent: they hold their GPU memory for ever."""
    for pid in sorted(all_pids(proc)):
        title = command_words(pid, proc)[0].strip()
        stat = read_stat(pid, proc)
        if stat is None or stat.ppid != INIT or stat.is_dead or not ENGINE_TITLE.fullmatch(title):
            continue
        whose = "of a warden's attempt: its daemon ends it" if _is_ours(pid, proc) else "not ours"
        yield f"process {pid} ({_user(proc / str(pid))}, {title}) has no parent; {whose}"


def _is_ours(pid: int, proc: Path) -> bool:
    return _ATTEMPT_GROUP.search(_place(pid, proc)) is not None


def _strangers(proc: Path) -> Iterator[str]:
    """Groups in a warden's tree that are of no attempt, with their processes."""
    groups: dict[str, list[int]] = {}
    for pid in sorted(all_pids(proc)):
        for tree in _TREE.finditer(_place(pid, proc)):
            if not is_of_an_attempt(tree["below"]):
                groups.setdefault(tree[0], []).append(pid)
    for group, pids in groups.items():
        named = ", ".join(map(str, pids[:PIDS_TOLD]))
        more = f" and {len(pids) - PIDS_TOLD} more" if len(pids) > PIDS_TOLD else ""
        yield f"{group} holds process {named}{more}: in a warden's tree, of no attempt"


def _place(pid: int, proc: Path) -> str:
    """Its cgroup in version 2, with the cgroups of version 1 where it has such."""
    try:
        text = (proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(line.partition("::")[2] or line for line in text.splitlines())


def _shared(proc: Path, shared: Path) -> Iterator[str]:
    files = [file for file in list_shared(shared) if OF_ENGINES.fullmatch(file.name)]
    for file in sorted(unused(files, proc), key=lambda one: one.name):
        path = shared / file.name
        try:
            status = path.stat()
        except OSError:
            continue
        age = time.time() - status.st_mtime
        if age >= YOUNG_SECONDS:
            large = status.st_size >= MIB
            told = size(status.st_size) if large else f"{status.st_size} bytes"
            told += f", {_user(path)}, {duration(age)} old"
            yield f"{path}: {told}, and no process uses it"


def _user(path: Path) -> str:
    try:
        uid = path.stat().st_uid
    except OSError:
        return "?"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
