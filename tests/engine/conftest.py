"""Real vLLM for the CPU under the real daemon, its log in a real journald."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.tiny_model import main as make_model
from tests.wardens import Warden, free_port

ROOT = Path(__file__).parents[2]
ENGINE = Path(os.environ.get("WARDEN_TEST_ENGINE", ROOT / ".venv-engine")) / "bin" / "vllm"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


LONGEST_FIRST = (
    "test_a_sampler_out_of_memory_below_an_address_limit_is_cured_by_one_decision",
    "test_cudas_own_words_in_real_frames_are_understood_and_cured",
    "test_a_killed_rank_is_seen_and_named_before_the_parent_gives_up",
    "test_a_killed_engine_core_is_a_crash_although_vllm_exits_with_status_zero",
    "test_an_allowed_shorter_context_takes_the_printed_estimate_in_one_relaunch",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Handed out one by one, the longest first, two workers end together."""
    last = len(LONGEST_FIRST)
    rank = {name: at for at, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.name, last))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny local models: ``bigvocab`` (the incident's vocabulary), ``tiny`` and ``long``."""
    directory = tmp_path_factory.mktemp("models")
    make_model([str(directory / "bigvocab"), "--vocab-size", "200064", "--hidden-size", "256"])
    make_model([str(directory / "tiny"), "--weights"])
    make_model([str(directory / "long"), "--max-position", "131072"])
    return directory


@pytest.fixture
def warden(tmp_path: Path) -> Iterator[Warden]:
    made = Warden(tmp_path, log_backend="journal", environment={})
    yield made
    if made.process is not None:
        made.stop()


@pytest.fixture(scope="session")
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One inductor cache for all tests: compiling the same tiny model again proves nothing.

    It lies in the directory that the processes of pytest-xdist share.
    """
    mine = tmp_path_factory.getbasetemp()
    cache = (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / "inductor"
    cache.mkdir(exist_ok=True)
    return cache


@pytest.fixture
def instance(compile_cache: Path) -> Callable[..., str]:
    """Writes one instance's tables; ``port`` is left out for a free one."""

    def write(
        name: str,
        model: Path,
        engine: str,
        *,
        command: list[str] | None = None,
        environment: dict[str, str] | None = None,
        adapt: str = "",
        port: int | None = None,
        more: str = "",
    ) -> str:
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(compile_cache)}
        variables = {**OFFLINE, **cache, **(environment or {})}
        shown = ", ".join(f'{key} = "{value}"' for key, value in variables.items())
        words = ", ".join(f'"{word}"' for word in command or [str(ENGINE), "serve"])
        return (
            f'[instance.{name}]\nmodel = "{model}"\ngpus = []\nport = {port or free_port()}\n'
            f"command = [{words}]\nenvironment = {{ {shown} }}\n{more}\n"
            f"[instance.{name}.engine]\n{engine}\n[instance.{name}.adapt]\n{adapt}\n"
        )

    return write
