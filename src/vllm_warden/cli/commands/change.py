"""``start``, ``stop``, ``restart``, ``hold``, ``resume``: ask for a change and see it through."""

from __future__ import annotations

import json
import sys
from typing import Annotated
from urllib.parse import quote

import typer

from vllm_warden.api.client import Client, Json
from vllm_warden.cli.exit_codes import ExitCode
from vllm_warden.cli.options import JsonOption, NameArgument, SocketOption, client_of, examples
from vllm_warden.cli.render import harmless
from vllm_warden.cli.wait import Goal, wait_for

NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Return as soon as the daemon accepted it.")
]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="Wait no longer than this; exit 1 then."),
]
NowOption = Annotated[bool, typer.Option("--now", help="Do not wait for running requests.")]


def register(app: typer.Typer) -> None:
    for command, lines in EXAMPLES.items():
        app.command(epilog=examples(*lines))(command)


def start(
    context: typer.Context,
    *,
    name: NameArgument,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
    socket: SocketOption = None,
) -> None:
    """Start an instance and wait until it is ready. Ctrl-C only stops the waiting."""
    goal = None if no_wait else Goal("ready")
    _change(
        client_of(context, socket),
        name,
        "start",
        as_json=as_json,
        goal=goal,
        timeout_seconds=timeout,
    )


def stop(
    context: typer.Context,
    *,
    name: NameArgument,
    now: NowOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
    socket: SocketOption = None,
) -> None:
    """Stop an instance and wait until its processes and GPU memory are gone.

    It stays stopped, across reboots too, until somebody starts it.
    """
    goal = None if no_wait else Goal("stopped")
    options: Json = {"now": True} if now else {}
    _change(
        client_of(context, socket),
        name,
        "stop",
        as_json=as_json,
        goal=goal,
        options=options,
        timeout_seconds=timeout,
    )


def restart(
    context: typer.Context,
    *,
    name: NameArgument,
    now: NowOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
    socket: SocketOption = None,
) -> None:
    """Stop an instance, start it again with the current configuration, wait until it is ready."""
    goal = None if no_wait else Goal("ready", fresh=True)
    options: Json = {"now": True} if now else {}
    _change(
        client_of(context, socket),
        name,
        "restart",
        as_json=as_json,
        goal=goal,
        options=options,
        timeout_seconds=timeout,
    )


def hold(
    context: typer.Context,
    *,
    name: NameArgument,
    as_json: JsonOption = False,
    socket: SocketOption = None,
) -> None:
    """Leave a running engine alone, but never relaunch it until resumed."""
    _change(client_of(context, socket), name, "hold", as_json=as_json)


def resume(
    context: typer.Context,
    *,
    name: NameArgument,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
    socket: SocketOption = None,
) -> None:
    """End a hold, by you or by the warden, and wait until the instance is ready."""
    goal = None if no_wait else Goal("ready")
    _change(
        client_of(context, socket),
        name,
        "resume",
        as_json=as_json,
        goal=goal,
        timeout_seconds=timeout,
    )


EXAMPLES = {
    start: (
        "vllm-warden start minimax-m25",
        "vllm-warden start minimax-m25 --no-wait",
        "vllm-warden start minimax-m25 --timeout 1800 || vllm-warden why minimax-m25",
    ),
    stop: (
        "vllm-warden stop minimax-m25",
        "vllm-warden stop minimax-m25 --now",
    ),
    restart: ("vllm-warden restart minimax-m25",),
    hold: ("vllm-warden hold minimax-m25",),
    resume: ("vllm-warden resume minimax-m25",),
}


def _change(
    client: Client,
    name: str,
    verb: str,
    *,
    as_json: bool,
    goal: Goal | None = None,
    options: Json | None = None,
    timeout_seconds: float | None = None,
) -> None:
    path = f"/v1/instances/{quote(name, safe='')}"
    before = client.get(path)
    event = client.post(f"{path}/{verb}", options)["event"]
    number = event if isinstance(event, int) else 0
    if goal is None:
        print(json.dumps({"event": number}) if as_json else f"{name}: {verb} accepted")
        return

    def tell(text: str) -> None:
        print(f"{name}: {harmless(text)}", file=sys.stderr if as_json else sys.stdout, flush=True)

    try:
        outcome, now = wait_for(
            client, before, number, goal, timeout_seconds=timeout_seconds, tell=tell
        )
    except KeyboardInterrupt:
        print(f"\n{name}: {verb} goes on; vllm-warden events -f shows it", file=sys.stderr)
        raise typer.Exit(ExitCode.OK) from None
    if as_json:
        print(json.dumps({"event": number, "outcome": outcome, "instance": now}, indent=2))
    else:
        print(_verdict(name, outcome, now))
    if outcome != "reached":
        raise typer.Exit(ExitCode.NO)


def _verdict(name: str, outcome: str, now: Json) -> str:
    reason = f": {harmless(str(now['reason']))}" if now.get("reason") else ""
    if outcome == "reached":
        return f"{name} is {now['state']}" + (" (degraded)" if now.get("degraded") else "")
    if outcome == "late":
        return f"{name} is still {now['state']}{reason}; it goes on without this command"
    return f"{name} is {now['state']}{reason}\nvllm-warden why {name} has the details"
