"""A plan for an instance that a daemon runs knows what its attempts have measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.model_directories.models import MODELS
from tests.model_directories.write import write_model
from tests.wardens import Warden
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import make_host

pytestmark = pytest.mark.slow

ENGINE = """\
tensor_parallel_size = 4
max_model_len = 131072
gpu_memory_utilization = 0.9
max_num_seqs = 256
"""


@pytest.fixture
def host(tmp_path: Path, instance: Callable[..., str]) -> Iterator[Callable[..., Warden]]:
    """Starts a daemon for MiniMax-M2.5 on four GPUs with these engine options."""
    gpus = make_host(tmp_path / "gpus", gpus=4)
    made = Warden(tmp_path, log_backend="file", environment=driver_environment(gpus))

    def start(engine: str) -> Warden:
        variables = f'{{ WARDEN_SIMULATED_SPEED = "200", WARDEN_SIMULATED_GPUS = "{gpus}" }}'
        model = write_model(tmp_path / "model", MODELS["minimax-m2.5"])
        made.write_config(
            instance("x", model, gpus="[0, 1, 2, 3]", environment=variables, engine=engine)
        )
        made.start()
        return made

    yield start
    if made.process is not None and made.process.poll() is None:
        made.stop()


def planned(warden: Warden, *words: str) -> dict[str, Any]:
    done = warden.command("plan", "x", "--config", str(warden.config), "--json", *words)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def terms(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {term["name"]: term for term in plan["stages"][0]["terms"]}


def test_a_ready_attempt_takes_the_place_of_assumptions(host: Callable[..., Warden]) -> None:
    warden = host(ENGINE)
    warden.until_state("x", "ready", seconds=60)
    detail: Any = warden.client.get("/v1/instances/x")
    figures = detail["measured"]["figures"]
    plan = planned(warden)

    assert (detail["measured"]["attempt"], detail["measured"]["moment"]) == (1, "ready")
    assert plan["measured"]["figures"] == figures
    found = terms(plan)
    for name in ("weights", "CUDA graphs"):
        assert found[name]["source"] == "measured"
    assert found["weights"]["bytes"] == figures["weights_bytes"]
    assert abs(found["KV cache"]["bytes"] - figures["available_kv_bytes"]) < 2
    said = " ".join(warden.command("plan", "x", "--config", str(warden.config)).stdout.split())
    assert "measured by attempt 1 when it was ready" in said

    assert warden.stop() == 0
    without = planned(warden)
    assert without["measured"] is None
    assert terms(without)["weights"]["source"] == "read"
    said = " ".join(warden.command("plan", "x", "--config", str(warden.config)).stdout.split())
    assert "nothing measured is known: " in said

    warden.start()
    assert planned(warden)["measured"]["figures"] == figures
    other = planned(warden, "--vllm", "0.33.0")
    assert other["measured"] is None


def test_a_death_tells_too_and_a_changed_layout_keeps_only_what_still_holds(
    host: Callable[..., Warden],
) -> None:
    """0.95 leaves too little for the sampler: the death has printed weights, cache and graphs."""
    engine = ENGINE.replace("0.9\n", "0.95\n").replace("256", "1024")
    warden = host(engine + '\n[instance.x.adapt]\nmode = "observe"\n')
    warden.until_state("x", "held", seconds=60)
    detail: Any = warden.client.get("/v1/instances/x")

    assert detail["measured"]["moment"] == "death"
    assert terms(planned(warden))["weights"]["source"] == "measured"
    text = warden.config.read_text()
    warden.config.write_text(text.replace("tensor_parallel_size = 4", "tensor_parallel_size = 2"))
    assert terms(planned(warden))["weights"]["source"] == "read"
