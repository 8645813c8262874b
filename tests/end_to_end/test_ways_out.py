"""What cannot work ends at once and is told what would, from the model's own files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.model_directories.models import MODELS
from tests.model_directories.write import write_model
from tests.wardens import Warden
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import make_host

pytestmark = pytest.mark.slow

TWO_WITH_EXPERTS = """\
tensor_parallel_size = 2
enable_expert_parallel = true
max_model_len = 131072
gpu_memory_utilization = 0.95
"""
TP4 = "TP4: tensor_parallel_size 4 (4 GPUs)"
TP8_EP = "TP8+EP: tensor_parallel_size 8 with expert parallel (8 GPUs)"


@pytest.fixture
def host(tmp_path: Path, instance: Callable[..., str]) -> Iterator[Callable[..., Warden]]:
    """Starts a daemon for MiniMax-M2.5 on some of eight GPUs with these engine options."""
    gpus = make_host(tmp_path / "gpus", gpus=8)
    made = Warden(tmp_path, log_backend="file", environment=driver_environment(gpus))

    def start(engine: str, chosen: str = "[0, 1]") -> Warden:
        variables = f'{{ WARDEN_SIMULATED_SPEED = "200", WARDEN_SIMULATED_GPUS = "{gpus}" }}'
        model = write_model(tmp_path / "model", MODELS["minimax-m2.5"])
        made.write_config(instance("x", model, gpus=chosen, environment=variables, engine=engine))
        made.start()
        return made

    yield start
    if made.process is not None:
        made.stop()


def test_weights_too_large_for_two_gpus_are_refused_before_any_launch(
    host: Callable[..., Warden],
) -> None:
    warden = host(TWO_WITH_EXPERTS)
    status = warden.until_state("x", "failed", seconds=30)

    assert status["attempt"] == 0
    assert "107.16 GiB on each" in status["reason"]
    assert TP4 in status["reason"]
    assert TP8_EP in status["reason"]


def test_weights_that_die_while_loading_give_up_at_once_and_name_the_layouts(
    host: Callable[..., Warden],
) -> None:
    """An option that may load other bytes than the files hold keeps the gate from judging."""
    warden = host(TWO_WITH_EXPERTS + 'load_format = "auto"\n')
    status = warden.until_state("x", "failed", seconds=60)

    assert status["attempt"] == 1
    (incident,) = warden.incidents("x")
    assert (incident["diagnosis"]["failure"], incident["diagnosis"]["phase"]) == (
        "gpu_out_of_memory",
        "load",
    )
    assert incident["decision"]["remedy"] == "give_up"
    options = incident["decision"]["options"]
    assert TP4 in options
    assert TP8_EP in options
    assert any(line.startswith("cpu_offload_gb ") for line in options)
    told = " ".join(warden.command("why", "x").stdout.split())
    assert TP4 in told
    assert TP8_EP in told
