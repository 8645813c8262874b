"""What differs between vLLM releases in the accounting of GPU memory.

Read from the Python trees of 36 releases from 0.8.5 to 0.33.0; boundaries are those of releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from vllm_warden.core.plan.command_line import version_of
from vllm_warden.core.plan.spec import EngineFacts

Version = tuple[int, int]

NEWEST_READ: Version = (0, 33)
NCCL_OUTSIDE_SINCE: Version = (0, 11)
"""Since 0.11 the first look at free memory comes after NCCL started: its buffers and the CUDA
context are then outside of utilization x total. Before, NCCL's are inside."""
TRITON_SAMPLER_SINCE: Version = (0, 17)
FLASHINFER_SAMPLER_SINCE: Version = (0, 21)
SECOND_RUNNER_SINCE: Version = (0, 29)
GRAPHS_BUDGETED_SINCE: Version = (0, 20)
SECOND_RUNNER_UNSURE: tuple[Version, Version] = ((0, 22), (0, 28))
"""In these the second runner takes some architectures only, and never budgets its graphs."""
CAPTURE_LIMIT_SINCE: Version = (0, 10)
"""Since 0.10 graphs are captured up to min(2 x max_num_seqs, 512); before, always up to 512."""


class Budgeted(Enum):
    """Whether the bytes of CUDA graphs are kept free when the KV cache is sized."""

    NO = auto()
    YES = auto()
    UNSURE = auto()


@dataclass(frozen=True, slots=True)
class Era:
    """``sampler_bytes`` is per request and vocabulary entry, expected between the two others."""

    version: Version
    is_known: bool
    is_nccl_inside: bool
    sampler_bytes: float
    sampler_least: float
    sampler_most: float
    graphs: Budgeted
    is_cpu: bool = False

    @property
    def name(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"


def era_of(engine: EngineFacts) -> Era:
    """A version newer than the newest that was read is taken for that one."""
    version = version_of(engine)
    at = min(version or NEWEST_READ, NEWEST_READ)
    value, least, most = _sampler(at)
    return Era(
        version=version or NEWEST_READ,
        is_known=version is not None and version <= NEWEST_READ,
        is_nccl_inside=at < NCCL_OUTSIDE_SINCE,
        sampler_bytes=value,
        sampler_least=least,
        sampler_most=most,
        graphs=_graphs(at),
        is_cpu=engine.is_cpu is True,
    )


def _sampler(at: Version) -> tuple[float, float, float]:
    """Bytes alive at the peak of sampling (see docs/explanation/memory-model.md)."""
    if at < TRITON_SAMPLER_SINCE:
        return 50, 45, 54
    if at < FLASHINFER_SAMPLER_SINCE:
        return 14, 12, 18
    return (10, 6, 14) if at >= SECOND_RUNNER_SINCE else (16, 12, 20)


def _graphs(at: Version) -> Budgeted:
    if at < GRAPHS_BUDGETED_SINCE:
        return Budgeted.NO
    first, last = SECOND_RUNNER_UNSURE
    return Budgeted.UNSURE if first <= at <= last else Budgeted.YES
