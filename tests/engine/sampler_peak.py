"""Measures what sampling of real vLLM takes on a CPU, for several numbers of requests.

Usage, with the engine's own interpreter: python -m tests.engine.sampler_peak OUTPUT
It is the sampler call of ``_dummy_sampler_run``; the peak is VmHWM over VmRSS before the logits.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

VOCABULARY = 50_000
ROWS = (64, 128, 256, 512, 1024, 2048)


def status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise LookupError(name)


def peak_bytes(rows: int) -> int:
    """Bytes above rest while that many requests are sampled, logits included."""
    import torch
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.metadata import SamplingMetadata
    from vllm.v1.sample.sampler import Sampler

    def each(value: float) -> torch.Tensor:
        return torch.full((rows,), value)

    sampler = Sampler()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    rest = status_bytes("VmRSS")
    logits = torch.rand(rows, VOCABULARY, dtype=torch.bfloat16)
    sampler(
        logits=logits,
        sampling_metadata=SamplingMetadata(
            temperature=each(0.5),
            all_greedy=False,
            all_random=False,
            top_p=each(0.9),
            top_k=each(VOCABULARY - 1).long(),
            generators={},
            max_num_logprobs=None,
            no_penalties=True,
            prompt_token_ids=None,
            frequency_penalties=each(0.1),
            presence_penalties=each(0.1),
            repetition_penalties=each(0.1),
            output_token_ids=[[] for _ in range(rows)],
            spec_token_ids=[[] for _ in range(rows)],
            allowed_token_ids_mask=None,
            bad_words_token_ids={},
            logitsprocs=LogitsProcessors(),
        ),
    )
    return status_bytes("VmHWM") - rest


def main() -> None:
    peak_bytes(8)  # what only the first call allocates
    found = [{"rows": rows, "peak_bytes": peak_bytes(rows)} for rows in ROWS]
    document = {"vocabulary": VOCABULARY, "peaks": found}
    Path(sys.argv[1]).write_text(json.dumps(document, indent=1) + "\n")
    for one in found:
        print(one["rows"], one["peak_bytes"] / one["rows"] / VOCABULARY)


if __name__ == "__main__":
    main()
