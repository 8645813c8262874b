"""Reads GPU memory and its holders through NVML."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from vllm_warden.adapters.nvml.errors import GpusUnavailable
from vllm_warden.adapters.nvml.who import command_of, is_gone, user_of
from vllm_warden.core.model import GpuHolder, GpuReading

RESTART_SECONDS = 10.0
INSTALL_HINT = "is the NVIDIA driver loaded? Try nvidia-smi"


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU that was found once; the handle stays good until the driver is replaced."""

    index: int
    handle: Any
    uuid: str
    name: str
    pci: str = ""


class NvmlGpus:
    """Satisfies ``daemon.ports.Gpus``. For any thread that may hang: one call at a time.

    A broken driver may hang in any call, and then holds up the next one too.

    Free memory is that of nvmlDeviceGetMemoryInfo_v2, which does not count what the driver
    reserves as used; total - used - reserved = free there.
    """

    def __init__(self) -> None:
        self._nvml: ModuleType | None = None
        self._devices: list[Device | GpuReading] | None = None
        self._started_at = 0.0
        self._restart_due = False
        self._lock = threading.Lock()

    def memory(self) -> Sequence[GpuReading]:
        """All GPUs in NVML order, without holders. Raises GpusUnavailable.

        A GPU that cannot be read has ``error`` set and counts as neither free nor used.
        """
        with self._lock:
            return self._settled([self._read(device) for device in self._found()])

    def memory_with_holders(self) -> Sequence[GpuReading]:
        """As ``memory``, with the processes that compute or draw on each GPU."""
        with self._lock:
            return self._settled(
                [self._read(device, with_holders=True) for device in self._found()]
            )

    def close(self) -> None:
        """Let go of the driver, so that it can be unloaded."""
        nvml, self._nvml, self._devices = self._nvml, None, None
        if nvml is not None:
            try:
                nvml.nvmlShutdown()
            except nvml.NVMLError:
                return

    def _settled(self, readings: list[GpuReading]) -> list[GpuReading]:
        if self._restart_due:
            self._restart_due = False
            self.close()
        return readings

    def _found(self) -> list[Device | GpuReading]:
        """The GPUs; looked for again after any failure."""
        if self._devices is None:
            nvml = self._started()
            try:
                count = nvml.nvmlDeviceGetCount()
            except nvml.NVMLError as error:
                self.close()
                raise GpusUnavailable(f"cannot count the GPUs: {error}; {INSTALL_HINT}") from error
            self._devices = [self._device(nvml, index) for index in range(count)]
        return self._devices

    def _started(self) -> ModuleType:
        import pynvml  # noqa: PLC0415  # loads megabytes of ctypes tables that CPU hosts never need

        nvml: ModuleType = pynvml
        try:
            nvml.nvmlInit()
        except (nvml.NVMLError, OSError) as error:
            raise GpusUnavailable(f"cannot start NVML: {error}; {INSTALL_HINT}") from error
        self._nvml = nvml
        self._started_at = time.monotonic()
        return nvml

    def _device(self, nvml: ModuleType, index: int) -> Device | GpuReading:
        """A GPU that has fallen off the bus has no handle, but keeps its place in the list."""
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
            name = _text(nvml.nvmlDeviceGetName(handle))
        except nvml.NVMLError as error:
            return GpuReading(index, "", "", 0, 0, error=str(error), lost=_is_lost(nvml, error))
        return Device(index, handle, uuid, name, _pci(nvml, handle))

    def _read(self, device: Device | GpuReading, *, with_holders: bool = False) -> GpuReading:
        nvml = self._nvml
        assert nvml is not None  # noqa: S101  # _found started it
        if isinstance(device, GpuReading):
            self._after_error(nvml, nvml.NVMLError(nvml.NVML_ERROR_GPU_IS_LOST))
            return device
        try:
            memory = _memory(nvml, device.handle)
            holders = _holders(nvml, device.handle) if with_holders else ()
        except nvml.NVMLError as error:
            self._after_error(nvml, error)
            return _unread(device, error, lost=_is_lost(nvml, error))
        return GpuReading(
            index=device.index,
            uuid=device.uuid,
            name=device.name,
            total_bytes=int(memory.total),
            free_bytes=int(memory.free),
            holders=holders,
            pci=device.pci,
            reserved_bytes=int(getattr(memory, "reserved", 0)),
        )

    def _after_error(self, nvml: ModuleType, error: Exception) -> None:
        """Handles of a driver that was reloaded or of a GPU that was reset are dead for ever.

        Starting NVML anew heals both, but may take long on a broken host: not at every reading.
        """
        if isinstance(error, (nvml.NVMLError_NotSupported, nvml.NVMLError_NoPermission)):
            return
        if time.monotonic() - self._started_at >= RESTART_SECONDS:
            self._restart_due = True


def _unread(device: Device, error: Exception, *, lost: bool) -> GpuReading:
    return GpuReading(
        device.index, device.uuid, device.name, 0, 0, error=str(error), pci=device.pci, lost=lost
    )


def _is_lost(nvml: ModuleType, error: Exception) -> bool:
    return isinstance(error, (nvml.NVMLError_GpuIsLost, nvml.NVMLError_ResetRequired))


def _pci(nvml: ModuleType, handle: Any) -> str:
    """Only helps to tell whose a kernel message is: no reason to do without the GPU."""
    try:
        return _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
    except nvml.NVMLError:
        return ""


def _memory(nvml: ModuleType, handle: Any) -> Any:
    """Version 2 tells used from reserved; drivers before 510 have only version 1."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    except (
        nvml.NVMLError_FunctionNotFound,
        nvml.NVMLError_NotSupported,
        nvml.NVMLError_ArgumentVersionMismatch,
    ):
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _holders(nvml: ModuleType, handle: Any) -> tuple[GpuHolder, ...]:
    used: dict[int, int | None] = {}
    for ask in (
        nvml.nvmlDeviceGetComputeRunningProcesses,
        nvml.nvmlDeviceGetGraphicsRunningProcesses,
    ):
        try:
            processes = ask(handle)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            continue
        for process in processes:
            used[int(process.pid)] = process.usedGpuMemory
    return tuple(
        GpuHolder(
            pid=pid,
            used_bytes=used_bytes,
            user=user_of(pid),
            command=command_of(pid),
            gone=is_gone(pid),
        )
        for pid, used_bytes in sorted(used.items())
    )


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
