"""A real GPU, seen from processes of their own: other tests load a stand-in for NVML into ours."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest

READ = """
import json, sys
from vllm_warden.adapters.nvml.errors import GpusUnavailable
from vllm_warden.adapters.nvml.gpus import NvmlGpus
gpus = NvmlGpus()
for line in sys.stdin:
    try:
        readings = gpus.memory_with_holders()
    except GpusUnavailable as error:
        print(json.dumps({"unavailable": error.reason}), flush=True)
        continue
    print(json.dumps({"gpus": [
        {"uuid": one.uuid, "name": one.name, "total": one.total_bytes, "free": one.free_bytes,
         "error": one.error, "holders": {h.pid: [h.used_bytes, h.command] for h in one.holders}}
        for one in readings]}), flush=True)
"""

HOLD = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def must(result):
    if result != 0: raise SystemExit(f"CUDA error {result}")
device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuInit(0))
must(cuda.cuDeviceGet(ctypes.byref(device), 0))
must(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device))
print("context", flush=True)
for size in map(int, sys.argv[1:]):
    sys.stdin.readline()
    must(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)))
    print("allocated", flush=True)
time.sleep(600)
"""


class Reader:
    """Asks the adapter in a child; one line in, one reading out."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", READ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self):
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()


class Holder:
    """A child that holds GPU memory through libcuda, in steps, without torch."""

    def __init__(self, *sizes):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, *map(str, sizes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.expect("context")

    @property
    def pid(self):
        return self.process.pid

    def allocate(self):
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.expect("allocated")

    def expect(self, word):
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def reader():
    made = Reader()
    stop = threading.Timer(90, made.process.kill)  # a driver that hangs must not hang the tests
    stop.start()
    answer = made.read()
    if not answer.get("gpus"):
        made.close()
        stop.cancel()
        pytest.skip(f"no GPU: {answer.get('unavailable', 'none found')}")
    yield made
    stop.cancel()
    made.close()


@pytest.fixture
def holder():
    made = []

    def make(*sizes):
        made.append(Holder(*sizes))
        return made[-1]

    yield make
    for one in made:
        one.kill()
