"""One contract for GPU memory: the fake, and the real pynvml over the NVML stand-in."""

import ctypes
import subprocess
import sys

import pytest

from tests.fakes.gpus import FakeGpus
from vllm_warden.adapters.nvml.errors import GpusUnavailable
from vllm_warden.adapters.nvml.gpus import NvmlGpus
from vllm_warden.simulation.build import nvml_library

GIB = 1 << 30


class FakeHost:
    """Two GPUs of the fake."""

    def __init__(self):
        self.gpus = FakeGpus(count=2)

    def hold(self, index, pid, used_bytes):
        self.gpus.used[index][pid] = used_bytes

    def break_gpu(self, index):
        self.gpus.errors[index] = "GPU is lost"

    def unload_driver(self):
        self.gpus.unavailable = GpusUnavailable("driver not loaded")

    def load_driver(self):
        self.gpus.unavailable = None


class StandInHost:
    """Two GPUs that are directories; the library is found by its soname, as pynvml looks for it."""

    def __init__(self, directory, monkeypatch):
        ctypes.CDLL(str(nvml_library()))
        monkeypatch.setenv("WARDEN_SIMULATED_GPUS", str(directory))
        self.directory = directory
        for index in range(2):
            (directory / f"gpu{index}" / "procs").mkdir(parents=True)
            (directory / f"gpu{index}" / "total").write_text(str(80 * GIB))
        self.gpus = NvmlGpus()

    def hold(self, index, pid, used_bytes):
        (self.directory / f"gpu{index}" / "procs" / str(pid)).write_text(str(used_bytes))

    def break_gpu(self, index):
        (self.directory / f"gpu{index}" / "error").write_text("15")

    def unload_driver(self):
        self.gpus.close()
        (self.directory / "init_error").write_text("9")

    def load_driver(self):
        (self.directory / "init_error").unlink()


@pytest.fixture(params=["fake", "stand-in"])
def host(request, tmp_path, monkeypatch):
    if request.param == "fake":
        yield FakeHost()
        return
    real = StandInHost(tmp_path, monkeypatch)
    yield real
    real.gpus.close()


@pytest.fixture
def holder():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process.pid
    process.kill()
    process.wait()


def test_all_gpus_are_read_in_order_with_names_and_distinct_uuids(host):
    readings = host.gpus.memory()
    assert [reading.index for reading in readings] == [0, 1]
    assert all(reading.name for reading in readings)
    assert len({reading.uuid for reading in readings}) == 2
    assert all(reading.uuid.startswith("GPU-") for reading in readings)
    assert [reading.total_bytes for reading in readings] == [80 * GIB] * 2
    assert all(79 * GIB < reading.free_bytes < 80 * GIB for reading in readings)


def test_held_memory_is_not_free_and_its_holder_is_named(host, holder):
    before = host.gpus.memory()[1].free_bytes
    host.hold(1, holder, 56 * GIB)
    first, second = host.gpus.memory_with_holders()
    assert first.holders == ()
    assert second.free_bytes == before - 56 * GIB
    assert [(held.pid, held.used_bytes) for held in second.holders] == [(holder, 56 * GIB)]
    assert second.holders[0].user != ""
    assert host.gpus.memory()[1].holders == ()


def test_a_broken_gpu_is_unknown_and_the_other_one_still_read(host):
    host.gpus.memory()
    host.break_gpu(0)
    first, second = host.gpus.memory()
    assert first.index == 0
    assert first.error is not None
    assert first.free_bytes == 0
    assert second.error is None
    assert second.free_bytes > 79 * GIB


def test_no_driver_is_an_error_with_a_reason_and_heals(host):
    host.unload_driver()
    with pytest.raises(GpusUnavailable) as caught:
        host.gpus.memory()
    assert "river" in caught.value.reason
    with pytest.raises(GpusUnavailable):
        host.gpus.memory_with_holders()
    host.load_driver()
    assert len(host.gpus.memory()) == 2
