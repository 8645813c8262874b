"""One contract for groups, spawner and children: the fakes end as real processes do."""

import asyncio
import os
import signal

import pytest

from tests.fakes.groups import FakeGroups
from tests.fakes.spawner import FakeSpawner
from vllm_warden.adapters.cgroup.groups import open_groups
from vllm_warden.adapters.cgroup.process_group import ProcessGroups
from vllm_warden.adapters.process.spawn import ProcessSpawner
from vllm_warden.core.plan.spec import LaunchPlan


class Rig:
    """Groups and a spawner, and how to make a child end."""

    def __init__(self, groups, spawner):
        self.groups = groups
        self.spawner = spawner
        self.fd = os.open("/dev/null", os.O_WRONLY)

    def spawn(self, group, seconds="600"):
        plan = LaunchPlan(
            instance="one",
            attempt=1,
            launch_id="00112233aabbccdd",
            argv=("sleep", seconds),
            environment={"PATH": os.environ["PATH"]},
            settings={},
        )
        child = self.spawner.spawn(plan, group, self.fd)
        if isinstance(self.spawner, FakeSpawner):
            child.on_signal = lambda number: child.exit(-number)
            if seconds == "0":
                child.exit(0)
        return child


@pytest.fixture(params=["fake", "cgroup", "process_group"])
def rig(request, tmp_path):
    if request.param == "fake":
        made = Rig(FakeGroups(), FakeSpawner())
    elif request.param == "cgroup":
        made = Rig(open_groups(tmp_path), ProcessSpawner())
    else:
        made = Rig(ProcessGroups(tmp_path / "groups"), ProcessSpawner())
    yield made
    for group in made.groups.leftovers():
        group.kill()
    os.close(made.fd)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


async def end_of(child):
    ended = asyncio.get_running_loop().create_future()
    child.watch_exit(ended.set_result)
    return await asyncio.wait_for(ended, 20)


def test_a_new_group_is_empty_and_no_leftover(rig):
    group = rig.groups.create("one", 1, "00112233aabbccdd")
    assert group.is_empty()
    assert group.pids() == ()
    assert group.path.endswith("instance-one/attempt-1-00112233")
    group.remove()
    assert list(rig.groups.leftovers()) == []
    group.remove()


def test_a_signal_ends_the_child_and_its_number_is_the_status(rig):
    async def scenario():
        group = rig.groups.create("one", 1, "00112233aabbccdd")
        child = rig.spawn(group)
        await until(lambda: group.pids() == (child.identity.pid,))
        assert [left.path for left in rig.groups.leftovers()] == [group.path]
        assert child.signal(signal.SIGTERM)
        assert await end_of(child) == -signal.SIGTERM
        await until(group.is_empty)
        assert not child.signal(signal.SIGTERM)
        group.remove()

    asyncio.run(scenario())


def test_a_group_that_a_child_is_about_to_enter_stays(rig):
    async def scenario():
        group = rig.groups.create("one", 1, "00112233aabbccdd")
        assert list(rig.groups.leftovers()) == []  # another instance looks for its remains
        child = rig.spawn(group)
        await until(lambda: group.pids() == (child.identity.pid,))
        group.kill()
        await until(group.is_empty)
        group.remove()

    asyncio.run(scenario())


def test_an_exit_before_anybody_watched_is_not_lost(rig):
    async def scenario():
        group = rig.groups.create("one", 1, "00112233aabbccdd")
        child = rig.spawn(group, "0")
        await until(lambda: group.pids() == ())
        assert await end_of(child) == 0
        group.remove()

    asyncio.run(scenario())


def test_killing_the_group_empties_it(rig):
    async def scenario():
        group = rig.groups.create("one", 1, "00112233aabbccdd")
        rig.spawn(group)
        await until(lambda: len(group.pids()) == 1)
        group.kill()
        await until(group.is_empty)
        group.remove()
        assert list(rig.groups.leftovers()) == []

    asyncio.run(scenario())


def test_counters_are_numbers(rig):
    assert rig.groups.oom_kills() >= 0
    limit = rig.groups.memory_limit_bytes()
    assert limit is None or limit > 1 << 20
