"""Random lives keep their promises, those about time included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.core.lifecycle.machine_room import PROFILE_SAMPLER_OOM, MachineRoom
from vllm_warden.core.diagnose.evidence import LostProcess
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.found import FoundEngine
from vllm_warden.core.lifecycle.states import RUNNING, State
from vllm_warden.core.model import ProcessIdentity
from vllm_warden.core.plan.spec import InstanceSpec, RestartSpec

SPEC = InstanceSpec(
    "tiny",
    "/m",
    (),
    engine={"max_num_seqs": 1024, "max_num_batched_tokens": 2048},
    restart=RestartSpec(startup_failures_max=50, unchanged_repeats_max=40, crashes_max=40),
)
ENDS = (State.STOPPING, State.DIAGNOSING)


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.room = MachineRoom(SPEC)
        self.backoff_until: float | None = None
        self.launches_before = 0

    def tell(self, event: ev.Event) -> None:
        before = self.room.instance
        self.room.tell(event)
        after = self.room.instance
        if after.state is State.BACKOFF and before.state is not State.BACKOFF:
            self.backoff_until = min(self.room.timers.values(), default=self.room.now)
            decided = after.decision.delay_seconds if after.decision else 0.0
            self.backoff_until = self.room.now + decided
        if before.state is State.BACKOFF and after.state is State.WAITING:
            asked = isinstance(event, ev.StartRequested | ev.RestartRequested | ev.ResumeRequested)
            assert asked or self.backoff_until is None or self.room.now >= self.backoff_until - 1e-6

    @rule(kind=st.sampled_from([ev.StartRequested, ev.RestartRequested, ev.ResumeRequested]))
    def ask_to_run(self, kind: Any) -> None:
        self.tell(kind(self.room.now, "person"))

    @precondition(lambda self: self.room.attempt == 0)
    @precondition(lambda self: self.room.instance.state in (State.STOPPED, State.HELD))
    @rule(wanted=st.booleans())
    def an_engine_is_found(self, wanted: bool) -> None:
        """Once, before anything was launched by this daemon."""
        self.room.instance = replace(self.room.instance, wanted=wanted)
        identity = ProcessIdentity(77, 1, "boot")
        found = FoundEngine(3, "0badcafe", {"max_num_seqs": 64}, (), 0.0, identity)
        self.tell(ev.EngineFound(self.room.now, found))

    @rule(now=st.booleans(), keep=st.booleans())
    def ask_to_stop(self, now: bool, keep: bool) -> None:
        self.tell(ev.StopRequested(self.room.now, "person", now=now, keep_wanted=keep))

    @rule()
    def ask_to_hold(self) -> None:
        self.tell(ev.HoldRequested(self.room.now, "person"))

    @precondition(lambda self: self.room.looks)
    @rule(which=st.integers(0, 10), gate=st.sampled_from(["open", "wait", "fail"]))
    def answer_a_look(self, which: int, gate: str) -> None:
        looks = self.room.looks
        looks.append(looks.pop(which % len(looks)))
        before = self.room.instance
        if gate == "open":
            self.room.open_gate()
        else:
            self.room.close_gate(hopeless=gate == "fail")
        if before.state is not State.WAITING:
            assert self.room.instance is before

    @precondition(lambda self: self.room.alive)
    @rule(status=st.sampled_from([0, 1, -9, None]))
    def parent_exits(self, status: int | None) -> None:
        attempt = max(self.room.alive)
        self.room.alive.discard(attempt)
        self.tell(ev.ProcessExited(self.room.now, attempt, status))

    @precondition(lambda self: self.room.alive)
    @rule(title=st.sampled_from(["VLLM::EngineCore", "VLLM::Worker_TP1"]))
    def engine_process_is_lost(self, title: str) -> None:
        lost = LostProcess(5, title, None)
        self.tell(ev.EngineLost(self.room.now, max(self.room.alive), lost))

    @precondition(lambda self: self.room.alive)
    @rule()
    def becomes_ready(self) -> None:
        self.tell(ev.BecameReady(self.room.now, max(self.room.alive)))

    @precondition(lambda self: self.room.alive)
    @rule()
    def becomes_unready(self) -> None:
        self.tell(ev.BecameUnready(self.room.now, max(self.room.alive), "503"))

    @precondition(lambda self: self.room.is_in(State.STOPPING) and self.room.alive)
    @rule(left=st.integers(0, 3))
    def requests_are_left(self, left: int) -> None:
        self.tell(ev.RequestsLeft(self.room.now, max(self.room.alive), left))

    @precondition(lambda self: self.room.alive)
    @rule()
    def stalls(self) -> None:
        self.tell(ev.Stalled(self.room.now, max(self.room.alive), 600.0))

    @precondition(lambda self: self.room.collecting)
    @rule(oom=st.booleans())
    def evidence_arrives(self, oom: bool) -> None:
        self.room.alive.discard(self.room.collecting[-1])
        before = self.room.instance
        self.room.gather(*(PROFILE_SAMPLER_OOM if oom else ()))
        after = self.room.instance
        if after.state is State.BACKOFF and before.state is State.DIAGNOSING:
            assert after.decision is not None
            self.backoff_until = self.room.now + after.decision.delay_seconds

    @precondition(lambda self: self.room.releasing)
    @rule()
    def release_is_done(self) -> None:
        self.tell(ev.AttemptReleased(self.room.now, self.room.releasing.pop()))

    @precondition(lambda self: self.room.timers)
    @rule(which=st.integers(0, 20))
    def an_old_timer_fires_late_or_early(self, which: int) -> None:
        """The shell may deliver any timer at any time after its deadline, in any order."""
        numbers = sorted(self.room.timers)
        number = numbers[which % len(numbers)]
        self.room.now = max(self.room.now, self.room.timers.pop(number))
        self.tell(ev.TimerElapsed(self.room.now, number))

    @rule(seconds=st.floats(0, 400))
    def time_passes(self, seconds: float) -> None:
        self.room.now += seconds

    @invariant()
    def at_most_one_engine_is_alive(self) -> None:
        assert len(self.room.alive) <= 1

    @invariant()
    def an_engine_is_alive_only_where_one_may_be(self) -> None:
        if self.room.alive:
            assert self.room.instance.state in RUNNING | set(ENDS)

    @invariant()
    def a_launch_never_meets_an_older_attempt(self) -> None:
        if len(self.room.launches) > self.launches_before:
            self.launches_before = len(self.room.launches)
            assert not self.room.collecting
            assert not self.room.releasing

    @invariant()
    def whoever_waits_owns_a_live_timer_or_look(self) -> None:
        instance = self.room.instance
        if instance.state is State.BACKOFF:
            assert instance.timer in self.room.timers
        if instance.state is State.WAITING and instance.timer is not None:
            assert instance.timer in self.room.timers or instance.timer in self.room.looks

    @invariant()
    def an_end_is_always_under_way(self) -> None:
        instance = self.room.instance
        if instance.state is State.DIAGNOSING:
            assert self.room.collecting or instance.timer in self.room.timers
        if instance.state is State.STOPPING:
            assert self.room.releasing or instance.timer in self.room.timers

    @invariant()
    def reasons_are_never_empty(self) -> None:
        assert self.room.instance.reason


Life.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestLife = Life.TestCase
