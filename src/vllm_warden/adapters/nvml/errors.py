"""The error of NVML as a whole."""

from __future__ import annotations


class GpusUnavailable(Exception):  # noqa: N818
    """No GPU can be read: no driver, no library, or the driver was replaced under us."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
