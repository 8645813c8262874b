"""``serve``: put it in front of a ``vllm serve`` line; no settings file, no service."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click

from vllm_warden.cli.options import examples
from vllm_warden.core.model import Mode
from vllm_warden.core.plan.drop_in import DropInError, instance_name, read_line
from vllm_warden.core.plan.spec import AdaptSpec, Bounds

TERMINATION_LOG = Path("/dev/termination-log")


def register(app: click.Group) -> None:
    app.add_command(serve)


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples(
        "vllm-warden serve /srv/models/llama --port 8000 --max-num-seqs 512",
        "vllm-warden serve -- prlimit --as=64000000000 vllm serve /srv/models/llama",
        "vllm-warden serve --allow max_model_len=8192 /srv/models/llama",
        "vllm-warden serve --mode observe /srv/models/llama",
    ),
)
@click.option("--name", metavar="NAME", help="Name of the instance [from the model].")
@click.option("--gpus", metavar="LIST", help="NVML indices or UUIDs, comma-separated.")
@click.option(
    "--mode", type=click.Choice([mode.value for mode in Mode]), default="adapt", show_default=True
)
@click.option(
    "--allow",
    metavar="KNOB=MIN",
    multiple=True,
    help="Allow a knob down to MIN (max_model_len, ...).",
)
@click.option("--state-directory", type=click.Path(path_type=Path), help="Where state is kept.")
@click.option("--socket", type=click.Path(path_type=Path), help="Unix socket for the commands.")
@click.option("--stay", is_flag=True, help="Stay when it is held, so that `why` can be asked.")
@click.option("--termination-log", type=click.Path(path_type=Path), help="File for the last word.")
@click.argument("line", nargs=-1, type=click.UNPROCESSED, required=True)
def serve(
    *,
    name: str | None,
    gpus: str | None,
    mode: str,
    allow: tuple[str, ...],
    state_directory: Path | None,
    socket: Path | None,
    stay: bool,
    termination_log: Path | None,
    line: tuple[str, ...],
) -> None:
    """Run one vLLM under the warden: LINE is MODEL and any `vllm serve` arguments.

    A whole command works too, with wrappers: `prlimit ... vllm serve MODEL ...`. Options of the
    warden stand before LINE. Exit: 0 stopped as asked, 1 gave up or held, 2 arguments refused,
    4 another warden runs on the same state.
    """
    from vllm_warden.daemon import foreground  # noqa: PLC0415 -- the daemon, for this command only

    try:
        parsed = read_line(line)
        knobs = dict(_bounds(text) for text in allow)
    except DropInError as error:
        raise click.UsageError(str(error)) from None
    chosen = name or instance_name(parsed.model)
    directory = state_directory or _state_home() / "vllm-warden" / chosen
    options = foreground.ForegroundOptions(
        name=chosen,
        state_directory=directory.absolute(),
        socket=(socket or directory / "api.sock").absolute(),
        gpus=None if gpus is None else _gpu_list(gpus),
        adapt=AdaptSpec(mode=Mode(mode), knobs=knobs),
        stay=stay,
        termination_log=termination_log or (TERMINATION_LOG if TERMINATION_LOG.exists() else None),
    )
    sys.exit(foreground.serve(parsed, options, os.environ))


def _bounds(text: str) -> tuple[str, Bounds]:
    knob, _, least = text.partition("=")
    if not re.fullmatch(r"[a-z_]+", knob) or not re.fullmatch(r"\d+(\.\d+)?", least):
        raise DropInError(f"cannot read --allow {text}: it is KNOB=MIN, as in max_model_len=8192")
    return knob, Bounds(allowed=True, min=float(least))


def _gpu_list(text: str) -> tuple[int | str, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    return tuple(int(word) if word.isdecimal() else word for word in words)


def _state_home() -> Path:
    """Where a user's programs keep state (XDG base directory specification)."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
