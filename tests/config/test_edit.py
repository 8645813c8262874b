"""Edits of the settings file change the asked options and nothing else, or are refused."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest

from vllm_warden.config.edit import EditRefusedError, digest_of, replace_file, with_options
from vllm_warden.core.model import SettingValue

TEXT = """\
# our engines
[daemon]
socket = "/s"   # short

[instance.a]
model = "/m"
gpus = [0]

[instance.a.engine]
# measured in May
max_num_seqs   = 1024      # as the team asked
gpu_memory_utilization = 0.95
kv_cache_dtype = "fp8" # note "quoted"

[instance.b]
model = "/n"
gpus = [1]
[instance.b.engine]
max_num_seqs = 1024
"""


def changed_lines(before: str, after: str) -> list[str]:
    return [line for line in after.splitlines() if line not in before.splitlines()]


def test_values_are_replaced_in_place_with_comments_and_blanks_kept() -> None:
    after = with_options(TEXT, "a", {"max_num_seqs": 256, "gpu_memory_utilization": 0.9183})

    assert changed_lines(TEXT, after) == [
        "max_num_seqs   = 256      # as the team asked",
        "gpu_memory_utilization = 0.9183",
    ]
    assert tomllib.loads(after)["instance"]["b"]["engine"] == {"max_num_seqs": 1024}


def test_text_is_replaced_too() -> None:
    after = with_options(TEXT, "a", {"kv_cache_dtype": "auto"})

    assert changed_lines(TEXT, after) == ['kv_cache_dtype = "auto" # note "quoted"']


@pytest.mark.parametrize(("instance", "line"), [("a", 13), ("b", 19)])
def test_an_option_that_was_not_there_is_put_at_the_end_of_its_table(
    instance: str, line: int
) -> None:
    after = with_options(TEXT, instance, {"enforce_eager": True})

    assert after.splitlines()[line] == "enforce_eager = true"
    assert tomllib.loads(after)["instance"][instance]["engine"]["enforce_eager"] is True


def test_a_missing_engine_table_is_added() -> None:
    text = '[instance.a]\nmodel = "/m"\ngpus = []'
    after = with_options(text, "a", {"max_num_seqs": 64})

    assert after.startswith(text)
    assert tomllib.loads(after)["instance"]["a"]["engine"] == {"max_num_seqs": 64}


def test_the_files_line_ends_are_kept() -> None:
    text = TEXT.replace("\n", "\r\n")
    after = with_options(text, "a", {"max_num_seqs": 256, "block_size": 16})

    assert "\n" not in after.replace("\r\n", "")


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        (
            'engine = { x = 1024, "y" = 2 } # z = 1 }\n',
            'engine = { x = 256, "y" = 2, z = 0.9 } # z = 1 }\n',
        ),
        ("engine = {}\n", "engine = { x = 256, z = 0.9 }\n"),
        ("engine.x = 1024 # c\n", "engine.x = 256 # c\nengine.z = 0.9\n"),
        (
            "[instance.a.engine]\nx = 1024\n[instance.a.engine.o]\np = 3\n",
            "[instance.a.engine]\nz = 0.9\nx = 256\n[instance.a.engine.o]\np = 3\n",
        ),
        (
            "[instance.a.engine.o]\np = 3",
            "[instance.a.engine.o]\np = 3\n\n[instance.a.engine]\nx = 256\nz = 0.9\n",
        ),
        (
            "[instance.a.engine]\nx = 1\ny = [\n 1,\n]\n",
            "[instance.a.engine]\nz = 0.9\nx = 256\ny = [\n 1,\n]\n",
        ),
    ],
)
def test_every_way_to_write_the_engine_table_is_kept(written: str, changed: str) -> None:
    instance = '[instance.a]\nmodel = "/m"  # ours\n'

    after = with_options(instance + written, "a", {"x": 256, "z": 0.9})

    assert after == instance + changed


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("instance = { a = { engine = { x = 1024 } } }\n", {"x": 256}),
        ("[instance.a]\nengine = { x.max_num_seqs = 5 } # }\n", {"x": 256}),
        ('[instance.a.engine]\nmax_num_seqs = """1024"""\n', {"max_num_seqs": 256}),
        ("[instance.a.engine]\nx = [\n1024\n]\n", {"x": 256}),
        ("[instance.a.engine]\nx = 1\n", {"x": [1, 2]}),
        ("[instance.b.engine]\nx = 1\n", {"x": 2}),
        ('[instance.a.engine]\ny = """\nx = 1\n"""\nx = 3 # " \n', {"z": {"a": 1}}),
    ],
)
def test_what_cannot_be_proven_is_refused(text: str, options: dict[str, SettingValue]) -> None:
    with pytest.raises(EditRefusedError, match="cannot edit the file"):
        with_options(text, "a", options)


def test_the_file_is_replaced_at_once_with_its_mode_through_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    real.write_text(TEXT)
    real.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(real, 65534, 65534)
    link.symlink_to(real)
    before = real.stat()

    assert replace_file(link, digest_of(TEXT.encode()), "x = 1\n") == TEXT.encode()

    after = real.stat()
    assert real.read_text() == "x = 1\n"
    assert link.is_symlink()
    assert after.st_ino != before.st_ino
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (
        0o640,
        before.st_uid,
        before.st_gid,
    )
    assert sorted(tmp_path.iterdir()) == [link, real]


def test_a_file_that_has_changed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(TEXT + "# newer\n")

    with pytest.raises(EditRefusedError, match="has changed since the daemon loaded it"):
        replace_file(path, digest_of(TEXT.encode()), "x = 1\n")

    assert path.read_text() == TEXT + "# newer\n"
    assert list(tmp_path.iterdir()) == [path]
