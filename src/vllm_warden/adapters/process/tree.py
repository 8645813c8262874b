"""Looks at the processes of an attempt: who is an engine process, who listens, what limits hold."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from vllm_warden.adapters.process.proc_files import (
    PROC,
    ProcessStat,
    command_words,
    read_bytes,
    read_stat,
)
from vllm_warden.adapters.process.sockets import listening_inodes, socket_inodes
from vllm_warden.adapters.process.watch_exit import watch_pidfd
from vllm_warden.core.diagnose.evidence import HostLimits
from vllm_warden.core.model import RemainingProcess

ENGINE_TITLE = re.compile(r"VLLM::(?P<kind>EngineCore|DPEngineCore|Worker)[A-Za-z0-9_]*")
"""Process titles as vLLM sets them; the API server and the DP coordinator hold no GPU memory."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessTree:
    """Satisfies ``daemon.ports.ProcessWatch``."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc

    def engine_processes(self, pids: Sequence[int], parent_pid: int) -> dict[int, str]:
        """Titles of the living engine cores and workers, by pid.

        A fork of one of them (a compile worker between fork and exec) wears the same title, so a
        core counts only below the API server or its launcher, a worker only below one of the
        cores or the API server.
        """
        titles = {pid: title for pid in pids if (title := self._title(pid)) is not None}
        stats = {pid: stat for pid in titles if (stat := self._living(pid)) is not None}
        launchers = {parent_pid}
        launchers.update(
            stat.ppid
            for stat in stats.values()
            if stat.ppid not in titles and self._is_child(stat.ppid, parent_pid)
        )
        cores = {
            pid
            for pid, stat in stats.items()
            if not titles[pid].startswith("VLLM::Worker") and stat.ppid in launchers
        }
        workers = {
            pid
            for pid, stat in stats.items()
            if titles[pid].startswith("VLLM::Worker") and stat.ppid in cores | launchers
        }
        return {pid: titles[pid] for pid in sorted(cores | workers)}

    def watch_end(self, pid: int, on_end: Callable[[], None]) -> bool:
        """Call ``on_end`` once in the event loop; False when the process is gone already."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        watch_pidfd(pidfd, on_end)
        return True

    def listens(self, pids: Sequence[int], port: int) -> bool:
        """True when one of the processes owns a listening TCP socket on that port.

        Looked up in the network namespace of the processes, which may differ from ours.
        """
        for pid in pids:
            inodes = listening_inodes(self._proc / str(pid) / "net", port)
            if inodes:
                return any(inodes & socket_inodes(one, self._proc) for one in pids)
        return False

    def limits(self, pid: int) -> HostLimits:
        """RLIMIT_AS of the process; the memory cgroup's limit is the group adapter's to know."""
        content = read_bytes(self._proc / str(pid) / "limits").decode("ascii", "replace")
        for line in content.splitlines():
            if line.startswith("Max address space"):
                soft = line.removeprefix("Max address space").split()[0]
                return HostLimits(address_space_bytes=int(soft) if soft.isdecimal() else None)
        return HostLimits()

    def address_space_bytes(self, pids: Sequence[int]) -> int | None:
        """Largest VmSize among them (first field of /proc/PID/statm, in pages)."""
        sizes = []
        for pid in pids:
            words = read_bytes(self._proc / str(pid) / "statm").split()
            if words and words[0].isdigit() and int(words[0]) > 0:
                sizes.append(int(words[0]) * PAGE_BYTES)
        return max(sizes, default=None)

    def remaining(self, pids: Sequence[int]) -> Sequence[RemainingProcess]:
        """Which of them are still there, with what the kernel says of each."""
        found = []
        for pid in pids:
            stat = self._living(pid)
            if stat is not None:
                name = read_bytes(self._proc / str(pid) / "comm").decode("utf-8", "replace").strip()
                waits_in = self._waits_in(pid) if stat.state == "D" else None
                found.append(RemainingProcess(pid, name, waits_in))
        return found

    def _waits_in(self, pid: int) -> str:
        function = read_bytes(self._proc / str(pid) / "wchan").decode("ascii", "replace").strip()
        return "" if function == "0" else function

    def _title(self, pid: int) -> str | None:
        title = command_words(pid, self._proc)[0].strip()
        return title if ENGINE_TITLE.fullmatch(title) else None

    def _living(self, pid: int) -> ProcessStat | None:
        stat = read_stat(pid, self._proc)
        return None if stat is None or stat.is_dead else stat

    def _is_child(self, pid: int, parent_pid: int) -> bool:
        stat = read_stat(pid, self._proc)
        return stat is not None and stat.ppid == parent_pid
