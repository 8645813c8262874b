"""``start``, ``stop``, ``restart``, ``hold``, ``resume``: ask for a change and see it through."""

from __future__ import annotations

import json
import math
import sys

import click

from vllm_warden.api.client import Client, Json
from vllm_warden.cli.exit_codes import ExitCode
from vllm_warden.cli.given_settings import given_settings
from vllm_warden.cli.options import (
    client_of,
    examples,
    instance_path,
    json_option,
    name_argument,
    socket_option,
)
from vllm_warden.cli.render import harmless
from vllm_warden.cli.wait import Goal, wait_for

WAIT_SECONDS_MAX = 1e9


def _finite(seconds: float | None) -> float | None:
    """Refuse nan, which no range does and no wait ever reaches."""
    if seconds is not None and not math.isfinite(seconds):
        raise click.BadParameter("this is no number of seconds")
    return seconds


no_wait_option = click.option(
    "--no-wait", is_flag=True, help="Return as soon as the daemon accepted it."
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(0, WAIT_SECONDS_MAX, clamp=False),
    callback=lambda _context, _option, value: _finite(value),
    metavar="SECONDS",
    help="Wait no longer than this; exit 1 then.",
)
retry_capacity_option = click.option(
    "--retry-capacity",
    is_flag=True,
    help="Try the asked settings again instead of the learned ones; back to these if that fails.",
)
now_option = click.option("--now", is_flag=True, help="Do not wait for running requests.")


def register(app: click.Group) -> None:
    for command in (start, stop, restart, hold, resume):
        app.add_command(command)


@click.command(
    epilog=examples(
        "vllm-warden start minimax-m25",
        "vllm-warden start minimax-m25 --no-wait",
        "vllm-warden start minimax-m25 --retry-capacity",
        "vllm-warden start minimax-m25 --timeout 1800 || vllm-warden why minimax-m25",
    )
)
@name_argument
@retry_capacity_option
@no_wait_option
@timeout_option
@json_option
@socket_option
def start(
    *,
    name: str,
    retry_capacity: bool,
    no_wait: bool,
    timeout: float | None,
    as_json: bool,
    socket: str | None,
) -> None:
    """Start an instance and wait until it is ready. Ctrl-C only stops the waiting.

    An instance that is held is started too, and its hold ends.
    """
    _change(
        client_of(socket),
        name,
        "start",
        as_json=as_json,
        goal=None if no_wait else Goal("ready", tried={} if retry_capacity else None),
        options={"retry_capacity": True} if retry_capacity else {},
        timeout_seconds=timeout,
    )


@click.command(
    short_help="Stop an instance; it stays stopped.",
    epilog=examples("vllm-warden stop minimax-m25", "vllm-warden stop minimax-m25 --now"),
)
@name_argument
@now_option
@no_wait_option
@timeout_option
@json_option
@socket_option
def stop(
    *, name: str, now: bool, no_wait: bool, timeout: float | None, as_json: bool, socket: str | None
) -> None:
    """Stop an instance and wait until its processes and GPU memory are gone.

    It stays stopped, across reboots too, until somebody starts it.
    """
    _change(
        client_of(socket),
        name,
        "stop",
        as_json=as_json,
        goal=None if no_wait else Goal("stopped"),
        options={"now": True} if now else {},
        timeout_seconds=timeout,
    )


@click.command(
    short_help="Stop and start with the current configuration.",
    epilog=examples(
        "vllm-warden restart minimax-m25",
        "vllm-warden restart minimax-m25 --retry-capacity",
        "vllm-warden restart minimax-m25 --set max_num_seqs=512",
    ),
)
@name_argument
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="KEY=VALUE",
    help="Run with this engine option for one launch; may be repeated.",
)
@retry_capacity_option
@now_option
@no_wait_option
@timeout_option
@json_option
@socket_option
def restart(
    *,
    name: str,
    given: tuple[str, ...],
    retry_capacity: bool,
    now: bool,
    no_wait: bool,
    timeout: float | None,
    as_json: bool,
    socket: str | None,
) -> None:
    """Stop an instance, start it with the current configuration, wait until it is ready.

    A hold ends with it. Options of --set hold for one launch: the next one, after a crash too,
    is with the learned settings again. Should the launch not last, that comes at once, the restart
    budget is not used for it, and this command says so and exits 1; the same goes for
    --retry-capacity.
    """
    options: Json = {"now": True} if now else {}
    if retry_capacity:
        options["retry_capacity"] = True
    tried: Json | None = {} if retry_capacity else None
    if given:
        options["set"] = tried = {**given_settings(given, "--set")}
    _change(
        client_of(socket),
        name,
        "restart",
        as_json=as_json,
        goal=None if no_wait else Goal("ready", fresh=True, tried=tried),
        options=options,
        timeout_seconds=timeout,
    )


@click.command(
    short_help="Never relaunch an instance until it is resumed.",
    epilog=examples("vllm-warden hold minimax-m25"),
)
@name_argument
@json_option
@socket_option
def hold(*, name: str, as_json: bool, socket: str | None) -> None:
    """Leave a running engine alone, but never relaunch it until resumed."""
    _change(client_of(socket), name, "hold", as_json=as_json)


@click.command(
    short_help="End a hold and wait until the instance is ready.",
    epilog=examples("vllm-warden resume minimax-m25"),
)
@name_argument
@no_wait_option
@timeout_option
@json_option
@socket_option
def resume(
    *, name: str, no_wait: bool, timeout: float | None, as_json: bool, socket: str | None
) -> None:
    """End a hold, by you or by the warden, and wait until the instance is ready."""
    goal = None if no_wait else Goal("ready")
    _change(client_of(socket), name, "resume", as_json=as_json, goal=goal, timeout_seconds=timeout)


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
    path = instance_path(name)
    before = client.get(path)
    event = client.post(f"{path}/{verb}", options)["event"]
    number = event if isinstance(event, int) else 0
    ends_hold = _ended_hold(before, verb)
    if goal is None:
        accepted = f"{name}: {verb} accepted" + (f"; {ends_hold}" if ends_hold else "")
        print(json.dumps({"event": number}) if as_json else accepted)
        return

    def tell(text: str) -> None:
        print(f"{name}: {harmless(text)}", file=sys.stderr if as_json else sys.stdout, flush=True)

    if ends_hold:
        tell(ends_hold)
    try:
        outcome, now = wait_for(
            client, before, number, goal, timeout_seconds=timeout_seconds, tell=tell
        )
    except KeyboardInterrupt:
        print(
            f"\n{name}: nothing is undone, {verb} goes on; vllm-warden events -f shows it",
            file=sys.stderr,
        )
        raise SystemExit(ExitCode.INTERRUPTED) from None
    if as_json:
        print(json.dumps({"event": number, "outcome": outcome, "instance": now}, indent=2))
    else:
        print(_verdict(name, outcome, now))
    if outcome != "reached":
        raise SystemExit(ExitCode.NO)


def _ended_hold(before: Json, verb: str) -> str:
    """A hold that ends although nobody typed ``resume`` is said aloud."""
    held = before.get("wanted") == "held"
    ends = held and (verb == "restart" or (verb == "start" and before["state"] == "held"))
    return f"{verb} ends the hold" if ends else ""


def _verdict(name: str, outcome: str, now: Json) -> str:
    reason = f": {harmless(str(now['reason']))}" if now.get("reason") else ""
    if outcome == "reached":
        return f"{name} is {now['state']}" + (" (degraded)" if now.get("degraded") else "")
    details = f"\nvllm-warden why {name} has the details"
    if outcome == "went-back":
        return f"{name} is {now['state']}, but not with what was to be tried{_why(now)}{details}"
    if outcome == "late":
        return f"{name} is still {now['state']}{reason}; it goes on without this command"
    verb = "has" if now["state"] == "failed" else "is"
    return f"{name} {verb} {now['state']}{reason}{details}"


def _why(now: Json) -> str:
    decision = now.get("decision")
    reason = decision.get("reason") if isinstance(decision, dict) else None
    return f": {harmless(str(reason))}" if reason else ""
