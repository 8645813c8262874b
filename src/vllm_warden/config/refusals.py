"""Settings that are well formed and still cannot be supervised, each with its reason.

These rules look at the raw tables, so that they speak up beside the type errors of the same file;
whatever has the wrong type is left to the models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from vllm_warden.config.wording import Fault, Path
from vllm_warden.core.plan.option_names import is_option_name
from vllm_warden.core.secrets import is_secret_name

# vLLM 0.32 `vllm serve --help`: short forms of options that have a long one.
_SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dcp": "decode_context_parallel_size",
    "ep": "enable_expert_parallel",
    "O": "optimization_level",
    "q": "quantization",
}
# Options that vLLM takes several times (argparse `append`).
_REPEATABLE = frozenset({"middleware"})
_OWN_TABLE = {
    "model": "model",
    "model_tag": "model",
    "host": "host",
    "port": "port",
}
_SECRET = frozenset({"api_key", "hf_token"})
_SEVERAL_NODES = frozenset(
    {
        "node_rank",
        "master_addr",
        "headless",
        "data_parallel_address",
        "data_parallel_start_rank",
        "data_parallel_hybrid_lb",
        "data_parallel_external_lb",
    }
)
_OUTSIDE_OUR_CGROUP = frozenset({"docker", "podman", "nerdctl", "systemd-run"})
_FALSE = frozenset({"0", "false", "no", "off", ""})
_BY_WARDEN = "the warden sets it for every attempt"
_READABLE = "a secret in argv is readable by every user"
_SERVICE_ONLY = "it belongs to the service manager and the daemon, never to an engine"
_VARIABLE_REASONS = {
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "a server that outlives its dead engine answers 503 for "
    "ever and is never relaunched",
    "VLLM_CONFIGURE_LOGGING": "without vLLM's own log lines no failure can be diagnosed",
    "VLLM_LOGGING_CONFIG_PATH": "a logging configuration of its own can send the lines elsewhere, "
    "undiagnosed",
    "VLLM_PORT": "vLLM takes its internal ports from VLLM_PORT upwards, so the API port is taken",
    "CUDA_DEVICE_ORDER": _BY_WARDEN,
    "CUDA_VISIBLE_DEVICES": _BY_WARDEN,
    "TMPDIR": _BY_WARDEN,
    "NO_COLOR": _BY_WARDEN,
    "NOTIFY_SOCKET": _SERVICE_ONLY,
    "LISTEN_FDS": _SERVICE_ONLY,
    "LISTEN_PID": _SERVICE_ONLY,
    "LISTEN_FDNAMES": _SERVICE_ONLY,
}
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_API_PORT_DEFAULT = 8000


def instance_refusals(name: str, table: Mapping[str, object]) -> Iterator[Fault]:
    """Every refusal in one ``[instance.NAME]`` table."""
    base: Path = ("instance", name)
    engine = table.get("engine")
    options = engine if isinstance(engine, dict) else {}
    given = table.get("extra_args")
    words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    yield from _command(base, table.get("command"))
    yield from _engine(base, options)
    yield from _extra_args(base, options, words)
    environment = table.get("environment")
    if isinstance(environment, dict):
        yield from environment_refusals((*base, "environment"), environment, _port(table))
        yield from _misplaced_secrets((*base, "environment"), environment)


def environment_refusals(
    where: Path, environment: Mapping[str, object], port: int | None
) -> Iterator[Fault]:
    """Variables that fight a supervisor; ``port`` is the API port of the same instance."""
    for variable, value in environment.items():
        reason = _variable_reason(variable, str(value), port)
        if reason is not None:
            hint = "remove it"
            yield Fault((*where, variable), _visible(variable, value), reason, hint=hint)


def listening_conflicts(instances: Mapping[str, object]) -> Iterator[Fault]:
    """Instances that would listen on the same port of the same address."""
    taken: list[tuple[str, int, str]] = []
    for name, table in instances.items():
        if not isinstance(table, dict):
            continue
        port, host = _port(table), str(table.get("host", "127.0.0.1"))
        if port is None:
            continue
        other = next((n for n, p, h in taken if p == port and _same_address(h, host)), None)
        if other is not None:
            reason = f"instance.{other} listens on this port as well"
            hint = "give each instance a port of its own; the default is 8000"
            yield Fault(("instance", name, "port"), port, reason, hint=hint)
        taken.append((name, port, host))


def _port(table: Mapping[str, object]) -> int | None:
    port = table.get("port", _API_PORT_DEFAULT)
    return port if isinstance(port, int) and not isinstance(port, bool) else None


def _same_address(one: str, other: str) -> bool:
    return one == other or bool({one, other} & {"0.0.0.0", "::", ""})  # noqa: S104 -- compared only


def _command(base: Path, command: object) -> Iterator[Fault]:
    if not isinstance(command, list):
        return
    for position, word in enumerate(command):
        if isinstance(word, str) and PurePath(word).name in _OUTSIDE_OUR_CGROUP:
            yield Fault(
                (*base, "command", position),
                word,
                "the engine would run outside the warden's cgroup, where it can neither be "
                "watched nor ended",
                hint="name the vllm program itself; the warden may run inside a container",
            )
        if isinstance(word, str) and PurePath(word).name == "ray":
            yield Fault((*base, "command", position), word, _RAY, hint=_RAY_HINT)
        elif isinstance(word, str) and (name := _secret_of(word)) is not None:
            hint = f"put {name} into environment_file"
            yield Fault((*base, "command", position), None, _READABLE, hint=hint)


def _secret_of(word: str) -> str | None:
    """The name of a variable or option in a command's word that gives or announces a secret."""
    name, assigned, value = word.partition("=")
    if not is_secret_name(name) or not (value or (word.startswith("--") and not assigned)):
        return None
    variable = name.strip("-").replace("-", "_").upper()
    return {"API_KEY": "VLLM_API_KEY"}.get(variable, variable)


_RAY = "engines of the Ray executor live outside this process tree, so they cannot be supervised"
_RAY_HINT = 'leave it out, or use "mp"'


def _engine(base: Path, options: Mapping[str, object]) -> Iterator[Fault]:
    where: Path = (*base, "engine")
    for key, value in options.items():
        path = (*where, key)
        if not is_option_name(key):
            yield _misspelled(path, key, value)
        elif key in _OWN_TABLE:
            yield Fault(path, value, "it has a key of its own", hint=_own_key(base, key))
        elif fault := _option_fault(path, key, value):
            yield fault


def _misspelled(path: Path, key: str, value: object) -> Fault:
    plain = key.strip("-").replace("-", "_")
    if is_option_name(plain):
        reason, hint = "engine options are written with underscores", f"write {plain}"
    else:
        reason = "engine options are written with letters, digits and underscores"
        hint = "write it as max_num_seqs; vllm serve --help lists the options"
    return Fault(path, value, reason, hint=hint)


def _own_key(base: Path, key: str) -> str:
    return f"set {'.'.join(map(str, base))}.{_OWN_TABLE[key]}"


def _option_fault(path: Path, key: str, value: object) -> Fault | None:
    if key in _SECRET:
        hint = "put VLLM_API_KEY or HF_TOKEN into environment_file"
        return Fault(path, None, _READABLE, hint=hint)
    if key in {"distributed_executor_backend", "data_parallel_backend"} and value == "ray":
        return Fault(path, value, _RAY, hint=_RAY_HINT)
    if key == "enable_fault_tolerance" and value is not False:
        reason = "the engine would wait for recovery instructions instead of ending when it fails"
        return Fault(path, value, reason, hint="remove it: the warden does the recovery")
    if key == "uds":
        return Fault(path, value, "the warden checks the engine over TCP", hint="use host and port")
    one_node = value in (1, "1") if key == "nnodes" else value is False
    if (key == "nnodes" or key in _SEVERAL_NODES) and not one_node:
        return Fault(path, value, "an instance is supervised on one node only", hint="remove it")
    return None


def _extra_args(base: Path, options: Mapping[str, object], words: list[str]) -> Iterator[Fault]:
    seen: set[str] = set()
    asked = {_canonical(key) for key in options}
    for position, word in enumerate(words):
        key = _option_name(word)
        if key is None:
            continue
        path = (*base, "extra_args", position)
        following = words[position + 1] if position + 1 < len(words) else None
        value = word.partition("=")[2] if "=" in word else following
        if key in _OWN_TABLE:
            yield Fault(path, word, "it has a key of its own", hint=_own_key(base, key))
        elif fault := _option_fault(path, key, value if value is not None else True):
            yield Fault(path, None if key in _SECRET else word, fault.reason, hint=fault.hint)
        elif key in asked or (key in seen and key not in _REPEATABLE):
            place = f"in {'.'.join(map(str, base))}.engine" if key in asked else "before"
            yield Fault(path, word, f"{key} is given {place} already", hint="keep one of them")
        seen.add(key)


def _option_name(word: str) -> str | None:
    """``--max-num-seqs=4`` and ``-tp`` by the name that ``[engine]`` uses; None for a value."""
    if word.startswith("--") and len(word) > 2:
        # `--compilation-config.level 3` sets one entry of a table: no repetition of the table.
        return _canonical(word[2:].partition("=")[0].replace("-", "_"))
    if word.startswith("-") and word[1:].partition("=")[0] in _SHORT:
        return _SHORT[word[1:].partition("=")[0]]
    return None


def _canonical(key: str) -> str:
    # BooleanOptionalAction: --x and --no-x are one option.
    return key.removeprefix("no_")


def _variable_reason(variable: str, value: str, port: int | None) -> str | None:
    off = value.strip().lower() in _FALSE
    harmless = {
        "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": off,
        "VLLM_CONFIGURE_LOGGING": not off,
        "VLLM_PORT": value.strip() != str(port),
    }
    if harmless.get(variable):
        return None
    if not _ENVIRONMENT_NAME.fullmatch(variable):
        return "this is no name for an environment variable"
    return _VARIABLE_REASONS.get(variable)


def _misplaced_secrets(where: Path, environment: Mapping[str, object]) -> Iterator[Fault]:
    for variable in environment:
        if variable == "VLLM_API_KEY":
            reason = "a secret does not belong into a file that everyone may read"
            yield Fault((*where, variable), None, reason, hint="put it into environment_file")


def _visible(variable: str, value: object) -> object:
    return value if variable.startswith(("VLLM_", "CUDA_")) else None
