"""What differs between versions of vLLM in memory and in words, as one row a version."""

from __future__ import annotations

from dataclasses import dataclass

SORT_PATH = (2, 4, 4, 8, 8, 8, 4, 12)
"""Sampler tensors per (row x vocabulary entry) up to 0.16, in order: 50 bytes at the peak."""
LEAN_PATH = (2, 4, 4, 4)
"""With the Triton or FlashInfer sampler (0.17 and later)."""
SECOND_RUNNER_PATH = (2, 4, 2)
"""Model runner V2: bf16 logits, an fp32 copy, and little else."""


@dataclass(frozen=True, slots=True)
class Era:
    """One release. ``graphs_budgeted``: an estimate of the CUDA graphs is part of the budget.

    ``nccl_in_budget``: the memory snapshot is taken before NCCL starts. ``friendly`` and
    ``friendly_load``: an out-of-memory error of the sampler, of loading, is put into words.
    ``core`` and ``tagged`` say how the processes name themselves in front of each line.
    """

    version: str
    sampler: tuple[int, ...]
    graphs_budgeted: bool = False
    nccl_in_budget: bool = False
    friendly: bool = True
    friendly_load: bool = False
    second_runner: bool = False
    core: str = "EngineCore_DP0"
    tagged: bool = True
    one_kv_line: bool = False
    utilization: float = 0.90

    @property
    def sampler_bytes(self) -> int:
        return sum(self.sampler)


ERAS = {
    era.version: era
    for era in (
        Era("0.9.2", SORT_PATH, nccl_in_budget=True, core="EngineCore_0", tagged=False),
        Era("0.11.2", SORT_PATH),
        Era("0.13.0", SORT_PATH, friendly_load=True),
        Era("0.15.1", SORT_PATH, friendly_load=True),
        Era(
            "0.20.2",
            LEAN_PATH,
            graphs_budgeted=True,
            friendly_load=True,
            core="EngineCore",
            utilization=0.92,
        ),
        Era(
            "0.27.1",
            SECOND_RUNNER_PATH,
            friendly=False,
            second_runner=True,
            core="EngineCore",
            utilization=0.92,
        ),
        Era(
            "0.33.0",
            SECOND_RUNNER_PATH,
            graphs_budgeted=True,
            friendly=False,
            second_runner=True,
            core="EngineCore",
            one_kv_line=True,
            utilization=0.92,
        ),
    )
}
SORTING = ("0.9.2", "0.11.2", "0.13.0", "0.15.1")
UNBUDGETED = (*SORTING, "0.27.1")
BUDGETED = ("0.20.2", "0.33.0")
ANY = tuple(ERAS)
