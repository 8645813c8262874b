"""``vllm-warden``: finds the command, imports only its module, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from vllm_warden import __version__
from vllm_warden.api.client import ApiError, DaemonUnreachable
from vllm_warden.cli.exit_codes import ExitCode, of_http_status
from vllm_warden.cli.options import SOCKET_ENVIRONMENT, Globals
from vllm_warden.cli.output import OutputFailed, own_output
from vllm_warden.cli.render import harmless
from vllm_warden.cli.wording import hint_in_words

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
    "accept": "accept",
    "forget": "forget",
    "serve": "serve",
    "diagnose": "diagnose",
    "explain": "explain",
    "plan": "plan",
    "check-config": "check_config",
    "doctor": "doctor",
    "demo": "demo",
}
"""Command to module in ``cli.commands``; each module has ``register(app)``."""

HELP = """Run vLLM, find out why it died, bring it back with the one change that helps.

\b
Examples:
  vllm-warden status                      what runs, and what does not
  vllm-warden why                         why it is in this state, with the proof
  vllm-warden diagnose engine.log         what killed that vLLM; needs no daemon
  vllm-warden plan MODEL --gpus 8         what fits, and why the rest does not
  vllm-warden serve MODEL --port 8000     put it in front of your vllm serve line
  vllm-warden restart NAME                and wait until it is ready

\b
Exit codes: 0 ok, 1 the answer is no, 2 usage or configuration,
3 daemon unreachable, 4 refused, 70 bug.
"""


class LazyCommands(click.Group):
    """Imports a command's module when that command is used, or help lists it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"vllm_warden.cli.commands.{COMMANDS[cmd_name]}")
        module.register(self)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what it complains about may name files that somebody else named."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise click.UsageError(harmless(error.format_message()), error.ctx) from None


@click.group(cls=LazyCommands, help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--socket",
    metavar="PATH",
    envvar=SOCKET_ENVIRONMENT,
    show_envvar=True,
    help="The daemon's socket [/run/vllm-warden/api.sock].",
)
@click.version_option(__version__, prog_name="vllm-warden", message="%(prog)s %(version)s")
@click.pass_context
def application(context: click.Context, socket: str | None) -> None:
    """Keep what stands before the command (the help text is HELP)."""
    context.obj = Globals(socket)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        with own_output():
            return _run(arguments)
    except OutputFailed as failed:
        if failed.code is not ExitCode.PIPE_CLOSED:
            with own_output():
                _complain(str(failed), "", failed.code)
        return failed.code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        application.main(arguments and list(arguments), prog_name="vllm-warden")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except OutputFailed:
        raise
    except DaemonUnreachable as error:
        return _complain(str(error), "", ExitCode.UNREACHABLE)
    except ApiError as error:
        return _complain(str(error), hint_in_words(error.hint), of_http_status(error.status))
    except Exception as error:  # noqa: BLE001 - the last place that can say it in one line
        return _bug(error)


def _complain(reason: str, hint: str, code: ExitCode) -> int:
    print(f"vllm-warden: {harmless(reason)}", file=sys.stderr)
    if hint:
        print(f"  {harmless(hint)}", file=sys.stderr)
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
