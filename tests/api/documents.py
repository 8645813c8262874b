"""Documents as the daemon sends them, small ones and the story of the sampler out of memory."""

from __future__ import annotations

from typing import cast

from vllm_warden.api.service import Document

GIB = 1 << 30
NOW = 1_764_000_000.0


def gpu(index: int, *, used_gib: float = 0, instances=(), holders=(), error=None) -> Document:
    total = 97887 * (1 << 20)
    return {
        "index": index,
        "uuid": f"GPU-{index:08d}",
        "name": "NVIDIA RTX PRO 6000",
        "total_bytes": total,
        "free_bytes": total - int(used_gib * GIB),
        "error": error,
        "instances": list(instances),
        "holders": list(holders),
    }


def instance(name: str = "minimax-m25", **changes) -> Document:
    document: Document = {
        "name": name,
        "state": "ready",
        "wanted": "running",
        "phase": "serving",
        "attempt": 2,
        "since": NOW - 7500,
        "reason": None,
        "degraded": False,
        "mode": "adapt",
        "model": "/srv/models/minimax-m2.5",
        "port": 8000,
        "requests_left": None,
        "settings": [],
        "gpus": [0, 1, 2, 3],
        "pids": {"parent": 4242, "engine": {"4250": "VLLM::EngineCore"}},
        "memory": {"used_bytes": {"0": 60 * GIB, "1": 60 * GIB, "2": 60 * GIB, "3": 60 * GIB}},
        "last_incident": None,
        "gate": None,
        "decision": None,
        "restart_pending": False,
        "next_try": None,
        "foreseen": None,
        "trial": None,
        "retry_promising": [],
    }
    assert changes.keys() <= document.keys()
    return {**document, **changes}


def status(*instances: Document, gpus=(), gpus_problem=None, conditions=()) -> Document:
    return {
        "schema": 1,
        "daemon": {
            "version": "0.1.0",
            "pid": 4000,
            "since": NOW - 200_000,
            "state_directory": "/var/lib/vllm-warden",
            "log_backend": "journal",
            "config": "/etc/vllm-warden/config.toml",
            "config_digest": "0" * 64,
            "conditions": list(conditions),
        },
        "gpus": list(gpus),
        "gpus_problem": gpus_problem,
        "instances": list(instances),
    }


def sampler_incident(**changes) -> Document:
    document: Document = {
        "number": 7,
        "instance": "minimax-m25",
        "opened": NOW - 8000,
        "recovered": NOW - 7500,
        "resolved": NOW - 5700,
        "failures": 1,
        "further": [],
        "attempt": 1,
        "exit_status": 1,
        "diagnosis": {
            "failure": "gpu_out_of_memory",
            "phase": "warmup",
            "site": "sampler",
            "signature": "sampler-warmup-oom",
            "confidence": "certain",
            "ranks": [0],
            "gpus": [0],
            "figures": {"dummy_requests": 1024, "tried_bytes": 1638924288, "free_bytes": 0},
            "evidence": [
                {"line": 41, "text": "RuntimeError: CUDA out of memory occurred when warming up "
                 "sampler with 1024 dummy requests."},
            ],
            "consequences": [{"line": 77, "text": "RuntimeError: Engine core initialization "
                              "failed. See root cause above."}],
            "engine_version": "0.15.1",
            "summary": "GPU 0 ran out of memory while the sampler was warmed up with 1024 dummy "
            "requests",
        },
        "decision": {
            "remedy": "relaunch_with",
            "changes": [
                {"setting": "gpu_memory_utilization", "from": 0.95, "to": 0.9183},
                {"setting": "max_num_seqs", "from": 1024, "to": 512},
            ],
            "useless": [
                {"setting": "max_model_len", "why": "the KV cache was already allocated; a shorter "
                 "context frees nothing"},
            ],
            "price": {
                "sequences_before": 1024,
                "sequences_after": 512,
                "kv_bytes_lost": 3 * GIB,
                "max_model_len_before": None,
                "max_model_len_after": None,
                "concurrency_fraction": 0.92,
                "note": "",
            },
            "reason": "the sampler needs 1.5 GiB that the budget left no room for",
            "arithmetic": ["1024 sequences x 200064 tokens x 8 bytes = 1.5 GiB",
                           "room at 0.9183: 3.0 GiB"],
        },
        "settings_before": {"gpu_memory_utilization": 0.95, "max_num_seqs": 1024},
        "settings_after": {"gpu_memory_utilization": 0.9183, "max_num_seqs": 512},
        "incomplete": False,
        "excerpt": [{"line": 41, "text": "RuntimeError: CUDA out of memory occurred ..."}],
        "resolution": "ready 8 min 20 s later",
    }  # fmt: skip
    return {**document, **changes}


def first_instance(document: Document) -> Document:
    [entry] = cast("list[Document]", document["instances"])
    return entry
