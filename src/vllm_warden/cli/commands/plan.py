"""The command plan: what a model needs of each GPU, what fits, and how it may be spread."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from vllm_warden.adapters.model_directory.read import ModelFiles, read_model_directory
from vllm_warden.cli.exit_codes import ExitCode
from vllm_warden.cli.options import examples, json_option, socket_option
from vllm_warden.cli.plan_input import (
    Asked,
    Host,
    check_settings,
    host_of,
    model_directory,
    what_is_asked,
)
from vllm_warden.cli.plan_measured import Attempted, ask_daemon, measured_terms
from vllm_warden.cli.plan_text import plan_text
from vllm_warden.cli.render import harmless, style_of_stdout, wrapped
from vllm_warden.config.load import DEFAULT_PATH
from vllm_warden.core.plan.defaults import world_size
from vllm_warden.core.plan.memory_model.checkpoint import WeightSource
from vllm_warden.core.plan.memory_model.document import plan_document
from vllm_warden.core.plan.memory_model.engine_options import read_options
from vllm_warden.core.plan.memory_model.era import era_of
from vllm_warden.core.plan.memory_model.estimate import GpuMemory, Setup
from vllm_warden.core.plan.memory_model.layout import WORLD_MAX
from vllm_warden.core.plan.memory_model.layout_rules import refusals
from vllm_warden.core.plan.memory_model.layouts import LayoutVerdict, all_layouts
from vllm_warden.core.plan.memory_model.limits import Limits, find_limits
from vllm_warden.core.plan.memory_model.measured import Measured
from vllm_warden.core.plan.memory_model.model import Model
from vllm_warden.core.plan.memory_model.read_shape import read_shape
from vllm_warden.core.plan.memory_model.verdict import MemoryPlan, plan_memory
from vllm_warden.core.plan.memory_model.ways_out import WayOut, ways_out
from vllm_warden.core.plan.spec import EngineFacts

_VERSION = re.compile(r"v?[0-9]{1,4}\.[0-9]{1,4}(\.\w{1,40}){0,4}(\+[\w.]{1,80})?", re.ASCII)


def register(app: click.Group) -> None:
    """Add the command to the program."""
    app.add_command(plan_command)


@click.command(
    "plan",
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "vllm-warden plan minimax-m25",
        "vllm-warden plan /srv/models/llama --tensor-parallel-size 4 --max-model-len 32k",
        "vllm-warden plan /srv/models/minimax --gpus 8 --gpu-memory 95.6GiB --vllm 0.15.1",
    ),
)
@click.argument("line", nargs=-1, required=True, type=click.UNPROCESSED, metavar="MODEL...")
@click.option("--gpus", type=click.IntRange(1, WORLD_MAX), help="GPUs of the host.")
@click.option("--gpu-memory", metavar="SIZE", help="Memory of one GPU, as 94.97GiB.")
@click.option("--vllm", "version", metavar="VERSION", help="The engine's version, as 0.15.1.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=DEFAULT_PATH,
    show_default=True,
    help="Where instances are configured.",
)
@json_option
@socket_option
def plan_command(
    *,
    line: tuple[str, ...],
    gpus: int | None,
    gpu_memory: str | None,
    version: str | None,
    config: Path,
    as_json: bool,
    socket: str | None,
) -> None:
    """Work out what a model needs of each GPU before anything is started.

    Takes an instance's name, or a model directory with the arguments of vllm serve. Reads
    config.json and the headers of the weights, never a tensor; needs no GPU, no engine, no
    network and no daemon. Every number says whether it was read, computed, measured or assumed,
    and how far it may be off.

    Where a daemon runs the instance, what its attempts measured takes the place of what is
    assumed.

    Exits 0 when the setup fits, 1 when it does not, 2 when the model cannot be read.
    """
    if version is not None and not _VERSION.fullmatch(version):
        raise click.UsageError(f"cannot read --vllm {version}: write it as 0.15.1")
    asked = what_is_asked(line, config)
    check_settings(asked.settings)
    directory = model_directory(asked.model)
    try:
        files = read_model_directory(directory)
    except OSError as error:
        raise click.UsageError(f"cannot read {directory}: {error.strerror}") from None
    version = version.removeprefix("v") if version else None
    found, note = ask_daemon(asked, socket, version)
    shape = read_shape(files.config)
    host = host_of(gpus or asked.gpus, gpu_memory, world_size(asked.settings))
    if found is not None and gpu_memory is None:
        host = found.on_its_gpu(host)
    if files.checkpoint.source is WeightSource.NOTHING and not shape.is_known:
        raise click.UsageError(f"cannot plan {directory}: {'; '.join(files.problems)}")
    answer = _answer(_setup(Model(shape, files.checkpoint), asked, host, found, version), host)
    if answer.fits and not shape.is_known:
        reasons = "; ".join((*files.problems, *shape.unknown))
        raise click.UsageError(
            f"cannot plan {directory}: its weights fit, what else it needs is unknown: {reasons}"
        )
    if as_json:
        document = _document(asked, host, files, answer)
        document["measured"] = None if found is None else found.document()
        print(json.dumps(document))
    else:
        print("\n".join(_text(asked, host, files, answer, note)))
    sys.exit(ExitCode.OK if answer.fits else ExitCode.NO)


def _setup(
    model: Model, asked: Asked, host: Host, found: Attempted | None, version: str | None
) -> Setup:
    """For the version that was given, else the one that was measured."""
    engine = EngineFacts(version=found.engine_version if found and not version else version)
    options = read_options(asked.settings, model.shape, engine, host.total_bytes)
    seen = Measured()
    if found is not None:
        seen = measured_terms(found, asked, options, model.shape, host.total_bytes)
    return Setup(model, options, GpuMemory(host.total_bytes), era_of(engine), seen)


@dataclass(frozen=True, slots=True)
class _Answer:
    """All that was computed about one setup."""

    plan: MemoryPlan
    limits: Limits
    layouts: tuple[LayoutVerdict, ...]
    refused: tuple[str, ...]
    ways: tuple[WayOut, ...]

    @property
    def fits(self) -> bool:
        return self.plan.fits and not self.refused


def _answer(setup: Setup, host: Host) -> _Answer:
    plan = plan_memory(setup)
    return _Answer(
        plan=plan,
        limits=find_limits(plan),
        layouts=all_layouts(setup, host.gpus),
        refused=refusals(setup.model.shape, setup.options.layout, host.gpus),
        ways=ways_out(plan, host.gpus),
    )


def _document(asked: Asked, host: Host, files: ModelFiles, answer: _Answer) -> dict[str, object]:
    ways = [{"what": way.what, "settings": dict(way.settings)} for way in answer.ways]
    return {
        "schema": 1,
        "model": asked.model,
        "gpus": host.gpus,
        "gpus_from": host.remark,
        "problems": list(files.problems),
        "refused": list(answer.refused),
        **plan_document(answer.plan, answer.limits, answer.layouts),
        "would_fit_with": ways,
        "fits": answer.fits,
    }


def _text(asked: Asked, host: Host, files: ModelFiles, answer: _Answer, more: str) -> list[str]:
    style = style_of_stdout()
    lines = plan_text(
        asked.title,
        answer.plan,
        answer.limits,
        answer.layouts,
        refused=answer.refused,
        ways=answer.ways,
        style=style,
    )
    notes = list(files.problems)
    if host.remark != "as given":
        notes.append(f"GPUs: {host.remark}")
    for note in (*notes, *([more] if more else [])):
        lines += wrapped(harmless(note), style, "    ", "  ! ")
    return lines
