"""The main job: real vLLM dies for real reasons, and the warden does the right thing each time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import ENGINE, OFFLINE
from tests.wardens import Warden, complete, free_port, living, requests_running

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

BIG_VOCABULARY = """load_format = "dummy"
max_num_seqs = 2048
max_num_batched_tokens = 2048
kv_cache_memory_bytes = "256M"
"""
LIMITED = ["prlimit", "--as=6442450944", "--", str(ENGINE), "serve"]
EAGER = 'enforce_eager = true\nload_format = "dummy"\n'


def decided(warden: Warden, name: str) -> list[dict[str, Any]]:
    """Failures, less deaths without a root line (unknown), which are relaunched unchanged."""
    return [one for one in failures(warden, name) if one["diagnosis"]["failure"] != "unknown"]


def failures(warden: Warden, name: str) -> list[dict[str, Any]]:
    """Of all incidents, oldest first."""
    return [one for each in warden.incidents(name) for one in (each, *each["further"])]


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def pids_of(warden: Warden, name: str) -> list[int]:
    pids = warden.status(name)["pids"]
    return [pids["parent"], *(int(pid) for pid in pids["engine"])]


def test_a_sampler_out_of_memory_below_an_address_limit_is_cured_by_one_decision(
    warden: Warden, models: Path, instance: Callable[..., str]
) -> None:
    port = free_port()
    model = models / "bigvocab"
    warden.write_config(instance("a", model, BIG_VOCABULARY, command=LIMITED, port=port))
    warden.start()

    warden.until_state("a", "ready", seconds=900)
    (incident,) = decided(warden, "a")
    diagnosis, decision = incident["diagnosis"], incident["decision"]
    assert (diagnosis["failure"], diagnosis["phase"], diagnosis["site"]) == (
        "host_out_of_memory",
        "profile",
        "sampler",
    )
    assert decision["remedy"] == "relaunch_with"
    (change,) = decision["changes"]
    assert change["setting"] == "max_num_seqs"
    assert 256 <= change["to"] < 1024
    assert any("address-space limit 6.00 GiB" in line for line in decision["arithmetic"])
    assert complete(port, str(model))["choices"]

    told = warden.command("why", "a")
    assert told.returncode == 0
    for part in ("DefaultCPUAllocator", "max_num_seqs", str(change["to"])):
        assert part in told.stdout

    attempts = warden.status("a")["attempt"]
    assert warden.command("stop", "a").returncode == 0
    assert warden.command("start", "a", "--no-wait").returncode == 0
    warden.until(lambda: warden.status("a")["pids"]["parent"] is not None, 60, "it is launched")
    status = warden.status("a")
    assert status["attempt"] == attempts + 1
    in_force = {one["name"]: one["in_force"] for one in status["settings"]}
    assert in_force["max_num_seqs"] == change["to"]
    assert f"--max-num-seqs {change['to']} " in command_line(status["pids"]["parent"])


def test_cudas_own_words_in_real_frames_are_understood_and_cured(
    warden: Warden, models: Path, instance: Callable[..., str]
) -> None:
    port = free_port()
    environment = {
        "PYTHONPATH": str(Path(__file__).parent / "oomsim"),
        "OOMSIM_AT": "sampler",
        "OOMSIM_BUDGET": "1138166333",
        # compiling takes half a minute of each start, and (a) shows it
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_USE_AOT_COMPILE": "0",
    }
    model = models / "bigvocab"
    warden.write_config(instance("b", model, BIG_VOCABULARY, environment=environment, port=port))
    warden.start()

    warden.until_state("b", "ready", seconds=900)
    (incident,) = decided(warden, "b")
    diagnosis = incident["diagnosis"]
    assert (diagnosis["failure"], diagnosis["phase"], diagnosis["site"]) == (
        "gpu_out_of_memory",
        "profile",
        "sampler",
    )
    assert diagnosis["figures"]["dummy_requests"] == 2048
    assert any("warming up sampler with 2048" in one["text"] for one in diagnosis["evidence"])
    (change,) = incident["decision"]["changes"]
    assert change["setting"] == "max_num_seqs"
    assert change["to"] * 200_064 * 4 <= 1_138_166_333
    assert complete(port, str(model))["choices"]


KV_TOO_SMALL = EAGER + 'kv_cache_memory_bytes = "16M"\nmax_num_seqs = 64\n'


def test_a_context_that_does_not_fit_is_held_because_it_may_not_be_shortened(
    warden: Warden, models: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("c", models / "long", KV_TOO_SMALL))
    warden.start()

    status = warden.until_state("c", "held", seconds=400)
    (incident,) = decided(warden, "c")
    assert incident["diagnosis"]["failure"] == "kv_cache_too_small"
    assert status["attempt"] == len(failures(warden, "c"))
    assert "max_model_len" in status["reason"]
    assert any("max_model_len" in option for option in incident["decision"]["options"])


def test_an_allowed_shorter_context_takes_the_printed_estimate_in_one_relaunch(
    warden: Warden, models: Path, instance: Callable[..., str]
) -> None:
    adapt = "max_model_len = { min = 4096 }"
    warden.write_config(instance("c2", models / "long", KV_TOO_SMALL, adapt=adapt))
    warden.start()

    warden.until_state("c2", "ready", seconds=600)
    (incident,) = decided(warden, "c2")
    estimate = incident["diagnosis"]["figures"]["estimated_max_model_len"]
    (change,) = incident["decision"]["changes"]
    assert (change["setting"], change["to"]) == ("max_model_len", estimate)


def test_an_unknown_flag_is_given_up_at_once_and_named(
    warden: Warden, models: Path, instance: Callable[..., str]
) -> None:
    engine = EAGER + "no_such_option = 1\n"
    warden.write_config(instance("d", models / "tiny", engine))
    warden.start()

    status = warden.until_state("d", "failed", seconds=120)
    (incident,) = warden.incidents("d")
    assert status["attempt"] == 1
    assert incident["diagnosis"]["failure"] == "configuration_invalid"
    assert incident["decision"]["remedy"] == "give_up"
    assert "--no-such-option" in str(incident["diagnosis"]["figures"])
    assert "--no-such-option" in warden.command("why", "d").stdout


def test_a_killed_engine_core_is_a_crash_although_vllm_exits_with_status_zero(
    warden: Warden, models: Path, instance: Callable[..., str]
) -> None:
    port = free_port()
    engine = EAGER + 'kv_cache_memory_bytes = "64M"\n'
    warden.write_config(instance("e", models / "tiny", engine, port=port))
    warden.start()
    warden.until_state("e", "ready", seconds=400)
    pids = warden.status("e")["pids"]["engine"]
    core = next(int(pid) for pid, title in pids.items() if title.startswith("VLLM::EngineCore"))

    os.kill(core, signal.SIGKILL)

    warden.until(lambda: bool(warden.incidents("e")), 30, "an incident is opened")
    warden.until_state("e", "ready", seconds=400)
    (incident,) = warden.incidents("e")
    assert incident["diagnosis"]["failure"] == "killed_by_signal"
    assert incident["decision"]["remedy"] == "relaunch"
    assert warden.status("e")["attempt"] == 2
    assert not warden.status("e")["degraded"]
    assert complete(port, str(models / "tiny"))["choices"]
    _stop_loses_no_request(warden, port, str(models / "tiny"))


def _stop_loses_no_request(warden: Warden, port: int, model: str) -> None:
    """What has begun is finished; how much is left vLLM may be too busy to say."""
    with ThreadPoolExecutor(1) as others:
        answer = others.submit(complete, port, model, tokens=1500)
        warden.until(lambda: requests_running(port) == 1, 30, "the request runs")
        stop = warden.command("stop", "e")
        assert answer.result(60)["usage"]["completion_tokens"] == 1500
    assert stop.returncode == 0


def test_a_killed_rank_is_seen_and_named_before_the_parent_gives_up(
    warden: Warden, models: Path, instance: Callable[..., str]
) -> None:
    engine = EAGER + 'kv_cache_memory_bytes = "64M"\ntensor_parallel_size = 2\n'
    environment = {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    }
    warden.write_config(instance("f", models / "tiny", engine, environment=environment))
    warden.start()
    warden.until_state("f", "ready", seconds=600)
    before = pids_of(warden, "f")
    pids = warden.status("f")["pids"]["engine"]
    rank1 = next(int(pid) for pid, title in pids.items() if title == "VLLM::Worker_TP1")

    killed_at = time.monotonic()
    os.kill(rank1, signal.SIGKILL)

    warden.until(lambda: bool(warden.incidents("f")), 30, "an incident is opened")
    # vLLM's parent needs ten seconds to notice, and exits 0 then
    assert time.monotonic() - killed_at < 9
    (incident,) = warden.incidents("f")
    assert incident["diagnosis"]["failure"] == "killed_by_signal"
    assert incident["diagnosis"]["ranks"] == [1]
    warden.until_state("f", "ready", seconds=600)
    assert living(before) == []
    after = pids_of(warden, "f")
    warden.stop()
    assert living(after) == []


def test_the_drop_in_stands_in_front_of_a_whole_command_line_and_ends_with_its_reason(
    models: Path, tmp_path: Path
) -> None:
    port = free_port()
    line = [*LIMITED, str(models / "long"), "--load-format", "dummy", "--enforce-eager"]
    line += ["--kv-cache-memory-bytes", "16M", "--port", str(port)]
    state = tmp_path / "state"
    ran = subprocess.run(
        [sys.executable, "-m", "vllm_warden", "serve", "--state-directory", str(state), *line],
        env={**os.environ, **OFFLINE},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert ran.returncode == 1, ran.stderr
    assert "max seq len" in ran.stdout
    assert "max_model_len may not be changed" in ran.stderr.splitlines()[-1]
