"""Asks a running daemon what attempts of an instance have measured, for its next plan."""

from __future__ import annotations

from dataclasses import dataclass, field

import click

from vllm_warden.api.client import ApiError, DaemonUnreachable
from vllm_warden.cli.options import Globals, client_of, instance_path
from vllm_warden.cli.plan_input import Asked, Host
from vllm_warden.core.model import Figures, Settings
from vllm_warden.core.plan.command_line import version_of
from vllm_warden.core.plan.memory_model.engine_options import EngineOptions, read_options
from vllm_warden.core.plan.memory_model.measured import (
    BYTES_MAX,
    Measured,
    measured_from_figures,
)
from vllm_warden.core.plan.memory_model.model_shape import ModelShape
from vllm_warden.core.plan.memory_model.same_load import still_measured
from vllm_warden.core.plan.spec import EngineFacts


@dataclass(frozen=True, slots=True)
class Attempted:
    """What one attempt measured; ``gpu_total_bytes`` is its GPU's size as CUDA sees it."""

    attempt: int
    moment: str
    settings: Settings
    figures: Figures = field(default_factory=dict)
    engine_version: str | None = None
    gpu_total_bytes: int | None = None

    @property
    def remark(self) -> str:
        when = "when it was ready" if self.moment == "ready" else "before it died"
        return f"measured by attempt {self.attempt} {when}"

    def is_of(self, version: str | None) -> bool:
        """Another minor release has other peaks; a plan for no certain one takes the measured."""
        if version is None:
            return True
        mine = EngineFacts(version=self.engine_version)
        return version_of(EngineFacts(version=version)) == version_of(mine)

    def on_its_gpu(self, host: Host) -> Host:
        """The same host with the size that vLLM takes its share of."""
        if self.gpu_total_bytes is None:
            return host
        return Host(host.gpus, self.gpu_total_bytes, f"as CUDA saw them at attempt {self.attempt}")

    def document(self) -> dict[str, object]:
        """For ``--json``: which attempt, and when of it."""
        return {"attempt": self.attempt, "moment": self.moment, "figures": dict(self.figures)}


def ask_daemon(
    asked: Asked, socket: str | None, version: str | None
) -> tuple[Attempted | None, str]:
    """What the daemon knows that holds for this version of the engine, and a note for a person.

    A plan needs no daemon: that none answers is no failure, and only told to who named a socket.
    """
    if asked.instance is None:
        return None, ""
    context = click.get_current_context().find_object(Globals)
    named = socket or (context.socket if context is not None else None)
    try:
        document = client_of(socket).get(instance_path(asked.instance))
    except (DaemonUnreachable, ApiError, click.UsageError) as error:
        reason = f"nothing measured is known: {error}" if named else ""
        return None, reason
    if document.get("model") != asked.model:
        return None, "the daemon runs another model under this name: nothing measured is used"
    found = _attempted(document.get("measured"))
    if found is None:
        return None, ""
    if not found.is_of(version):
        return None, f"{found.remark} of vLLM {found.engine_version}: not used for {version}"
    return found, f"what is called measured was {found.remark}"


def _attempted(document: object) -> Attempted | None:
    if not isinstance(document, dict):
        return None
    figures, settings = document.get("figures"), document.get("settings")
    if not isinstance(figures, dict) or not isinstance(settings, dict):
        return None
    number, total = document.get("attempt"), figures.get("total_bytes")
    version = document.get("engine_version")
    is_size = isinstance(total, int) and 0 < total < BYTES_MAX
    return Attempted(
        attempt=number if isinstance(number, int) else 0,
        moment=str(document.get("moment")),
        settings=settings,
        figures=figures,
        engine_version=version if isinstance(version, str) else None,
        gpu_total_bytes=total if is_size else None,
    )


def measured_terms(
    found: Attempted, asked: Asked, planned: EngineOptions, shape: ModelShape, gpu_bytes: int
) -> Measured:
    """The figures as far as they hold for the planned settings; ``gpu_bytes`` is the fallback."""
    engine = EngineFacts(version=found.engine_version)
    total = found.gpu_total_bytes or gpu_bytes
    then = read_options({**asked.extra, **found.settings}, shape, engine, total)
    measured = measured_from_figures(
        found.figures,
        then.utilization * total,
        then.max_num_seqs,
        then.max_num_batched_tokens,
    )
    return still_measured(measured, then, planned)
