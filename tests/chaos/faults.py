"""The faults: each does one thing to the world, at once, and says in words what it did."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from random import Random

from tests.chaos.world import GPUS, INSTANCES, World
from vllm_warden.api.client import ApiError, DaemonUnreachable

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
    world.warden.start(wait_seconds=30)
    return f"SIGKILL of the daemon {pid}"


def kill_daemon_and_engine(world: World, random: Random) -> str:
    """What dies while nobody watches."""
    parents = world.parents()
    world.kill_daemon()
    name = random.choice([*INSTANCES])
    if name in parents:
        _kill(parents[name], signal.SIGKILL)
    time.sleep(random.uniform(0, 0.5))
    world.warden.start(wait_seconds=30)
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
    with contextlib.suppress(ApiError, DaemonUnreachable):
        world.warden.client.post(f"/v1/instances/{name}/{verb}")
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
)


def draw(random: Random) -> Fault:
    weights = [weight for weight, _ in FAULTS]
    return random.choices(FAULTS, weights)[0][1]
