"""Standard output whose failures are told apart from those of whatever a command reads.

Both would be OSError; a command that looks after its input would blame that.
"""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vllm_warden.cli.exit_codes import ExitCode


class OutputFailed(Exception):  # noqa: N818 - reads as what it is
    """Standard output took no more; ``error`` says why. No OSError, on purpose."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {(error.strerror or str(error)).lower()}")
        self.code = ExitCode.PIPE_CLOSED if isinstance(error, BrokenPipeError) else ExitCode.USAGE


class _Output(io.FileIO):
    """Raises OutputFailed once; what is still buffered then is dropped at the end."""

    failed = False

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            while not self.failed:
                written: int | None = super().write(data)
                if written is not None:
                    return written
                select.select((), (self,), ())  # somebody made it non-blocking
        except OSError as error:
            self.failed = True
            raise OutputFailed(error) from None
        return len(data)


class _Complaints(io.FileIO):
    """Standard error: what cannot be said there can be said nowhere."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return len(data) if written is None else written


@contextmanager
def own_output() -> Iterator[None]:
    """Everything printed meanwhile has been written at the end. Raises OutputFailed.

    Streams that somebody else has put in the place of the process's own are left alone.
    """
    out, err = sys.stdout, sys.stderr
    try:
        if isinstance(out, io.TextIOWrapper) and out is sys.__stdout__:
            sys.stdout = _over(out, _Output, line_buffering=out.isatty())
        if isinstance(err, io.TextIOWrapper) and err is sys.__stderr__:
            sys.stderr = _over(err, _Complaints, line_buffering=True)
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = out, err


@contextmanager
def ordinary_output() -> Iterator[None]:
    """The process's own standard output again, for what looks after its failures itself."""
    ours = sys.stdout
    try:
        if isinstance(ours, io.TextIOWrapper) and ours is not sys.__stdout__ and sys.__stdout__:
            ours.flush()
            sys.stdout = sys.__stdout__
        yield
    finally:
        sys.stdout = ours


def _over(
    stream: io.TextIOWrapper, raw: Callable[..., io.FileIO], *, line_buffering: bool
) -> io.TextIOWrapper:
    buffer = io.BufferedWriter(raw(stream.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(
        buffer, stream.encoding, stream.errors, newline="\n", line_buffering=line_buffering
    )
