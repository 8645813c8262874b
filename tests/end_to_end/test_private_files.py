"""Other users of the host read nothing of what the daemon keeps."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wardens import Warden

pytestmark = pytest.mark.slow

DIES = "#!/bin/sh\ntouch $TMPDIR/mine && echo a prompt\numask\nexit 3\n"


@pytest.fixture
def open_warden() -> Iterator[Warden]:
    """In a directory that everybody may enter, as /var/lib is."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        made = Warden(directory, log_backend="file", environment={"LD_LIBRARY_PATH": ""})
        yield made
        if made.process is not None:
            made.stop()


def test_nothing_in_the_state_directory_is_for_everybody_while_an_engine_uses_it(
    open_warden: Warden, instance: Callable[..., str]
) -> None:
    warden = open_warden
    is_root = os.geteuid() == 0
    user = {"user": '"nobody"'} if is_root else {}
    model, program = warden.directory / "model", warden.directory / "bin" / "vllm"
    model.mkdir()
    (model / "config.json").write_text("{}")
    program.parent.mkdir()
    program.write_text(DIES)
    program.chmod(0o755)
    warden.write_config(instance("x", model, command=f'["{program}", "serve"]', **user))
    warden.start()
    warden.until(lambda: bool(warden.incidents("x")), 20, "an incident is opened")
    said = [line["text"] for line in warden.incidents("x")[0]["excerpt"]]
    assert said == ["a prompt", "0027"]  # so the engine reached its own directory

    state = warden.directory / "state"
    modes = {path: path.lstat().st_mode for path in (state, *state.rglob("*"))}
    assert {"history.db", "history.db-wal", "state.json", "log"} <= {path.name for path in modes}
    for path, mode in modes.items():
        allowed = 0o001 if is_root and stat.S_ISDIR(mode) else 0
        assert stat.S_IMODE(mode) & 0o007 & ~allowed == 0, (path, oct(mode))
