"""``vllm-warden demo``: the incident that the warden exists for, live, on simulated GPUs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from vllm_warden.cli.options import examples
from vllm_warden.core.model import Mode


def register(app: click.Group) -> None:
    app.add_command(demo)


@click.command(
    epilog=examples(
        "vllm-warden demo",
        "vllm-warden demo --plain --mode restart    what happens without the warden's change",
    )
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.ADAPT.value,
    show_default=True,
    help="What the warden may do; only adapt gets out of it.",
)
@click.option("--plain", is_flag=True, help="Lines instead of a picture.")
@click.option("--keep", is_flag=True, help="Leave configuration, logs and history behind.")
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Write the last picture here, as SVG."
)
@click.option(
    "--speed",
    type=click.FloatRange(1, 2000),
    default=30.0,
    show_default=True,
    help="Simulated seconds in one real second.",
)
def demo(*, mode: str, plain: bool, keep: bool, picture: Path | None, speed: float) -> None:
    """Watch the warden get a model out of a sampler out-of-memory, on simulated GPUs.

    Needs neither GPU nor vLLM and takes about a minute. The daemon is the real one; GPUs, model
    and engine are simulated, and what fails follows from settings and memory. Exits 1 unless the
    first attempt died in the sampler, one relaunch with changed settings followed, and it
    answered.
    """
    if picture is not None and (picture.is_dir() or not picture.parent.is_dir()):
        raise click.UsageError(f"cannot write {picture}: no file can be made there")
    from vllm_warden.cli.demo.run import demo as run_demo  # noqa: PLC0415 - imports rich

    sys.exit(run_demo(mode, plain=plain, keep=keep, speed=speed, picture=picture))
