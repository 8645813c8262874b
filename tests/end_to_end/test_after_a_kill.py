"""What a daemon that was killed left on the disk goes at the next start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wardens import Warden

pytestmark = pytest.mark.slow


def test_temporary_directories_of_dead_attempts_go_and_a_living_ones_stays(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    temporary = warden.directory / "state" / "t"
    (temporary / "0badcafe").mkdir(parents=True)
    warden.write_config(instance("x", model))
    warden.start()
    warden.until_state("x", "ready", seconds=20)
    (first,) = temporary.iterdir()
    assert first.name != "0badcafe"
    assert warden.process is not None
    warden.process.kill()
    warden.process.wait()

    warden.start()

    warden.until_state("x", "ready", seconds=20)
    assert list(temporary.iterdir()) == [first]
    assert warden.stop() == 0
    assert list(temporary.iterdir()) == []
