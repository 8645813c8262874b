"""Random lives with something learned: what is launched next is proven, and never known to be bad.

The expectations are kept here, by hand, and not read from what the instance has learned.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.core.lifecycle.machine_room import PROFILE_SAMPLER_OOM, MachineRoom
from tests.core.lifecycle.test_last_proven import SPEC, adoption, boot, crash, serving
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.states import State

SEQUENCES = st.sampled_from([1024, 768, 512, 256])


class Learned(RuleBasedStateMachine):
    """Always between a launch and its end; each rule that ends an attempt launches the next."""

    room: MachineRoom

    @initialize(runs=SEQUENCES, proven=st.none() | SEQUENCES, bad=st.lists(SEQUENCES, max_size=2))
    def something_is_learned(self, runs: int, proven: int | None, bad: list[int]) -> None:
        self.runs, self.proven, self.bad = runs, proven, set(bad)
        self.ready = proven
        self.is_ready = False
        self.room = serving(runs, proven, bad)

    @precondition(lambda self: not self.is_ready)
    @rule()
    def becomes_ready(self) -> None:
        self.room.ready()
        self.is_ready, self.ready = True, self.runs

    @precondition(lambda self: self.is_ready)
    @rule()
    def proves_itself(self) -> None:
        self.room.now += SPEC.restart.soak_seconds
        self.room.tell(ev.RequestsServed(self.room.now, self.room.attempt, 100))
        self.proven = self.runs
        self.bad.discard(self.runs)

    @precondition(lambda self: self.is_ready)
    @rule()
    def crashes(self) -> None:
        self._goes_on_with(crash(self.room))

    @precondition(lambda self: self.is_ready)
    @rule()
    def is_taken_over_and_crashes(self) -> None:
        assert adoption(self.room) in (self._expected(), *self._anything_else())

    @rule()
    def would_boot(self) -> None:
        if self.ready is not None:
            assert boot(self.room) in (self._expected(), *self._anything_else())

    @precondition(lambda self: not self.is_ready)
    @precondition(lambda self: self.runs > 256)
    @rule()
    def runs_out_of_memory_at_the_start(self) -> None:
        self.bad.add(self.runs)
        self.room.die(1, *PROFILE_SAMPLER_OOM)
        if self.room.is_in(State.WAITING):
            self.room.open_gate()
            self.runs = int(str(self.room.launches[-1].settings["max_num_seqs"]))

    def _expected(self) -> int | None:
        """The last proven; while none is, the last ready; never what is bad."""
        usable = [one for one in (self.proven, self.ready) if one not in (None, *self.bad)]
        return usable[0] if usable else None

    def _anything_else(self) -> list[int]:
        """Where both are bad nothing is promised."""
        return [1024, 768, 512, 256, 128] if self._expected() is None else []

    def _goes_on_with(self, sequences: object) -> None:
        assert sequences in (self._expected(), *self._anything_else())
        self.runs, self.is_ready = int(str(sequences)), False


Learned.TestCase.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
TestLearned = Learned.TestCase
