"""``diagnose`` on what is no log, or a damaged one: never an exception, never a guess."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.core.diagnose.sample_files import SAMPLES
from vllm_warden.adapters.log_source import file as log_file
from vllm_warden.cli.main import main

OOM = SAMPLES / "sampler-warmup-oom" / "composed.log"
FINE = SAMPLES / "none" / "advice-lines-of-a-healthy-start.log"


@pytest.fixture
def answer(capsys):
    def run(*words: object) -> tuple[int, list[dict[str, object]], str]:
        code = main(["diagnose", "--json", *map(str, words)])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return run


def written(tmp_path: Path, data: bytes, name: str = "x.log") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\0" * 5000,
        bytes(range(256)) * 2000,
        os.urandom(100_000),
        b"\xff\xfe",
        b"\xff\xfeA",
        b"\x1f\x8b",
        b"{" * 10_000,
        b'{"log": ' + b"[" * 10_000,
        b"hello\nworld\n",
    ],
    ids=["empty", "one line end", "zeros", "bytes", "random", "mark", "half a character",
         "two bytes of gzip", "braces", "deep json", "prose"],
)  # fmt: skip
def test_what_is_no_log_is_no_verdict(answer, tmp_path: Path, data: bytes) -> None:
    code, (found,), _ = answer(written(tmp_path, data))

    assert code == 1
    assert (found["failure"], found["confidence"]) == ("none", "likely")
    assert "no vLLM record" in str(found["summary"])


def test_a_log_that_ends_within_a_traceback_is_no_guess(answer, tmp_path: Path) -> None:
    whole = OOM.read_bytes()
    at = whole.index(b"torch.OutOfMemoryError")
    for cut in range(max(0, at - 2000), at, 97):
        code, (found,), _ = answer(written(tmp_path, whole[:cut]))

        assert code in (0, 1)
        assert found["failure"] in ("none", "unknown")


def test_every_cut_of_a_log_gets_an_answer(answer, tmp_path: Path) -> None:
    whole = OOM.read_bytes()
    for cut in range(0, len(whole), 211):
        code, (found,), _ = answer(written(tmp_path, whole[:cut]))

        assert code in (0, 1)
        assert found["failure"] in ("none", "unknown", "gpu_out_of_memory")


def test_mixed_encodings_do_not_hide_the_failure(answer, tmp_path: Path) -> None:
    lines = OOM.read_bytes().split(b"\n")
    noise = [
        "Größe: très élevée".encode("latin-1"),
        "模型".encode("gb18030"),
        "模型".encode(),
        b"\xff\xfe\x00",
    ]
    mixed = [each for line in lines for each in (line, noise[len(line) % 4])]
    _, (found,), _ = answer(written(tmp_path, b"\n".join(mixed)))

    assert found["signature"] == "sampler-warmup-oom"


def test_times_in_the_future_and_an_unknown_version_are_not_minded(answer, tmp_path: Path) -> None:
    data = OOM.read_bytes().replace(b"0.17.1", b"9.99.0")
    stamped = b"".join(b"2099-01-01T00:00:00Z " + line + b"\n" for line in data.split(b"\n"))
    _, (found,), _ = answer(written(tmp_path, stamped))

    assert (found["signature"], found["confidence"]) == ("sampler-warmup-oom", "extrapolated")
    assert found["around"] == ["time stamps"]


def test_an_unreadable_log_is_one_error_and_the_others_are_diagnosed(
    answer, tmp_path: Path
) -> None:
    code, found, errors = answer(tmp_path / "absent.log", OOM, tmp_path, FINE)

    assert code == 2
    assert [each["failure"] for each in found] == ["gpu_out_of_memory", "none"]
    assert errors.count("vllm-warden: cannot read") == 2
    assert "directory" in errors
    assert "Traceback" not in errors


def test_a_log_without_permission_is_named(tmp_path: Path) -> None:
    """In a child of another user, since root may read everything."""
    path = written(tmp_path, b"x")
    path.chmod(0)
    if os.geteuid() != 0:
        assert main(["diagnose", str(path)]) == 2
        return
    tmp_path.chmod(0o755)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.setgid(65534)
        os.setuid(65534)
        sys.stderr = os.fdopen(writing, "w")
        code = main(["diagnose", path.name])
        sys.stderr.flush()
        os._exit(code)
    os.close(writing)
    said = os.read(reading, 4096).decode()
    os.close(reading)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert said.startswith("vllm-warden: cannot read x.log: Permission denied\n")


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(answer, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(log_file, "FIRST_BYTE_SECONDS", 0.05)
    os.mkfifo(tmp_path / "pipe")
    code, found, errors = answer(tmp_path / "pipe")

    assert (code, found) == (2, [])
    assert "a pipe that nothing has written to" in errors


def test_a_pipe_with_a_slow_writer_is_read(answer, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(log_file, "FIRST_BYTE_SECONDS", 0.05)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)

    def write() -> None:
        threading.Event().wait(0.2)
        os.write(writer, OOM.read_bytes())
        os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    _, (found,), _ = answer(path)
    thread.join()
    os.close(reader)

    assert found["signature"] == "sampler-warmup-oom"


def test_a_shells_substitution_is_read() -> None:
    """Bash gives a pipe as /dev/fd/63."""
    program = f"{sys.executable} -m vllm_warden diagnose --json <(cat {OOM})"
    done = subprocess.run(["bash", "-c", program], check=False, capture_output=True, text=True)

    assert json.loads(done.stdout)["signature"] == "sampler-warmup-oom", done.stderr


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_log_is_known_by_its_first_bytes(answer, tmp_path, pack) -> None:
    _, (found,), errors = answer(written(tmp_path, pack(OOM.read_bytes()), "engine.log"))

    assert (found["signature"], errors) == ("sampler-warmup-oom", "")


def test_of_a_damaged_archive_what_can_be_read_is_read(answer, tmp_path: Path) -> None:
    packed = gzip.compress(OOM.read_bytes() + os.urandom(50_000))
    code, (found,), errors = answer(written(tmp_path, packed[:-20_000]))

    assert (code, found["signature"]) == (0, "sampler-warmup-oom")
    assert "damaged or ends early" in errors


@pytest.mark.parametrize(
    ("begin", "says"),
    [(b"LPKSHHRH", "journalctl --file"), (b"PK\x03\x04", "unzip -p"), (b"(\xb5/\xfd", "zstd -dc")],
)
def test_other_formats_are_named_with_what_to_do(answer, tmp_path, begin, says) -> None:
    if begin.startswith(b"(") and sys.version_info >= (3, 14):
        return  # that one is read
    code, found, errors = answer(written(tmp_path, begin + bytes(100)))

    assert (code, found) == (2, [])
    assert says in errors


def test_a_name_that_is_no_text_is_shown_as_well_as_it_can_be(answer, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.log"
    Path(os.fsdecode(path)).write_bytes(OOM.read_bytes())
    _, (found,), _ = answer(os.fsdecode(path))

    assert found["file"] == f"{tmp_path}/?.log"


def test_unknown_says_what_was_looked_at_and_what_to_attach(capsys, tmp_path: Path) -> None:
    head = "(EngineCore_DP0 pid=9) ERROR 11-29 12:00:00 [core.py:1] "
    frame = '  File "/x/vllm/v1/engine/core.py", line 1, in run'
    lines = ("Traceback (most recent call last):", frame, "NeverSeenError: of this")
    text = "".join(f"{head}{line}\n" for line in lines)
    code = main(["diagnose", str(written(tmp_path, text.encode()))])
    shown = capsys.readouterr().out

    assert code == 0
    assert "NeverSeenError: of this" in shown
    assert "lines 1 to 3" in shown
    assert "vllm collect-env" in shown


def test_a_reader_that_leaves_is_no_bug_and_no_unreadable_log() -> None:
    command = [sys.executable, "-m", "vllm_warden", "diagnose", "--json", *[str(OOM)] * 3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        said = child.stderr.read().decode()

    assert (child.returncode, said) == (141, "")
