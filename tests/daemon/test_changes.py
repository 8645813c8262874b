"""What people ask for becomes an event, or a refusal that says what to do instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from vllm_warden.api.service import ChangeRequest, Refused, Verb
from vllm_warden.core.lifecycle.events import (
    AcceptRequested,
    ForgetRequested,
    RestartRequested,
    StartRequested,
)
from vllm_warden.core.lifecycle.states import Attempt, Instance, State
from vllm_warden.core.lifecycle.trial import Trial, TrialKind
from vllm_warden.core.model import Actor
from vllm_warden.core.plan.spec import InstanceSpec
from vllm_warden.daemon.changes import event_of
from vllm_warden.daemon.config_file import ConfigFile, open_config_file

TEXT = '[instance.a]\nmodel = "/m"\ngpus = []\n[instance.a.engine]\nmax_num_seqs = 1024\n'
SPEC = InstanceSpec("a", "/m", (), engine={"max_num_seqs": 1024})
DEGRADED = replace(Instance(SPEC), changes={"max_num_seqs": 256}, state=State.READY)


def ask(
    verb: str,
    instance: Instance = DEGRADED,
    config: ConfigFile | None = None,
    uid: int = 0,
    **options: object,
) -> object:
    request = ChangeRequest("a", cast("Verb", verb), Actor(uid, 7, "x"), options)
    return event_of(instance, request, "uid 0", 5.0, config)


def test_capacity_is_retried_and_settings_are_given_over_those_in_force() -> None:
    assert ask("forget") == ForgetRequested(5.0, "uid 0")
    assert ask("restart") == RestartRequested(5.0, "uid 0")
    assert ask("restart", retry_capacity=True) == RestartRequested(
        5.0, "uid 0", trial=Trial(TrialKind.CAPACITY, "uid 0")
    )
    over = {"max_num_seqs": 256, "block_size": 32}
    assert ask("restart", set={"block_size": 32}, now=True) == RestartRequested(
        5.0, "uid 0", now=True, trial=Trial(TrialKind.GIVEN, "uid 0", over)
    )


def test_given_settings_with_a_retry_are_over_the_asked_ones() -> None:
    event = ask("restart", set={"block_size": 32}, retry_capacity=True)

    assert isinstance(event, RestartRequested)
    assert event.trial == Trial(TrialKind.GIVEN, "uid 0", {"block_size": 32})


def test_what_one_trial_was_given_is_no_base_for_the_next() -> None:
    first = Trial(TrialKind.GIVEN, "uid 0", {"block_size": 32})
    attempt = Attempt(1, {"max_num_seqs": 1024, "block_size": 32}, first.changes, 1.0, trial=first)
    tried = replace(DEGRADED, changes=first.changes, attempt=attempt)
    event = ask("restart", tried, set={"max_num_batched_tokens": 512})

    assert isinstance(event, RestartRequested)
    assert event.trial == Trial(TrialKind.GIVEN, "uid 0", {"max_num_batched_tokens": 512})


@pytest.mark.parametrize("state", [State.READY, State.STARTING, State.WAITING])
def test_a_start_that_would_change_nothing_points_to_restart(state: State) -> None:
    refused = ask("start", replace(DEGRADED, state=state), retry_capacity=True)

    assert isinstance(refused, Refused)
    assert (refused.status, refused.hint[:20]) == (409, "vllm-warden restart ")
    assert isinstance(ask("start", replace(DEGRADED, state=state)), StartRequested)


def test_given_settings_that_are_not_allowed_are_refused() -> None:
    as_admin = ask("restart", set={"trust_remote_code": True}, uid=54321)
    wrong = ask("restart", set={"port": 1})

    assert isinstance(as_admin, Refused)
    assert "only root" in as_admin.reason
    assert isinstance(wrong, Refused)
    assert wrong.status == 400


def test_settings_are_accepted_once_the_file_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(TEXT)
    config = open_config_file(path)
    before = ask("accept", config=config)
    path.write_text(TEXT.replace("1024", "256"))
    digest = config.digest
    after = ask("accept", config=config)

    assert isinstance(before, Refused)
    assert "does not ask for" in before.reason
    assert after == AcceptRequested(5.0, "uid 0", {"max_num_seqs": 256})
    assert config.digest != digest


def test_a_file_that_changed_elsewhere_too_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(TEXT)
    config = open_config_file(path)
    path.write_text(TEXT.replace("1024", "256").replace("gpus = []", "gpus = []\nport = 9000"))
    digest = config.digest
    refused = ask("accept", config=config)

    assert isinstance(refused, Refused)
    assert "changed elsewhere" in refused.reason
    assert config.digest == digest


def test_with_nothing_learned_or_no_file_there_is_nothing_to_accept() -> None:
    for refused in (ask("accept", Instance(SPEC)), ask("accept")):
        assert isinstance(refused, Refused)
        assert refused.status == 409
