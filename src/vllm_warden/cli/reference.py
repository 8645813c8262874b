"""Writes docs/reference/cli.md from the commands themselves."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from vllm_warden.cli.main import COMMANDS, HELP, application

_INTRODUCTION = """\
# Command line

Generated from the commands; rewrite it with `make docs`.

`vllm-warden` is what people type; `vllm-wardend` is the daemon behind it. Commands that ask the
daemon take `--socket PATH`, before or after the command, or `WARDEN_SOCKET`; the default is
`/run/vllm-warden/api.sock`, and where that is missing the one `vllm-warden serve` of yours that
runs. Colour is used on terminals only, and not where `NO_COLOR` is set.

| exit code | meaning |
|---|---|
| 0 | it is done, or here is the answer |
| 1 | the answer is no: it did not become ready, there is no failure in that log |
| 2 | wrong arguments or configuration, an unknown instance included; or the output cannot be \
written |
| 3 | the daemon cannot be reached |
| 4 | the daemon refused: not allowed, or not now |
| 130 | Ctrl-C ended the waiting; what was asked for goes on |
| 141 | whoever read the output has gone, as with `head` |
| 70 | a bug; run it again with `WARDEN_DEBUG=1` and report the traceback |

Commands that change something wait until the state is reached and show what happens meanwhile.
`--no-wait` does not wait, `--timeout` stops waiting with exit code 1, Ctrl-C only detaches: what
was asked for goes on in every case.
"""

_ARGUMENTS = {
    "name": "The instance.",
    "number": "The incident's number.",
    "subject": "A failure or a signature.",
    "files": "Logs to read; - for standard input.",
    "line": "MODEL and its arguments, or a whole command.",
}
"""Click's arguments carry no help text of their own."""


def render() -> str:
    """The whole page."""
    lines = [_INTRODUCTION, "## Examples", "", *_indented(HELP.split("\b")[1].strip())]
    for name in COMMANDS:
        command = _command(name)
        lines += ["", f"## `vllm-warden {name}`", "", inspect.cleandoc(command.help or "")]
        rows = list(_rows(command))
        if rows:
            lines += ["", "| argument or option | meaning |", "|---|---|", *rows]
        if command.epilog:
            lines += ["", *_indented(command.epilog.lstrip("\b").strip())]
    return "\n".join(lines) + "\n"


def _command(name: str) -> click.Command:
    found = application.get_command(click.Context(application), name)
    assert found is not None  # noqa: S101 -- the name comes from the same table
    return found


def _rows(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "argument":
            words = (parameter.metavar or parameter.name).strip("[]").upper()
            label = f"`{words}`".replace("|", "\\|")
            text = getattr(parameter, "help", None) or _ARGUMENTS.get(parameter.name, "")
        else:
            names = ", ".join([*parameter.opts, *parameter.secondary_opts])
            takes_value = not getattr(parameter, "is_flag", False)
            word = (parameter.metavar or parameter.name.upper()) if takes_value else ""
            label, text = f"`{names} {word}".rstrip() + "`", parameter.help or ""
        yield f"| {label} | {text} |"


def _indented(text: str) -> Iterator[str]:
    for line in text.split("\n")[1:]:
        yield f"    {line.strip()}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
