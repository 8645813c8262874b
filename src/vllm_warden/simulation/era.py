"""The releases of vLLM in whose words the stand-in engine logs; the environment names one.

An era changes prefixes, texts, call stacks and the order of the warm-up, never who fails: that
follows from the arguments and the simulated memory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

ENVIRONMENT = "WARDEN_SIMULATED_VERSION"
DEFAULT = "0.15.1"


@dataclass(frozen=True, slots=True)
class Era:
    """How one release logs.

    Tags are what stands before `` pid=N)``; empty means that the process has none.
    ``worker_tag`` may hold ``{name}`` and ``{rank}``. ``advises`` is False where an allocation
    failure is printed bare, without vLLM's own sentence about it (Model Runner V2). Without a
    ``tag_colour`` a log that goes to a file has no colour at all.
    ``sampler_first``: the sampler is warmed up before the graphs are captured.
    """

    version: str
    api_tag: str = "APIServer"
    core_tag: str = "EngineCore"
    core_name: str = "EngineCore"
    worker_tag: str = "Worker_{name}"
    tagged_from_start: bool = True
    tag_colour: str = ""
    heeds_no_color: bool = True
    colours_levels: bool = False
    has_banner: bool = True
    every_rank_speaks: bool = False
    has_kernel_warmup: bool = True
    advises_on_load: bool = True
    advises_on_sampler: bool = True
    sampler_first: bool = False
    tells_exit_code: bool = False


ERAS = {
    era.version: era
    for era in (
        Era(
            "0.9.2",
            api_tag="",
            core_tag="",
            core_name="EngineCore_0",
            worker_tag="VllmWorker rank={rank}",
            tag_colour="1;36",
            heeds_no_color=False,
            has_banner=False,
            every_rank_speaks=True,
            has_kernel_warmup=False,
            advises_on_load=False,
        ),
        Era(
            DEFAULT,
            core_tag="EngineCore_DP0",
            core_name="EngineCore_DP0",
            tagged_from_start=False,
            tag_colour="0;36",
            colours_levels=True,
        ),
        Era(
            "0.32.0",
            advises_on_load=False,
            advises_on_sampler=False,
            sampler_first=True,
            tells_exit_code=True,
        ),
    )
}


@lru_cache(maxsize=1)
def current() -> Era:
    """The era of this process and of those that it forks. Raises SystemExit for an unknown one."""
    version = os.environ.get(ENVIRONMENT) or DEFAULT
    if version not in ERAS:
        known = ", ".join(ERAS)
        raise SystemExit(f"{ENVIRONMENT}={version}: the stand-in engine knows {known}")
    return ERAS[version]
