"""From degraded back to what was asked: retried, given for once, accepted, forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wardens import Warden
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import make_host
from vllm_warden.simulation.models import write_minimax_m25

pytestmark = pytest.mark.slow

UTILIZATION, SEQUENCES = "gpu_memory_utilization", "max_num_seqs"
ENGINE = """\
tensor_parallel_size = 4  # one a GPU
max_model_len = 131072
gpu_memory_utilization = 0.95   # as the vendor says
"""


@pytest.fixture
def host(tmp_path: Path, instance: Callable[..., str]) -> Iterator[Callable[[str], Warden]]:
    """Starts a daemon for MiniMax-M2.5 on four GPUs with these engine options."""
    made = _host(tmp_path)

    def start(engine: str) -> Warden:
        gpus = made.environment["WARDEN_SIMULATED_GPUS"]
        variables = f'{{ WARDEN_SIMULATED_SPEED = "200", WARDEN_SIMULATED_GPUS = "{gpus}" }}'
        model = write_minimax_m25(tmp_path / "model")
        text = instance("x", model, gpus="[0, 1, 2, 3]", environment=variables, engine=engine)
        made.write_config(text)
        made.config.chmod(0o640)
        made.start()
        return made

    yield start
    if made.process is not None:
        made.stop()


def _host(tmp_path: Path) -> Warden:
    gpus = make_host(tmp_path / "gpus", gpus=4)
    return Warden(tmp_path, log_backend="file", environment=driver_environment(gpus))


@pytest.fixture
def degraded(host: Callable[[str], Warden]) -> Warden:
    """Relaunched once with less, ready."""
    made = host(ENGINE)
    made.until(lambda: made.status("x")["attempt"] == 2, 60, "a second attempt")
    made.until_state("x", "ready", seconds=60)
    return made


def in_force(warden: Warden) -> dict[str, object]:
    return {one["name"]: one["in_force"] for one in warden.status("x")["settings"]}


def asked(warden: Warden) -> dict[str, object]:
    return {one["name"]: one["asked"] for one in warden.status("x")["settings"]}


def test_capacity_is_retried_given_accepted_and_what_was_learned_is_forgotten(
    degraded: Warden,
) -> None:
    warden = degraded
    learned = in_force(warden)
    assert warden.status("x")["degraded"]

    retried = warden.command("restart", "x", "--retry-capacity")
    assert retried.returncode == 1, retried.stdout + retried.stderr
    assert "back to the learned settings" in retried.stdout
    assert "x is ready, but not with what was to be tried: the asked settings" in retried.stdout
    assert in_force(warden) == learned
    assert warden.status("x")["attempt"] == 4
    tried = warden.client.get("/v1/instances/x")["attempts"]
    utilizations = [one["settings"][UTILIZATION] for one in tried]  # type: ignore[attr-defined]
    assert utilizations[:2] == [learned[UTILIZATION], 0.95]
    (incident,) = warden.incidents("x")  # the retry was made before anything was proven
    last = incident["further"][-1]
    assert incident["failures"] == 2
    assert (last["attempt"], last["decision"]["remedy"]) == (3, "relaunch_with")

    given = warden.command("restart", "x", "--set", f"{SEQUENCES}=128", "--json")
    assert given.returncode == 0, given.stdout + given.stderr
    trial = json.loads(given.stdout)["instance"]["trial"]
    assert trial["kind"] == "set"
    assert "uid" in trial["by"]
    assert in_force(warden) == {**learned, SEQUENCES: 128}
    assert warden.command("restart", "x").returncode == 0
    assert in_force(warden) == learned

    printed = warden.command("accept", "x")
    assert f"{UTILIZATION} = {learned[UTILIZATION]}  # was 0.95" in printed.stdout
    assert warden.config.read_text().count("0.95 ") == 1
    written = warden.command("accept", "x", "--write", "--json")
    assert written.returncode == 0, written.stdout + written.stderr
    text = warden.config.read_text()
    assert f"{UTILIZATION} = {learned[UTILIZATION]}   # as the vendor says" in text
    assert warden.config.stat().st_mode & 0o777 == 0o640
    event = json.loads(written.stdout)["event"]
    assert any(one["number"] == event for one in warden.events("x"))
    warden.until(lambda: not warden.status("x")["degraded"], 10, "nothing differs any more")
    assert asked(warden)[UTILIZATION] == learned[UTILIZATION]
    assert warden.command("accept", "x").returncode == 1

    assert warden.stop() == 0
    warden.start()
    status = warden.until_state("x", "ready", seconds=60)
    assert not status["degraded"]
    assert status["attempt"] == 7


def test_forgotten_settings_are_learned_anew(degraded: Warden) -> None:
    warden = degraded
    learned = in_force(warden)
    assert warden.command("forget", "x").returncode == 0
    assert in_force(warden) == learned  # it runs on as it is
    restarted = warden.command("restart", "x")

    assert restarted.returncode == 0, restarted.stdout + restarted.stderr
    assert warden.status("x")["attempt"] == 4
    assert in_force(warden) == learned


def test_a_file_that_has_changed_since_it_was_loaded_is_not_written(degraded: Warden) -> None:
    warden = degraded
    edited = warden.config.read_text() + "# a note\n"
    warden.config.write_text(edited)
    refused = warden.command("accept", "x", "--write")

    assert refused.returncode == 4
    assert "has changed since the daemon loaded it" in refused.stderr
    assert warden.config.read_text() == edited
    assert warden.status("x")["degraded"]


def test_a_start_that_will_die_at_the_first_full_batch_is_told_before_any_request(
    host: Callable[[str], Warden],
) -> None:
    warden = host(ENGINE.replace("0.95 ", "0.98 ") + "max_num_seqs = 64\n")
    status = warden.until_state("x", "ready", seconds=60)

    assert status["attempt"] == 1
    foreseen = status["foreseen"]
    assert "will die" in foreseen["text"]
    (planned,) = foreseen["changes"]
    assert (planned["setting"], planned["from"]) == (UTILIZATION, 0.98)
    assert 0.95 <= planned["to"] < 0.975
    assert "death-foreseen" in [one["event"] for one in warden.events("x")]
    assert "the first full batch will die" in " ".join(warden.command("status").stdout.split())
    told = " ".join(warden.command("why").stdout.split())
    assert "The start is healthy, but the first full batch will die" in told
    assert "left for a full batch" in told
