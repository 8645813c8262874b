"""NVML's worse days: no library, a reset GPU, hidden memory figures, secrets in command lines."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pynvml
import pytest

from vllm_warden.adapters.nvml import gpus as gpus_module
from vllm_warden.adapters.nvml import who
from vllm_warden.adapters.nvml.gpus import NvmlGpus
from vllm_warden.adapters.nvml.who import command_of, user_of
from vllm_warden.simulation.build import nvml_library


@pytest.fixture
def host(tmp_path, monkeypatch):
    import ctypes

    ctypes.CDLL(str(nvml_library()))
    monkeypatch.setenv("WARDEN_SIMULATED_GPUS", str(tmp_path))
    for index in range(8):
        (tmp_path / f"gpu{index}" / "procs").mkdir(parents=True)
    return tmp_path


def test_without_the_library_the_reason_says_so():
    """In a process of its own, where no stand-in was ever loaded."""
    script = (
        "from vllm_warden.adapters.nvml.gpus import NvmlGpus\n"
        "from vllm_warden.adapters.nvml.errors import GpusUnavailable\n"
        "import pynvml\n"
        "def missing(*_): raise OSError('libnvidia-ml.so.1')\n"
        "pynvml.CDLL = missing\n"
        "try: NvmlGpus().memory()\n"
        "except GpusUnavailable as error: print(error.reason)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "cannot start NVML" in done.stdout, done.stderr
    assert "driver" in done.stdout


def test_a_gpu_that_was_lost_is_found_again_after_its_reset(host, monkeypatch):
    monkeypatch.setattr(gpus_module, "RESTART_SECONDS", 0.0)
    (host / "gpu1" / "error").write_text("15")
    gpus = NvmlGpus()
    first = gpus.memory()
    assert first[1].error is not None
    assert (first[0].lost, first[1].lost) == (False, True)
    assert first[1].index == 1
    assert first[0].error is None
    (host / "gpu1" / "error").unlink()
    assert gpus.memory()[1].error is None
    gpus.close()


def test_nvml_is_not_started_anew_at_every_reading_of_a_broken_gpu(host, monkeypatch):
    starts = []
    real = pynvml.nvmlInit

    def counted():
        starts.append(1)
        real()

    monkeypatch.setattr(pynvml, "nvmlInit", counted)
    (host / "gpu1" / "error").write_text("15")
    gpus = NvmlGpus()
    for _ in range(20):
        gpus.memory()
    assert len(starts) == 1
    gpus.close()


def test_memory_that_belongs_to_nobody_is_not_free(host):
    gpus = NvmlGpus()
    before = gpus.memory()[0].free_bytes
    (host / "gpu0" / "stuck").write_text(str(5 << 30))
    [reading] = gpus.memory_with_holders()[:1]
    assert reading.free_bytes == before - (5 << 30)
    assert reading.holders == ()
    gpus.close()


def test_what_the_driver_keeps_for_itself_is_told_apart(host):
    (host / "gpu0" / "reserved").write_text(str(600 << 20))
    gpus = NvmlGpus()
    reading = gpus.memory()[0]
    assert reading.reserved_bytes == 600 << 20
    assert reading.cuda_total_bytes == reading.free_bytes
    gpus.close()


def test_a_reading_of_eight_gpus_is_cheap_enough_for_every_second(host):
    gpus = NvmlGpus()
    gpus.memory()
    before = time.process_time()
    for _ in range(50):
        gpus.memory()
    used = (time.process_time() - before) / 50
    gpus.close()
    assert used < 0.01  # the stand-in reads dozens of files for it; the real driver none


def reads_so_far():
    [line] = [
        line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("syscr:")
    ]
    return int(line.split()[1])


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_host_at_rest_is_read_without_opening_its_files(host, sleeper):
    """Otherwise a daemon at rest would be measured by what the stand-in costs."""
    (host / "gpu0" / "procs" / str(sleeper.pid)).write_text(str(5 << 30))
    time.sleep(0.1)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    gpus = NvmlGpus()
    for _ in range(2):
        first = gpus.memory()
    before = reads_so_far()
    counting = reads_so_far() - before
    for _ in range(10):
        assert gpus.memory() == first
    assert reads_so_far() - before - counting <= counting
    gpus.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def test_what_a_file_says_counts_at_once_however_soon_it_is_written_again(host, sleeper):
    procs = host / "gpu0" / "procs"
    gpus = NvmlGpus()
    free = gpus.memory()[0].free_bytes
    for gib in range(10, 60):
        (procs / str(sleeper.pid)).write_text(str(gib << 30))
        assert gpus.memory()[0].free_bytes == free - (gib << 30)
        (host / "gpu0" / "error").write_text("15")
        assert gpus.memory()[0].error is not None
        (host / "gpu0" / "error").unlink()
        (procs / str(sleeper.pid)).unlink()
        assert gpus.memory()[0].free_bytes == free
    gpus.close()


def test_a_process_that_ended_holds_nothing_even_before_its_parent_has_taken_note(host, sleeper):
    gpus = NvmlGpus()
    free = gpus.memory()[0].free_bytes
    (host / "gpu0" / "procs" / str(sleeper.pid)).write_text(str(5 << 30))
    time.sleep(0.1)  # the folder has been the same for a while, and is not read again
    for _ in range(2):
        assert gpus.memory()[0].free_bytes == free - (5 << 30)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    for _ in range(2):
        assert gpus.memory()[0].free_bytes == free
    gpus.close()


def test_a_holder_is_named_by_user_and_program_without_its_secrets():
    script = "import time; print(flush=True); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "--api-key", "SECRETVALUE"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()  # the kernel knows the command line only some time after exec
    try:
        assert command_of(process.pid) == sys.executable
        assert user_of(process.pid) != "?"
    finally:
        process.kill()
        process.wait()
    assert command_of(process.pid) == "?"
    assert user_of(process.pid) == "?"
    assert command_of(os.getpid()) != "?"


def test_a_title_with_control_characters_stays_one_line(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"VLLM::Worker\n\x1b[31m_TP0\0\0\0")
    assert command_of(7, tmp_path) == "VLLM::Worker  [31m_TP0"
    (tmp_path / "8").mkdir()
    (tmp_path / "8" / "cmdline").write_bytes(b"")
    (tmp_path / "8" / "comm").write_bytes(b"kworker\n")
    assert command_of(8, tmp_path) == "kworker"


def test_a_process_is_gone_only_where_its_number_is_ours(monkeypatch):
    nobody = 1 << 22  # kernel.pid_max ends there
    monkeypatch.setattr(who, "HOST_PID_NAMESPACE", Path("/proc/self/ns/pid").stat().st_ino)
    assert who.is_gone(nobody)
    assert not who.is_gone(os.getpid())
    monkeypatch.setattr(who, "HOST_PID_NAMESPACE", 1)
    assert not who.is_gone(nobody)
