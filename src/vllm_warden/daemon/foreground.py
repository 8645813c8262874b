"""``vllm-warden serve``: the daemon for one instance, in the foreground."""

from __future__ import annotations

import asyncio
import io
import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vllm_warden.config.settings import DaemonSettings
from vllm_warden.config.translate import Translated
from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.lifecycle.events import StartRequested
from vllm_warden.core.lifecycle.states import RUNNING, Instance, State
from vllm_warden.core.model import Failure
from vllm_warden.core.plan.defaults import world_size
from vllm_warden.core.plan.drop_in import DropIn
from vllm_warden.core.plan.spec import AdaptSpec, InstanceSpec
from vllm_warden.daemon.refusal import USAGE, exit_code_of
from vllm_warden.daemon.run import Setup, run
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.wiring import connect_own_log, engine_installation, keep_files_private

ASKED, NOT_UP = 0, 1
EVERYWHERE = "0.0.0.0"  # noqa: S104
"""Where vLLM itself listens without --host (vLLM 0.32: ``args.host or ""``)."""
PROOF_MAX = 240
REFUSED_BY_ENGINE = frozenset(
    {
        Failure.CONFIGURATION_INVALID,
        Failure.PARALLELISM_INVALID,
        Failure.MODEL_UNSUPPORTED,
        Failure.MODEL_UNAVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class ForegroundOptions:
    """What ``serve`` was told beside the engine's own line."""

    name: str
    state_directory: Path
    socket: Path
    gpus: tuple[int | str, ...] | None = None
    adapt: AdaptSpec = field(default_factory=AdaptSpec)
    stay: bool = False
    termination_log: Path | None = None


def serve(line: DropIn, options: ForegroundOptions, environment: Mapping[str, str]) -> int:
    """Run until asked to stop, or until nothing more will be tried; returns the exit code."""
    keep_files_private()
    connect_own_log()
    spec = _spec(line, options, environment)
    outcome = _Outcome(options)
    daemon = DaemonSettings(
        socket=str(options.socket), state_directory=str(options.state_directory), log_backend="file"
    )

    def prepared(shell: Shell) -> None:
        copy_output(shell)
        shell.post(spec.name, StartRequested(shell.now(), "serve"))
        for command in ("why", "status"):
            _say(f"ask it: vllm-warden --socket {options.socket} {command} {spec.name}")

    setup = Setup(daemon, (Translated(spec),), changed=outcome.changed, prepared=prepared)
    outcome.stop = setup.stop
    try:
        asyncio.run(run(setup))
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        outcome.code, outcome.text = code, str(error)
    return outcome.tell()


class _Outcome:
    """Ends ``serve`` when the instance has come to rest without running."""

    def __init__(self, options: ForegroundOptions) -> None:
        self.code = ASKED
        self.text = "stopped as asked"
        self.stop: asyncio.Event | None = None
        self._launched = False
        self._socket = options.socket
        self._stay = options.stay or sys.stdout.isatty()
        self._termination_log = options.termination_log

    def changed(self, before: Instance, after: Instance) -> None:
        attempt = after.attempt
        if after.state in RUNNING and attempt is not None and attempt.identity is not None:
            self._launched = True
        if before.state is after.state:
            return
        if after.state in (State.HELD, State.FAILED):
            self.code = exit_code(after, launched=self._launched)
            verb = "has" if after.state is State.FAILED else "is"
            proof = _proof(after) if self._launched else ""
            self.text = f"{after.spec.name} {verb} {after.state}: {after.reason}{proof}"
            if not self._stay and self.stop is not None:
                self.stop.set()
            elif self._stay:
                ask = f"vllm-warden --socket {self._socket} why {after.spec.name}"
                _say(f"{self.text} (Ctrl-C ends; `{ask}` explains)")
        elif after.state is State.STOPPED and before.state is not State.STOPPED:
            self.code, self.text = ASKED, f"{after.spec.name} was stopped"
            if not self._stay and self.stop is not None:
                self.stop.set()
        else:
            self.code, self.text = ASKED, "stopped as asked"

    def tell(self) -> int:
        """Print the reason as the last line, leave it for a container runtime, return the code."""
        _say(self.text)
        if self._termination_log is not None:
            try:
                self._termination_log.write_text(self.text + "\n", encoding="utf-8")
            except OSError as error:
                _say(f"cannot write {self._termination_log}: {error.strerror}")
        return self.code


def exit_code(instance: Instance, *, launched: bool) -> int:
    """2 where the configuration or the arguments were refused, by us or by the engine, else 1.

    ``launched`` is whether an engine was started in this run; what fails before that is refused.
    """
    if instance.state is State.HELD:
        return NOT_UP
    if not launched:
        return USAGE
    diagnosis = instance.diagnosis
    refused = diagnosis is not None and diagnosis.failure in REFUSED_BY_ENGINE
    return USAGE if refused else NOT_UP


def _proof(instance: Instance) -> str:
    """The engine's own words, made harmless for a terminal; they name the flag or the file."""
    diagnosis = instance.diagnosis
    if diagnosis is None or not diagnosis.evidence:
        return ""
    text = diagnosis.evidence[0].text.strip()[:PROOF_MAX]
    return f" ({''.join(each if each.isprintable() else '?' for each in text)})"


def _spec(line: DropIn, options: ForegroundOptions, environment: Mapping[str, str]) -> InstanceSpec:
    home = environment.get("HOME")
    return InstanceSpec(
        name=options.name,
        model=str(Path(line.model).absolute()) if Path(line.model).is_dir() else line.model,
        gpus=_gpus(line, options, environment),
        port=line.port or 8000,
        host=line.host or EVERYWHERE,
        user=_own_user(),
        environment={} if home is None else {"HOME": home},
        command=line.command,
        secret_environment=line.secret_environment,
        engine=line.engine,
        extra_args=line.extra,
        adapt=options.adapt,
    )


def _own_user() -> str | None:
    """Whoever typed the line, root too: as the line ran before we stood in front of it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's uid without an account
        return None


def _gpus(
    line: DropIn, options: ForegroundOptions, environment: Mapping[str, str]
) -> tuple[int | str, ...]:
    """As told; none for a CPU engine; else CUDA_VISIBLE_DEVICES; else the first ones needed."""
    if options.gpus is not None:
        return options.gpus
    if engine_installation().facts(line.command).is_cpu:
        return ()
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        words = [word.strip() for word in visible.split(",") if word.strip()]
        return tuple(int(word) if word.isdecimal() else word for word in words)
    count = world_size(line.engine)
    _say(f"using GPU {', '.join(str(index) for index in range(count))} (set --gpus to choose)")
    return tuple(range(count))


def copy_output(shell: Shell) -> None:
    """The engine's lines go to our own output too, as they did before we stood in front.

    Until it takes no more: neither a reader that has gone nor a full disk may harm the engine.
    """

    def copy(_instance: str, _attempt: int, records: Sequence[LogRecord]) -> None:
        try:
            sys.stdout.write("".join(f"{record.text}\n" for record in records))
            sys.stdout.flush()
        except OSError as error:
            shell.line_listeners.discard(copy)
            # what is left in the buffer would fail again at the end, and change the exit code
            sys.stdout = io.StringIO()
            if not isinstance(error, BrokenPipeError):
                _say(f"cannot copy the engine's output: {error.strerror}; logs shows it")

    shell.line_listeners.add(copy)


def _say(text: str) -> None:
    print(f"vllm-warden: {text}", file=sys.stderr, flush=True)
