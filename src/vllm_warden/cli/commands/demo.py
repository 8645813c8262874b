"""``vllm-warden demo``: the incident that the warden exists for, live, on simulated GPUs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class DemoMode(StrEnum):
    ADAPT = "adapt"
    RESTART = "restart"
    OBSERVE = "observe"


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    *,
    mode: Annotated[
        DemoMode, typer.Option(help="What the warden may do; only adapt gets out of it.")
    ] = DemoMode.ADAPT,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a picture.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave configuration, logs and history behind.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Write the last picture to this file, as SVG.")
    ] = None,
    speed: Annotated[
        float, typer.Option(min=1, max=2000, help="Simulated seconds in one real second.")
    ] = 30,
) -> None:
    """Watch the warden get a model out of a sampler out-of-memory, on simulated GPUs.

    Needs neither GPU nor vLLM and takes about a minute. The daemon is the real one; GPUs, model
    and engine are simulated, and what fails follows from settings and memory. Exits 1 unless the
    first attempt died in the sampler, one relaunch with changed settings followed, and it
    answered.
    """
    from vllm_warden.cli.demo.run import demo as run_demo  # noqa: PLC0415 - imports rich

    raise typer.Exit(run_demo(mode.value, plain=plain, keep=keep, speed=speed, picture=picture))
