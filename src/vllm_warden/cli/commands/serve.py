"""``serve``: put it in front of a ``vllm serve`` line; no settings file, no service."""

from __future__ import annotations

import difflib
import os
import re
import sys
from pathlib import Path

import click

from vllm_warden.cli.exit_codes import ExitCode
from vllm_warden.cli.find_socket import state_home
from vllm_warden.cli.options import examples
from vllm_warden.cli.output import ordinary_output
from vllm_warden.core.model import Mode
from vllm_warden.core.plan.drop_in import (
    DropIn,
    DropInError,
    instance_name,
    question_for_the_engine,
    read_line,
)
from vllm_warden.core.plan.spec import AdaptSpec, Bounds

NAME = re.compile(r"[a-z0-9-]{1,32}")
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
    warden stand before LINE; --help in LINE is the engine's. Exit: 0 stopped as asked, 1 gave up
    or held, 2 arguments refused, 4 another warden runs on the same state.
    """
    question = question_for_the_engine(line)
    if question is not None:
        _become(question)
    from vllm_warden.daemon import foreground  # noqa: PLC0415 -- the daemon, for this command only

    try:
        parsed = read_line(line)
        knobs = _knobs(allow, parsed)
        chosen = _name(name, parsed.model)
        chosen_gpus = None if gpus is None else _gpu_list(gpus)
    except DropInError as error:
        raise click.UsageError(str(error)) from None
    directory = state_directory or state_home() / "vllm-warden" / chosen
    options = foreground.ForegroundOptions(
        name=chosen,
        state_directory=directory.absolute(),
        socket=(socket or directory / "api.sock").absolute(),
        gpus=chosen_gpus,
        adapt=AdaptSpec(mode=Mode(mode), knobs=knobs),
        stay=stay,
        termination_log=termination_log or (TERMINATION_LOG if TERMINATION_LOG.exists() else None),
    )
    with ordinary_output():  # it outlives a reader that has gone, and so does the engine
        sys.exit(foreground.serve(parsed, options, os.environ))


def _become(question: tuple[str, ...]) -> None:
    """The engine answers in our place: its own help, its own exit code."""
    sys.stdout.flush()
    try:
        os.execvp(question[0], question)  # noqa: S606 -- no shell is wanted
    except OSError as error:
        print(f"vllm-warden: cannot run {question[0]}: {error.strerror}", file=sys.stderr)
        print("  its help is its own: install vLLM or give its full path", file=sys.stderr)
        sys.exit(ExitCode.USAGE)


def _name(given: str | None, model: str) -> str:
    if given is None:
        return instance_name(model)
    if not NAME.fullmatch(given):
        raise DropInError(
            f"cannot use --name {given}: it is 1 to 32 characters of a-z, 0-9 and -; "
            f"did you mean {instance_name(given)}?"
        )
    return given


def _knobs(allow: tuple[str, ...], line: DropIn) -> dict[str, Bounds]:
    """Every --allow, held to the rules of the settings file. Raises DropInError."""
    from vllm_warden.config.knob_bounds import knob_faults, number  # noqa: PLC0415 -- imports slowly
    from vllm_warden.config.settings import KNOBS  # noqa: PLC0415 -- the same

    found: dict[str, Bounds] = {}
    for text in allow:
        knob, equals, least = text.partition("=")
        knob = knob.replace("-", "_")
        if knob not in KNOBS:
            close = difflib.get_close_matches(knob, KNOBS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(KNOBS)}"
            raise DropInError(f"cannot use --allow {text}: there is no such knob; {hint}")
        minimum = number(least) if not least.replace(".", "", 1).isdecimal() else float(least)
        if not equals or minimum is None:
            raise DropInError(f"cannot read --allow {text}: it is KNOB=MIN, max_model_len=8192")
        table = {"engine": line.engine, "adapt": {knob: {"min": minimum}}}
        for fault in knob_faults("serve", table):
            if fault.path[2:4] == ("adapt", knob):
                allowed = f" (allowed: {fault.allowed})" if fault.allowed else ""
                raise DropInError(f"cannot use --allow {text}: {fault.reason}{allowed}")
        found[knob] = Bounds(allowed=True, min=minimum)
    return found


def _gpu_list(text: str) -> tuple[int | str, ...]:
    """Indices and UUIDs; none for a CPU engine. Raises DropInError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for position, word in enumerate(words):
        if not re.fullmatch(r"[0-9]{1,4}|GPU-[0-9A-Fa-f-]+", word):
            raise DropInError(f"cannot use --gpus {text}: {word} is no NVML index and no GPU-UUID")
        if word in words[:position]:
            raise DropInError(f"cannot use --gpus {text}: {word} is named twice")
    return tuple(int(word) if word.isdecimal() else word for word in words)
