"""The faults: each does one thing to the world, at once, and says in words what it did."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.chaos.world import GPUS, INSTANCES, World

Fault = Callable[[World, Random], str]


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def kill_daemon(world: World, _: Random) -> str:
    """The next daemon is there a moment later, as systemd would do it."""
    pid = world.daemon_pid
    world.kill_daemon()
    world.start_daemon()
    return f"SIGKILL of the daemon {pid}"


def kill_daemon_and_engine(world: World, random: Random) -> str:
    """What dies while nobody watches."""
    parents = world.parents()
    world.kill_daemon()
    name = random.choice([*INSTANCES])
    if name in parents:
        _kill(parents[name], signal.SIGKILL)
    time.sleep(random.uniform(0, 0.5))
    world.start_daemon()
    return f"SIGKILL of the daemon, and of {name}'s API server meanwhile"


def signal_parent(world: World, random: Random) -> str:
    """Nobody asked the warden for it, whether it is a SIGKILL or somebody else's SIGTERM."""
    parents = world.parents()
    if not parents:
        return "no API server to end"
    name = random.choice(sorted(parents))
    number = random.choice([signal.SIGKILL, signal.SIGTERM])
    _kill(parents[name], number)
    return f"{number.name} to {name}'s API server {parents[name]}"


def kill_engine_process(world: World, random: Random) -> str:
    name = random.choice([*INSTANCES])
    pids = world.engine_pids(name)
    if not pids:
        return f"no engine process of {name} to kill"
    pid = random.choice(pids)
    _kill(pid, signal.SIGKILL)
    return f"SIGKILL of {name}'s engine process {pid}"


def kill_anything(world: World, random: Random) -> str:
    """Any process of any attempt, whatever it is, at whatever moment of a start."""
    pids = [pid for attempts in world.groups().values() for one in attempts.values() for pid in one]
    if not pids:
        return "no process to kill"
    pid = random.choice(sorted(pids))
    _kill(pid, signal.SIGKILL)
    return f"SIGKILL of process {pid}"


def freeze_and_thaw(world: World, random: Random) -> str:
    parents = world.parents()
    if not parents:
        return "nothing to stop"
    name = random.choice(sorted(parents))
    if _kill(parents[name], signal.SIGSTOP):
        time.sleep(random.uniform(0.1, 1.0))
        _kill(parents[name], signal.SIGCONT)
    return f"SIGSTOP and SIGCONT of {name}'s API server"


def ask(world: World, random: Random) -> str:
    """A person asks for something, twice as often for a start."""
    name = random.choice([*INSTANCES])
    verb = random.choice(["start", "start", "stop", "restart", "hold", "resume"])
    world.ask(name, verb)
    return f"{verb} {name}"


def lose_gpu(world: World, random: Random) -> str:
    """The driver says GPU is lost, for a moment."""
    gpu = random.randrange(GPUS)
    error = world.gpus / f"gpu{gpu}" / "error"
    error.write_text(random.choice(["15", "999"]))
    time.sleep(random.uniform(0.1, 1.5))
    error.unlink()
    return f"GPU {gpu} could not be read for a moment"


def slow_driver(world: World, random: Random) -> str:
    delay = world.gpus / f"gpu{random.randrange(GPUS)}" / "delay_ms"
    delay.write_text("800")
    time.sleep(random.uniform(0.2, 2.0))
    delay.unlink()
    return "NVML was slow for a moment"


def freeze_daemon(world: World, random: Random) -> str:
    """A host that swaps, or a debugger: everything happens to the daemon at once afterwards."""
    pid = world.daemon_pid
    _kill(pid, signal.SIGSTOP)
    name = random.choice([*INSTANCES])
    if victims := world.living(name):
        _kill(random.choice(victims), signal.SIGKILL)
    time.sleep(random.uniform(0.5, 3.0))
    _kill(pid, signal.SIGCONT)
    return f"SIGSTOP and SIGCONT of the daemon {pid}, a process of {name} killed meanwhile"


def jump_in_time(world: World, random: Random) -> str:
    """Somebody sets the time of day, or the host gets it from the network at last."""
    off = random.choice([0, -86400, -3600, -5, 5, 3600, 86400, 10 * 365 * 86400])
    world.clock.jump(off)
    return f"the daemon's wall clock is off by {off} s"


def fill_disk(world: World, random: Random) -> str:
    """No room in the state directory for a moment, in which something else happens as well."""
    meanwhile = random.choice([signal_parent, kill_engine_process, kill_daemon, ask])
    world.disk.fill()
    try:
        time.sleep(random.uniform(0, 0.5))
        told = meanwhile(world, random)
        time.sleep(random.uniform(0, 2.0))
    finally:
        world.disk.empty()
    return f"the disk was full, and {told}"


def lose_log(world: World, random: Random) -> str:
    """Somebody tidies up: the log of an engine that runs is emptied, or removed."""
    name = random.choice([*INSTANCES])
    logs = sorted((world.directory / "state" / "log" / name).glob("*.log"), key=_age)
    if not logs:
        return f"no log of {name} to lose"
    newest = logs[-1]
    if random.random() < 0.5:
        newest.unlink()
        return f"the log of {name} was removed: {newest.name}"
    os.truncate(newest, 0)
    return f"the log of {name} was emptied: {newest.name}"


def _age(log: Path) -> float:
    return log.stat().st_mtime


FAULTS: tuple[tuple[int, Fault], ...] = (
    (4, kill_daemon),
    (2, kill_daemon_and_engine),
    (5, signal_parent),
    (4, kill_engine_process),
    (4, kill_anything),
    (1, freeze_and_thaw),
    (4, ask),
    (1, lose_gpu),
    (1, slow_driver),
    (1, freeze_daemon),
    (1, jump_in_time),
    (1, fill_disk),
    (1, lose_log),
)


def draw(world: World, random: Random) -> Fault:
    able = [one for one in FAULTS if one[1] is not fill_disk or world.disk.problem is None]
    weights = [weight for weight, _ in able]
    return random.choices(able, weights)[0][1]
