"""``vllm-warden``: finds the command, imports only its module, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from vllm_warden import __version__
from vllm_warden.api.client import ApiError, DaemonUnreachable
from vllm_warden.cli.exit_codes import ExitCode, of_http_status
from vllm_warden.cli.options import SOCKET_ENVIRONMENT, Globals

COMMANDS = {
    "status": "status",
    "why": "why",
    "incidents": "incidents",
    "events": "events",
    "logs": "logs",
    "start": "change",
    "stop": "change",
    "restart": "change",
    "hold": "change",
    "resume": "change",
    "serve": "serve",
    "diagnose": "diagnose",
    "check-config": "check_config",
    "demo": "demo",
}
"""Command to module in ``cli.commands``; each module has ``register(app)``."""

HELP = """Run vLLM, find out why it died, bring it back with the one change that helps.

\b
Examples:
  vllm-warden status                      what runs, and what does not
  vllm-warden why                         why it is in this state, with the proof
  vllm-warden diagnose engine.log         what killed that vLLM; needs no daemon
  vllm-warden serve MODEL --port 8000     put it in front of your vllm serve line
  vllm-warden restart NAME                and wait until it is ready

\b
Exit codes: 0 ok, 1 the answer is no, 2 usage or configuration,
3 daemon unreachable, 4 refused, 70 bug.
"""


def build_app(command: str | None = None) -> typer.Typer:
    """The application with one command's module, or with all of them (help, unknown word)."""
    app = typer.Typer(
        name="vllm-warden",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_before_command)
    modules = [COMMANDS[command]] if command in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        importlib.import_module(f"vllm_warden.cli.commands.{module}").register(app)
    return app


def first_command(words: Sequence[str]) -> str | None:
    """The first word that is no option of the program itself."""
    remaining = iter(words)
    for word in remaining:
        if word == "--socket":
            next(remaining, None)
        elif not word.startswith("-"):
            return word
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        build_app(first_command(words))(args=words, prog_name="vllm-warden")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except DaemonUnreachable as error:
        return _complain(str(error), "", ExitCode.UNREACHABLE)
    except ApiError as error:
        return _complain(str(error), error.hint, of_http_status(error.status))
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the last place that can say it in one line
        return _bug(error)
    return ExitCode.OK


def _before_command(
    context: typer.Context,
    socket: Annotated[
        str | None,
        typer.Option(
            "--socket",
            metavar="PATH",
            envvar=SOCKET_ENVIRONMENT,
            help="The daemon's socket [/run/vllm-warden/api.sock].",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    if version:
        print(f"vllm-warden {__version__}")
        raise typer.Exit
    context.obj = Globals(socket)


def _complain(reason: str, hint: str, code: ExitCode) -> int:
    print(f"vllm-warden: {reason}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    return code


def _bug(error: Exception) -> int:
    if os.environ.get("WARDEN_DEBUG") == "1":
        import traceback  # noqa: PLC0415 - only needed here

        traceback.print_exception(error)
    return _complain(
        f"this is a bug: {type(error).__name__}: {error}",
        "please report it with the output of the same command under WARDEN_DEBUG=1",
        ExitCode.BUG,
    )
