"""Settles in which phase, and for what, an exception was raised, where its stack was cut."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_warden.core.diagnose.places import LOOPS, site_of
from vllm_warden.core.diagnose.tracebacks import Raised
from vllm_warden.core.model import PHASES_AFTER_KV, Phase, Site

_WORKERS = ("Worker", "VllmWorker", "RayWorker")


def place(raised: Raised, elsewhere: Phase | None) -> None:
    """Settle phase and site where the stack was cut and text or position tell more.

    ``elsewhere`` is the phase that cut stacks of other processes tell, where the log tells none.
    """
    if raised.phase is Phase.KV_PLAN and raised.process.startswith(_WORKERS):
        raised.phase = Phase.KV_ALLOC  # only the engine core plans
        raised.site = site_of(raised.phase, raised.functions)
    in_start = raised.before in PHASES_AFTER_KV and raised.functions.isdisjoint(LOOPS)
    if raised.phase is Phase.SERVING and in_start:
        raised.phase = Phase.WARMUP  # a cut stack: the engine was not ready yet
        raised.site = site_of(raised.phase, raised.functions)
    if raised.phase is not None:
        return
    after_kv = raised.before not in (Phase.LOAD, Phase.PROFILE)
    if "warming up sampler" in raised.whole or "_dummy_sampler_run" in raised.functions:
        raised.site = Site.SAMPLER
    elif "warming up pooler" in raised.whole:
        raised.site = Site.POOLER
    elif elsewhere is not None and raised.before is None:
        raised.phase, raised.site = elsewhere, site_of(elsewhere, raised.functions)
        return
    else:
        return
    raised.phase = Phase.WARMUP if after_kv else Phase.PROFILE
    raised.guessed = raised.before is None


def agreed_phase(cut: Iterable[Raised]) -> Phase | None:
    """The phase that all stacks which tell one agree on: ranks fail at the same place."""
    phases = {one.phase for one in cut if one.phase is not None}
    return phases.pop() if len(phases) == 1 else None
