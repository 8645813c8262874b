"""An idle engine proves itself by one full batch of the daemon's own, where that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wardens import Warden

pytestmark = pytest.mark.slow


def test_an_idle_engine_is_sent_a_full_batch_and_its_settings_are_proven(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    tables = "[instance.x.restart]\nload_probe = true\nsoak_seconds = 0"
    engine = "max_num_seqs = 64\nmax_num_batched_tokens = 2048"
    warden.write_config(instance("x", model, engine=engine, tables=tables))
    warden.start()
    warden.until_state("x", "ready", seconds=20)

    def told() -> list[str]:
        return [one["event"] for one in warden.events("x")]

    warden.until(lambda: "settings-proven" in told(), 20, "it is proven")
    assert told().index("load-probe-started") < told().index("settings-proven")
    (proven,) = [one for one in warden.events("x") if one["event"] == "settings-proven"]
    assert "a load probe of 64 requests" in proven["text"]
    assert warden.status("x")["state"] == "ready"
