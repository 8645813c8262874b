"""The built-in load of an idle engine: when it is sent, and what its end means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.lifecycle.test_serving_deaths import HOUR, SPEC, Life
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.slack import Slack
from vllm_warden.core.lifecycle import effects as fx
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.machine import step
from vllm_warden.core.lifecycle.states import Attempt
from vllm_warden.core.lifecycle.trial import Trial, TrialKind
from vllm_warden.core.model import GIB
from vllm_warden.core.plan.spec import ModelFacts, RestartSpec

ROOM = Slack(4.0 * GIB, 1.0 * GIB, "", ())
SHORT = Slack(-1.0 * GIB, 1.0 * GIB, "the first full batch will die", ())
ENGINE = {"gpu_memory_utilization": 0.95, "max_num_seqs": 64, "max_num_batched_tokens": 8192}


class Probed(Life):
    """Allowed to be probed; its effects are kept."""

    def __init__(self, *, allowed: bool = True) -> None:
        super().__init__()
        restart = RestartSpec(load_probe=allowed)
        spec = replace(SPEC, engine=ENGINE, restart=restart)
        self.instance = replace(self.instance, spec=spec)
        self.effects: list[fx.Effect] = []

    def tell(self, event: ev.Event) -> None:
        before = self.instance
        super().tell(event)
        if hasattr(self, "effects"):
            self.effects += step(before, event)[1]

    def idle(self, seconds: float, slack: Slack | None = ROOM, **more: object) -> None:
        """Ready with this slack, nobody asks for so long, and then the requests are counted."""
        self.serve(0, requests=0)
        self.with_attempt(slack=slack, **more)
        self.count(seconds)

    def with_attempt(self, **more: object) -> None:
        attempt = self.instance.attempt
        assert attempt is not None
        changed: Attempt = replace(attempt, **more)  # type: ignore[arg-type]
        self.instance = replace(self.instance, attempt=changed)

    def count(self, seconds: float, total: int = 0, *, idle: bool = True) -> None:
        self.now += seconds
        self.tell(ev.RequestsServed(self.now, self.instance.attempts_made, total, idle))

    def answered(self, problem: str | None = None, *, busy: bool = False) -> None:
        number = self.instance.attempts_made
        self.tell(ev.LoadProbed(self.now, number, 64, problem, busy))

    @property
    def sent(self) -> list[fx.ProbeLoad]:
        return [one for one in self.effects if isinstance(one, fx.ProbeLoad)]

    @property
    def told(self) -> list[str]:
        return [one.event for one in self.effects if isinstance(one, fx.Announce)]


def test_an_engine_that_was_idle_for_the_soak_is_sent_one_full_batch_and_is_proven_by_it() -> None:
    life = Probed()
    life.idle(HOUR)
    life.count(60)

    assert life.sent == [fx.ProbeLoad(1, 64, 128, 1000)]
    place = life.effects.index(life.sent[0])
    before = life.effects[place - 1]
    assert isinstance(before, fx.Announce)
    assert before.event == "load-probe-started"
    life.answered()
    assert life.instance.envelope.proven == {}
    assert "settings-proven" in life.told


@pytest.mark.parametrize("why", ["off", "early", "busy", "held", "given", "forgotten"])
def test_it_is_not_sent_where_it_is_not_wanted_or_would_teach_nothing(why: str) -> None:
    life = Probed(allowed=why != "off")
    life.idle(60)
    given = Trial(TrialKind.GIVEN, "uid 0", {"max_num_seqs": 32})
    life.with_attempt(trial=given if why == "given" else None, forgotten=why == "forgotten")
    life.instance = replace(life.instance, held_by="uid 0" if why == "held" else None)
    life.count(60 if why == "early" else HOUR, idle=why != "busy")

    assert life.sent == []


@pytest.mark.parametrize(("slack", "says"), [(SHORT, "will die"), (None, "is not known")])
def test_what_would_kill_the_engine_is_announced_and_not_sent(
    slack: Slack | None, says: str
) -> None:
    life = Probed()
    life.idle(HOUR, slack)
    life.count(60)

    assert life.sent == []
    (told,) = [
        one
        for one in life.effects
        if isinstance(one, fx.Announce) and one.event == "load-probe-withheld"
    ]
    assert says in told.text


def test_a_probe_that_was_broken_off_comes_again_and_one_that_failed_does_not() -> None:
    life = Probed()
    life.idle(HOUR)
    life.answered("requests came", busy=True)
    life.count(60)
    assert len(life.sent) == 2
    life.answered("3 of 64 requests were not answered")
    life.count(60)

    assert len(life.sent) == 2
    assert life.instance.envelope.proven is None


def test_the_requests_of_a_probe_are_no_real_ones() -> None:
    life = Probed()
    life.idle(HOUR)
    life.answered("3 of 64 requests were not answered")
    life.count(60, total=64 + 99)
    assert life.instance.envelope.proven is None
    life.count(60, total=64 + 100)

    assert life.instance.envelope.proven == {}


def test_a_death_by_the_probe_goes_on_with_the_incident_and_changes_the_settings() -> None:
    life = Probed()
    life.serve(60, requests=0)
    life.die()
    life.idle(HOUR)
    assert life.resolved == []

    assert life.die() is Remedy.RELAUNCH_WITH
    assert [one.continues for one in life.incidents] == [False, True]


def test_the_incident_ends_when_the_probe_is_over() -> None:
    life = Probed()
    life.serve(60, requests=0)
    life.die()
    life.idle(HOUR)
    life.answered()

    assert life.resolved == ["attempt 2 has proven its settings: a load probe of 64 requests"]


def test_a_long_prompt_fits_the_context_and_the_vocabulary_is_the_models() -> None:
    life = Probed()
    life.serve(0, requests=0)
    engine = {**ENGINE, "max_num_seqs": 1, "max_model_len": 512}
    life.with_attempt(slack=ROOM, settings=engine)
    life.instance = replace(life.instance, model=ModelFacts(vocab_size=256))
    life.count(HOUR)

    assert life.sent == [fx.ProbeLoad(1, 1, 508, 256)]
