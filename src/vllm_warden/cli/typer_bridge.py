"""Commands written with Typer inside the click group: arguments go through untouched."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import click
import typer
from typer.main import get_command

Register = Callable[[typer.Typer], None]


def bridged(name: str, register: Register) -> click.Command:
    """A click command that hands all its words, ``--help`` included, to the Typer command."""
    app = _application(register)

    @click.command(
        name,
        short_help=textwrap.shorten(get_command(app).help or "", 60, placeholder="..."),
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def command(words: tuple[str, ...]) -> None:
        app(args=list(words), prog_name=f"vllm-warden {name}")

    return command


def typer_command(register: Register) -> object:
    """Typer's own command object, which knows its parameters (for the reference)."""
    return get_command(_application(register))


def _application(register: Register) -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    register(app)
    return app
