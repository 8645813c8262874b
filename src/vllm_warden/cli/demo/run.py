"""Runs the demo: follows the daemon, draws, asks for a completion, judges, clears up."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.live import Live

from vllm_warden.api.client import ApiError, DaemonUnreachable, Json
from vllm_warden.cli.demo.lines import event_line, summary
from vllm_warden.cli.demo.stage import INSTANCE, CannotStage, Stage, make_stage
from vllm_warden.cli.demo.state import (
    DemoState,
    listed,
    part,
    see_event,
    see_incidents,
    see_memory,
    see_status,
)
from vllm_warden.cli.demo.verdict import shortcomings
from vllm_warden.cli.demo.view import frame
from vllm_warden.simulation.build import CannotBuild

LIMIT_SECONDS = 180.0
LOOK_SECONDS = 0.2
HELD_FOR_SECONDS = 1.0
PICTURE_WIDTH = 110
PROMPT = "Say that you are ready."


@dataclass(slots=True)
class Watch:
    """One run of the demo."""

    stage: Stage
    state: DemoState
    began: float = field(default_factory=time.monotonic)
    on_event: Callable[[float, str, str], None] = lambda *_: None
    _events: queue.Queue[Json] = field(default_factory=queue.Queue)

    def run(self, draw: Callable[[], None], limit_seconds: float) -> None:
        """Until it is over, or the limit. Raises CannotStage when the daemon goes away."""
        self.stage.wait_for_daemon()
        threading.Thread(target=self._follow, daemon=True).start()
        drawn_after_end = 0.0
        while True:
            self._look()
            draw()
            if self.state.over and not drawn_after_end:
                drawn_after_end = time.monotonic()
            # What comes with the end (proven, held, the incident) is still told.
            if drawn_after_end and time.monotonic() - drawn_after_end > HELD_FOR_SECONDS:
                return
            if self.state.now_seconds > limit_seconds:
                return
            time.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        state, client = self.state, self.stage.client
        state.now_seconds = time.monotonic() - self.began
        try:
            status = client.get("/v1/status")
            self._drain()
            see_status(state, status)
            path = f"/v1/instances/{INSTANCE}"
            see_memory(state, client.get(f"{path}/memory"))
            see_incidents(state, listed(client.get(f"{path}/incidents"), "incidents"))
        except (DaemonUnreachable, ApiError) as error:
            raise CannotStage(self.stage.why_no_daemon(str(error))) from error
        for instance in listed(status, "instances"):
            pids = part(instance, "pids")
            self.stage.remember(int(pid) for pid in part(pids, "engine"))
        if state.state == "ready" and state.completion is None:
            state.completion = ask(self.stage.port, self.stage.directory)

    def _drain(self) -> None:
        with suppress(queue.Empty):
            while True:
                event = self._events.get_nowait()
                see_event(self.state, event)
                self.on_event(*self.state.events[-1])

    def _follow(self) -> None:
        """A thread of its own; the loop above notices a lost daemon itself."""
        with suppress(DaemonUnreachable, ApiError, OSError):
            stream = self.stage.client.stream("/v1/events", {"after": 0, "follow": 1})
            for event in stream:
                if event is not None and event.get("instance") in {INSTANCE, None}:
                    self._events.put(event)


def ask(port: int, directory: Path) -> str | None:
    """One completion from the engine itself; None when there is no answer yet."""
    body = {"model": str(directory / "minimax-m2.5"), "prompt": PROMPT, "max_tokens": 4}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    # No proxy: the engine is on this host whatever the environment says.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as answer:
            document = json.load(answer)
    except (OSError, ValueError):
        return None
    text = str(listed(document, "choices")[0].get("text", "")).strip()
    return f"{PROMPT!r} was answered: {text!r}"


def demo(mode: str, *, plain: bool, keep: bool, speed: float, picture: Path | None = None) -> int:
    """The exit status: 0 when everything was shown, else 1 with the reasons printed."""
    console = Console(highlight=False)
    stage = make_stage(mode, speed)
    watch = Watch(stage, DemoState(INSTANCE))
    try:
        with ended_like_ctrl_c():
            stage.start()
            if plain or not console.is_terminal:
                _run_plain(watch)
            else:
                _run_drawn(watch, console)
    except (CannotBuild, CannotStage) as error:
        print(f"vllm-warden: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; clearing up", file=sys.stderr)
        return 1
    finally:
        stage.clear(keep=keep)
    missing = shortcomings(watch.state)
    print("\n".join(["", *summary(watch.state, missing), *for_real()]))
    if keep:
        print(f"The files are in {stage.directory}.")
    if picture is not None:
        try:
            save_picture(watch.state, picture)
        except OSError as error:
            print(f"vllm-warden: cannot write {picture}: {error.strerror}", file=sys.stderr)
            return 2
    return 1 if missing else 0


def _run_plain(watch: Watch) -> None:
    print("The GPUs are simulated; the warden is the real one. This takes about a minute.")
    watch.on_event = lambda at, kind, text: print(event_line(at, kind, text), flush=True)
    watch.run(lambda: None, LIMIT_SECONDS)


def _run_drawn(watch: Watch, console: Console) -> None:
    with Live(console=console, refresh_per_second=12, transient=False) as live:
        watch.run(
            lambda: live.update(frame(watch.state, console.width, console.height)), LIMIT_SECONDS
        )


def save_picture(state: DemoState, path: Path) -> None:
    """The last frame as SVG, in the reader's own fonts: rich would name a server for them."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=PICTURE_WIDTH, file=nowhere, force_terminal=True)
        console.print(frame(state, PICTURE_WIDTH))
        drawn = console.export_svg(title="vllm-warden demo")
    drawn = re.sub(r"\s*@font-face \{[^}]*\}", "", drawn)
    path.write_text(drawn.replace("font-family: Fira Code,", "font-family:"), encoding="utf-8")


def for_real() -> list[str]:
    """The one command for this machine's own GPU, where there is one and vLLM too."""
    import shutil  # noqa: PLC0415 - only needed at the end

    if not Path("/dev/nvidia0").exists() or shutil.which("vllm") is None:
        return []
    return ["", "This machine has a GPU and vLLM; for real:", f"  {REAL_COMMAND}"]


REAL_COMMAND = "vllm-warden serve Qwen/Qwen3-0.6B --max-num-seqs 1024"


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP clear up as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
